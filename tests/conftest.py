"""What the tests share: small data made on the spot, and real data where they are at hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from proof import Budget, Embeddings, Run, Stream
from proof.runs import Record
from proof.testing import toy_data as make_data

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def data() -> Embeddings:
    return make_data()


@pytest.fixture
def stream(data: Embeddings) -> Stream:
    return Stream.of(data, "B0-Inc4")


@pytest.fixture(scope="session")
def cifar100() -> Embeddings:
    """All of CIFAR-100 behind CLIP; it lies beside the repository, not in it."""
    path = REPOSITORY.parent / "shared" / "embeddings" / "cifar100.safetensors"
    if not path.exists():
        pytest.skip("the whole CIFAR-100 embeddings are not at hand")
    return Embeddings.load(path)


@pytest.fixture(scope="session")
def records() -> list[Record]:
    """Of real runs, two methods with two seeds each, that bear the name of published ones."""
    stream = Stream.of(dataclasses.replace(make_data(classes=20), name="cifar100"), "B0-Inc10")
    runs = [
        Run(method, stream, seed=seed, budget=Budget(per_class=4), device="cpu", **options)
        for method, options in (("simplecil", {}), ("proof", {"epochs": 1}))
        for seed in (0, 1)
    ]
    for run in runs:
        while not run.done:
            run.step()
    return [run.record() for run in runs]


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real open_clip model, tiny, with its weights, in open_clip's own folder layout."""
    open_clip = pytest.importorskip("open_clip")
    folder = tmp_path_factory.mktemp("tiny-clip")
    save_clip(open_clip, folder)
    return folder


TINY = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {
        "context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2,
    },
}  # fmt: skip


def save_clip(open_clip: Any, folder: Path, seed: int = 0) -> Any:
    """Write open_clip_config.json and open_clip_model.safetensors of a tiny model."""
    torch.manual_seed(seed)
    model = open_clip.CLIP(**TINY).eval()
    with torch.no_grad():  # as large as those of a trained model, so that pictures differ
        model.visual.proj *= 20
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": TINY}))
    save_file(
        {name: value.contiguous() for name, value in model.state_dict().items()},
        folder / "open_clip_model.safetensors",
    )
    return model


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PROOF_CACHE", str(folder))
    return folder


def make_pictures(folder: Path, count: int, size: tuple[int, int] = (60, 40)) -> list[Path]:
    """JPEG files that all differ."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:04}.jpg" for index in range(count)]
    for path in paths:
        noise = rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(path, quality=90)
    return paths
