"""From scores to probabilities that mean what they say, and to what is no known class at all.

Pure functions of tensors: `scores` are (n, classes), `codes` (n,) the true classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BINS = 15
_NEXT = 20  # the best class is compared with the next ones of so many
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Scale:
    """What a method's scores mean: how they become probabilities, and tell known from unknown.

    Probabilities are the softmax of logits over a temperature. Cosines are logits as they are.
    Scores that are shares, or near it, are logits when bent: log(1 + score / bend), which for a
    small `bend` is the logarithm.

    >>> shares = torch.tensor([[0.2, 0.6]])
    >>> Scale(temperature=1.0, bend=1e-6).probabilities(shares).round(decimals=3).tolist()
    [[0.25, 0.75]]
    """

    temperature: float = 0.01  # CLIP's
    bend: float = math.inf
    absolute: bool = False  # whether a high score by itself means a known class

    def logits(self, scores: Tensor) -> Tensor:
        """Scores on a scale where differences count, (n, classes) in float64 on the CPU."""
        scores = scores.double().cpu()
        if math.isinf(self.bend):
            return scores
        bent = torch.log1p(scores.clamp_min(0) / self.bend)
        return torch.where(scores > 0, bent, scores / self.bend)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Probabilities (n, classes) in float64."""
        return (self.logits(scores) / self.temperature).softmax(1)

    def familiarity(self, scores: Tensor) -> Tensor:
        """How well known pictures are, (n,): the highest score where it is `absolute`, else how far
        the best class stands above the next ones. `docs/classifier.md` has what else was tried.

        >>> Scale().familiarity(torch.tensor([[5.0, 1.0, 3.0], [3.0, 3.0, 3.0]])).tolist()
        [3.0, 0.0]
        """
        scores = scores[:, scores.isfinite().all(0)]  # what cannot be scored does not count
        values = scores.double().cpu() if self.absolute else self.logits(scores)
        best = values.topk(min(_NEXT, values.shape[1]), dim=1).values
        if self.absolute or best.shape[1] == 1:
            return best[:, 0]
        return best[:, 0] - best[:, 1:].mean(1)


def fit_temperature(logits: Tensor, codes: Tensor, expected: float) -> float:
    """The temperature at which the true classes are likeliest.

    `expected` is the method's own. It holds the more, the fewer pictures there are: the logarithm
    of the temperature is normal around it, with a deviation of one. Ten pictures that are all right
    would otherwise make the model certain of everything.
    """
    rows = torch.arange(len(codes))
    centre = math.log(expected)

    def loss(log_temperature: float) -> float:
        shares = (logits / math.exp(log_temperature)).log_softmax(1)
        return (log_temperature - centre) ** 2 / 2 - float(shares[rows, codes].sum())

    low, high = centre - 7, centre + 7
    for _ in range(36):  # golden section: the width shrinks to less than a millionth
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return math.exp((low + high) / 2)


def calibration_error(shares: Tensor, codes: Tensor) -> float:
    """The expected calibration error: how far confidence is from accuracy, in 15 bins of
    confidence (Guo et al. 2017), in percent.

    >>> round(calibration_error(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1])), 3)
    40.0
    """
    confidence, guess = shares.double().max(1)
    surplus = confidence - (guess == codes).double()
    bins = (confidence * _BINS).long().clamp(max=_BINS - 1)
    gaps = torch.zeros(_BINS, dtype=torch.double).index_add(0, bins, surplus)
    return 100 * float(gaps.abs().sum() / len(codes))


def separation(known: Tensor, unknown: Tensor) -> float:
    """The AUROC, in percent: how often a known picture has a higher value than an unknown one.

    >>> separation(torch.tensor([3.0, 2.0]), torch.tensor([1.0, 2.0]))
    87.5
    """
    _, place, counts = torch.unique(
        torch.cat([known, unknown]), return_inverse=True, return_counts=True
    )
    ranks = (counts.cumsum(0).double() - (counts.double() - 1) / 2)[place[: len(known)]]
    pairs = len(known) * len(unknown)
    return 100 * (float(ranks.sum()) - len(known) * (len(known) + 1) / 2) / pairs
