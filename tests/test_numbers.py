"""Accuracy on real embeddings: a small part of CIFAR-100 always, all of it where it is at hand."""

from __future__ import annotations

import pytest

from proof import Budget, Embeddings, Run, Stream
from proof.pairs import Pairs


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


def test_residual_projections_keep_more_of_zero_shot(small: Stream) -> None:
    """The trade of the paper's dagger variant, watched on classes that are not learned yet."""
    stream = Stream.of(small.data, "B0-Inc25")
    unseen = small.data.test.of(stream.order[50:])
    pairs = Pairs(unseen.images, small.data.texts[unseen.codes])
    kept = {}
    for method in ("proof", "proof-residual"):
        run = Run(method, stream, budget=Budget(per_class=20), device="cpu", pairs=pairs)
        run.step()
        run.step()
        kept[method] = run.record()["zero_shot"]
    assert kept["proof-residual"]["unseen"][-1] > kept["proof"]["unseen"][-1] + 2
    assert kept["proof-residual"]["matching"][-1] > kept["proof"]["matching"][-1] + 1


def test_baselines_on_cifar100(cifar100: Embeddings) -> None:
    stream = Stream.of(cifar100, "B0-Inc10")
    assert result("zero-shot", stream, Budget()) == pytest.approx((76.48, 65.51), abs=0.02)
    assert result("simplecil", stream, Budget()) == pytest.approx((78.97, 70.06), abs=0.02)


def test_proof_on_cifar100(cifar100: Embeddings) -> None:
    average, last = result("proof", Stream.of(cifar100, "B0-Inc10"), Budget(total=2000))
    assert average > 86.4
    assert last > 79.3
