"""What the documents show must run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import torch
from PIL import Image

from conftest import REPOSITORY
from proof import Embeddings
from proof.models import write_model


def example(document: str, about: str = "") -> str:
    """The first block of Python in a document that has a word in it."""
    text = (REPOSITORY / "docs" / document).read_text()
    blocks: list[str] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if about in block)


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_method_of_the_guide_is_a_method(tmp_path: Path) -> None:
    (tmp_path / "means.py").write_text(example("adding-a-method.md"))
    shown = run(
        "-m", "proof", "bench", "cifar100-small", "--plugin", "means.py",
        "--methods", "means,means:temperature=0.02,simplecil", cwd=tmp_path,
    )  # fmt: skip
    last = {
        line.split()[1]: line.split()[5]
        for line in shown.splitlines()
        if "%" not in line and line.startswith("│")
    }
    assert last["means"] == last["means:temperature=0.02"] == last["simplecil"]
    (tmp_path / "check.py").write_text(example("adding-a-method.md", "check_learner"))
    run("check.py", cwd=tmp_path)


def test_the_embeddings_file_of_the_guide_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example("embeddings-format.md"))
    run("example.py", cwd=tmp_path)
    data = Embeddings.load(tmp_path / "kitchen.safetensors")
    assert data.class_names == ("espresso machine", "moka pot")
    assert data.metadata == {"encoder": "ViT-B-16"}


def test_the_model_file_is_read_as_its_description_says(tmp_path: Path) -> None:
    write_model(tmp_path / "kitchen.proof", {"classes": ["cup"]}, {"means": torch.ones(1, 4)})
    (tmp_path / "example.py").write_text(example("model-file.md"))
    shown = run("example.py", cwd=tmp_path)
    assert shown == "{'classes': ['cup']}\nmeans float32 (1, 4)\n"


def test_the_encoder_of_the_guide_is_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "colours.py").write_text(example("adding-an-encoder.md"))
    for colour in ("red", "green", "blue"):
        folder = tmp_path / "photos" / colour
        folder.mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (40, 40), colour).save(folder / f"{number}.png", comment=str(number))
    shown = run(
        "-m", "proof", "bench", "photos", "--plugin", "colours.py", "--encoder", "colours:mean",
        "--methods", "zero-shot,simplecil", "--protocol", "B0-Inc1", cwd=tmp_path,
    )  # fmt: skip
    assert shown.count("100.00") >= 4, shown
