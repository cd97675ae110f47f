"""What the tests share: small data made on the spot, and real data where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from proof import Embeddings, Stream
from proof.embeddings import Split

REPOSITORY = Path(__file__).resolve().parents[1]


def make_data(classes: int = 12, d: int = 16, train: int = 20, test: int = 8) -> Embeddings:
    """Clusters around class centres; the texts are the centres seen through noise."""
    generator = torch.Generator().manual_seed(7)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    centres = F.normalize(randn(classes, d), dim=1)
    names = tuple(f"class {index}" for index in range(classes))

    def split(count: int) -> Split:
        codes = torch.arange(classes).repeat_interleave(count)
        codes = codes[torch.randperm(len(codes), generator=generator)]
        return Split(9 * (centres[codes] + 0.15 * randn(len(codes), d)), codes, names)

    texts = F.normalize(centres + 0.3 * randn(classes, d), dim=1)
    return Embeddings(split(train), split(test), texts, "made", {"encoder": "none"})


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
