"""What must hold on a GPU; skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from conftest import make_data
from proof import Budget, Embeddings, Run, Stream, Task, create, list_methods

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def finished(method: str, stream: Stream, device: str) -> Run:
    run = Run(method, stream, budget=Budget(per_class=20), device=device)
    while not run.done:
        run.step()
    return run


def test_gpu_learns_what_the_cpu_learns() -> None:
    stream = Stream.of(Embeddings.load("cifar100-small"), "B0-Inc50")
    cpu, gpu = finished("proof", stream, "cpu"), finished("proof", stream, "cuda")
    assert gpu.curve == pytest.approx(cpu.curve, abs=0.3)
    images = stream.data.test.images
    difference = (gpu.learner.scores(images).cpu() - cpu.learner.scores(images)).abs()
    assert difference.mean() < 1e-3


@pytest.mark.parametrize("method", list_methods())
def test_same_seed_same_numbers_bit_for_bit(method: str) -> None:
    stream = Stream.of(make_data(d=64, train=400), "B0-Inc4")
    first, second = (finished(method, stream, "cuda") for _ in range(2))
    images = stream.data.test.images
    assert torch.equal(first.learner.scores(images), second.learner.scores(images))


def test_ten_thousand_classes_fit_in_8_gb() -> None:
    classes, d = 10_000, 512
    names = tuple(map(str, range(classes)))
    images = torch.randn(classes, d)
    torch.cuda.reset_peak_memory_stats()
    learner = create("proof:epochs=1:batch_size=256", device="cuda", budget=Budget(per_class=1))
    learner.learn(Task(names, torch.randn(classes, d), images, list(names)))
    learner.scores(images[:4096])
    assert torch.cuda.max_memory_allocated() < 8e9
