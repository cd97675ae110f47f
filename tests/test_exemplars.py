from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from proof import Budget, ProofError
from proof.exemplars import Exemplars, herd


def assert_herded(images: torch.Tensor, chosen: list[int]) -> None:
    """iCaRL's herding as printed: each in turn brings the mean of the chosen nearest."""
    unit = F.normalize(images.double(), dim=1)
    for k, row in enumerate(chosen):
        distances = {
            other: (unit.mean(0) - unit[[*chosen[:k], other]].mean(0)).norm().item()
            for other in range(len(unit))
            if other not in chosen[:k]
        }
        assert distances[row] <= min(distances.values()) + 1e-6


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_herding_all_classes_at_once_is_herding_each(seed: int, sizes: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.cat([torch.full((size,), code) for code, size in enumerate(sizes)])
    codes = codes[torch.randperm(len(codes), generator=generator)]
    images = torch.randn(len(codes), 6, generator=generator)
    chosen = herd(images, codes, len(sizes), 5)
    for code, rows in enumerate(chosen):
        members = (codes == code).nonzero()[:, 0].tolist()
        assert len(rows) == min(5, len(members))
        assert_herded(images[members], [members.index(row) for row in rows.tolist()])


def test_a_total_is_shared_by_all_classes_and_shrinks_each() -> None:
    images, budget = torch.randn(60, 4), Budget(total=20)
    kept = Exemplars(budget)
    kept.add(images[:40], torch.arange(40) % 2, classes=2)
    first, _ = kept.tensors() or pytest.fail("none kept")
    assert len(kept) == 20
    kept.add(images[40:], 2 + torch.arange(20) % 2, classes=4)
    again, codes = kept.tensors() or pytest.fail("none kept")
    assert torch.bincount(codes).tolist() == [5, 5, 5, 5]
    assert torch.equal(again[:5], first[:5]), "the best of a class stay"


def test_a_share_for_each_class_and_classes_with_fewer_pictures() -> None:
    kept = Exemplars(Budget(per_class=3))
    kept.add(torch.randn(7, 4), torch.tensor([0, 0, 0, 0, 0, 1, 1]), classes=2)
    _, codes = kept.tensors() or pytest.fail("none kept")
    assert torch.bincount(codes).tolist() == [3, 2]


def test_no_budget_keeps_nothing() -> None:
    kept = Exemplars(Budget(total=0))
    kept.add(torch.randn(4, 2), torch.tensor([0, 0, 1, 1]), classes=2)
    assert len(kept) == 0
    assert kept.tensors() is None


def test_budgets_are_read_and_written() -> None:
    assert Budget.parse("20/class") == Budget(per_class=20)
    assert Budget.parse("2000") == Budget(total=2000)
    assert [str(Budget.parse(text)) for text in ("20/class", "2000", "0")] == [
        "20/class",
        "2000",
        "0",
    ]
    for text in ("", "20/task", "-1", "many"):
        with pytest.raises(ProofError, match="expected 20/class"):
            Budget.parse(text)
