"""Accuracy on real embeddings: a small part of CIFAR-100 always, all of it where it is at hand."""

from __future__ import annotations

import pytest

from proof import Budget, Embeddings, Run, Stream


def result(method: str, stream: Stream, budget: Budget) -> tuple[float, float]:
    run = Run(method, stream, budget=budget, device="cpu")
    while not run.done:
        run.step()
    record = run.record()
    return record["average"], record["last"]


@pytest.fixture(scope="module")
def small() -> Stream:
    return Stream.of(Embeddings.load("cifar100-small"), "B0-Inc10")


def test_baselines_on_a_part_of_cifar100(small: Stream) -> None:
    assert result("zero-shot", small, Budget()) == pytest.approx((76.12, 65.80), abs=0.02)
    assert result("simplecil", small, Budget()) == pytest.approx((78.24, 68.53), abs=0.02)


def test_proof_on_a_part_of_cifar100(small: Stream) -> None:
    average, last = result("proof", small, Budget(per_class=20))
    assert average > 84.0
    assert last > 76.8


def test_baselines_on_cifar100(cifar100: Embeddings) -> None:
    stream = Stream.of(cifar100, "B0-Inc10")
    assert result("zero-shot", stream, Budget()) == pytest.approx((76.48, 65.51), abs=0.02)
    assert result("simplecil", stream, Budget()) == pytest.approx((78.97, 70.06), abs=0.02)


def test_proof_on_cifar100(cifar100: Embeddings) -> None:
    average, last = result("proof", Stream.of(cifar100, "B0-Inc10"), Budget(total=2000))
    assert average > 86.4
    assert last > 79.3
