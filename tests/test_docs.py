"""What the documents show must run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from conftest import REPOSITORY
from proof import Embeddings
from proof.models import write_model
from proof.records import read_records
from proof.reports import written
from proof.reports.groups import in_order, settings_of


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


STREAMS = [
    ("cifar100", "B0-Inc10"), ("cifar100", "B50-Inc10"), ("cub200", "B0-Inc20"),
    ("cub200", "B100-Inc20"), ("flowers102", "20,20,20,20,22"), ("flowers102", "B42-Inc20"),
]  # fmt: skip


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Average and last accuracy by data, protocol and method, as the records have them."""
    settings = settings_of(read_records([REPOSITORY / "docs" / "results" / "records"]))
    return {
        (setting.first["data"], setting.first["protocol"], entry.label): (entry.average, entry.last)
        for setting in settings
        for entry in setting.entries
    }


@pytest.mark.parametrize(
    ("document", "streams", "digits"),
    [("docs/results.md", STREAMS, 2), ("README.md", STREAMS[::2], 1)],
)
def test_tables_of_results_are_those_of_the_records(
    document: str,
    streams: list[tuple[str, str]],
    digits: int,
    measured: dict[tuple[str, str, str], tuple[float, float]],
) -> None:
    text, checked = (REPOSITORY / document).read_text(), 0
    for line in text.splitlines():
        cells = [cell.strip(" *") for cell in line.replace("**", "").split("|")[1:-1]]
        pairs = [re.fullmatch(r"([\d.]+) / ([\d.]+)", cell) for cell in cells[1:]]
        found = [pair for pair in pairs if pair]
        if not cells or len(found) != len(streams):
            continue
        method = cells[0].removesuffix(" (joint)").strip("`")
        for (data, protocol), pair in zip(streams, found, strict=True):
            values = measured[data, protocol, method]
            for said, value in zip(pair.groups(), values, strict=True):
                assert abs(float(said) - value) <= 0.51 * 10**-digits, (method, data, protocol)
        checked += 1
    assert checked >= 6


def test_the_tables_beside_the_records_are_made_of_them() -> None:
    folder = REPOSITORY / "docs" / "results"
    settings = in_order(settings_of(read_records([folder / "records"])))
    assert (folder / "table.md").read_text() == written.markdown(settings)
    assert (folder / "table.csv").read_text() == written.csv(settings)
