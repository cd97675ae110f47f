"""Metrics of a stream, all in percent.

`matrix[b][i]` is the accuracy on the classes of task i after task b was learned, for i <= b.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Matrix = Sequence[Sequence[float]]
Confusion = tuple[int, int, int]


def hits(scores: Tensor, codes: Tensor, k: int = 1) -> Tensor:
    """For each row of scores (n, classes) whether its class is among the k highest, (n,) bool.

    >>> hits(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])).tolist()
    [True, False]
    """
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return (best == codes[:, None]).any(dim=1)


def accuracy(hit: Tensor) -> float:
    """The share of hits; NaN where there are none to count."""
    return 100 * float(hit.double().mean())


def class_accuracy(hit: Tensor, codes: Tensor, classes: int) -> list[float | None]:
    """The accuracy on each class, None for one without pictures."""
    counts = torch.bincount(codes, minlength=classes)
    right = torch.bincount(codes[hit], minlength=classes)
    pairs = zip(right.tolist(), counts.tolist(), strict=True)
    return [100 * r / n if n else None for r, n in pairs]


def confusions(scores: Tensor, codes: Tensor, most: int = 20) -> list[Confusion]:
    """The classes that are mixed up most: (class, taken for, pictures), most pictures first.

    >>> confusions(torch.eye(3)[[1, 1, 2]], torch.tensor([0, 0, 2]))
    [(0, 1, 2)]
    """
    predicted = scores.argmax(dim=1)
    wrong = predicted != codes
    return _most(codes[wrong], predicted[wrong], most)


def taken(scores: Tensor, codes: Tensor, sizes: Sequence[int], most: int = 20) -> list[Confusion]:
    """What later classes took from older ones: (class, later class, pictures), most first.

    A picture counts if its class has the highest score among the classes up to its own task, and
    a class of a later task has a higher one. `sizes` are the classes of each task.

    >>> scores = torch.tensor([[0.5, 0.4, 0.9], [0.4, 0.5, 0.9]])
    >>> taken(scores, torch.tensor([0, 0]), [2, 1])
    [(0, 2, 1)]
    """
    counts = torch.tensor(sizes)
    task = torch.arange(len(sizes)).repeat_interleave(counts)
    predicted = scores.argmax(dim=1)
    rows = (task[predicted] > task[codes]).nonzero()[:, 0]
    codes, predicted = codes[rows], predicted[rows]
    known = counts.cumsum(0)[task[codes]]
    later = torch.arange(scores.shape[1]) >= known[:, None]
    own = scores[rows].masked_fill(later, -torch.inf).argmax(dim=1) == codes
    return _most(codes[own], predicted[own], most)


def _most(codes: Tensor, predicted: Tensor, most: int) -> list[Confusion]:
    pairs, counts = torch.stack([codes, predicted], dim=1).unique(dim=0, return_counts=True)
    first = counts.argsort(descending=True, stable=True)[:most]
    rows = torch.cat([pairs, counts[:, None]], dim=1)[first].tolist()
    return [(a, b, n) for a, b, n in rows]


def average(curve: Sequence[float]) -> float:
    """The paper's A-bar: the mean of the accuracies A_b after each task."""
    return sum(curve) / len(curve)


def forgetting(matrix: Matrix) -> float:
    """How far the old tasks fell from their best: the mean over all tasks but the last of the
    best accuracy before the last task minus the last (Chaudhry et al. 2018).

    >>> forgetting([[90.0], [80.0, 70.0], [75.0, 72.0, 95.0]])
    6.5
    """
    last = matrix[-1]
    if len(matrix) < 2:
        return 0.0
    drops = [max(row[i] for row in matrix[i:-1]) - last[i] for i in range(len(matrix) - 1)]
    return sum(drops) / len(drops)


def backward_transfer(matrix: Matrix) -> float:
    """What learning later tasks did to earlier ones: the mean over all tasks but the last of the
    last accuracy minus that right after the task (Lopez-Paz and Ranzato 2017).

    >>> backward_transfer([[90.0], [80.0, 70.0], [75.0, 72.0, 95.0]])
    -6.5
    """
    last = matrix[-1]
    if len(matrix) < 2:
        return 0.0
    gains = [last[i] - matrix[i][i] for i in range(len(matrix) - 1)]
    return sum(gains) / len(gains)


def matching_score(cosines: Tensor) -> float:
    """The paper's LAION score: the mean cosine of pictures and texts that belong together, here
    times 100 as all metrics are.

    >>> matching_score(torch.tensor([0.25, 0.5]))
    37.5
    """
    return 100 * float(cosines.double().mean())


def harmonic_mean(seen: float, unseen: float) -> float:
    """The paper's A_HM: 2 A_S A_U / (A_S + A_U), zero if either is.

    >>> harmonic_mean(80.0, 60.0)
    68.57142857142857
    """
    return 2 * seen * unseen / (seen + unseen) if seen and unseen else 0.0
