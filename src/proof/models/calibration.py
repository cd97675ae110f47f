"""From scores to probabilities that mean what they say, and what is no class at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

DEFAULT_TEMPERATURE = 0.05  # where there are no pictures to fit it on
_BINS = 15


@dataclass(frozen=True)
class Calibration:
    """What was found on pictures that the model did not learn."""

    temperature: float = DEFAULT_TEMPERATURE
    pictures: int = 0  # that it was fitted on
    accuracy: float | None = None  # on them, in percent
    ece_before: float | None = None  # in percent, at the default temperature
    ece_after: float | None = None
    known: tuple[float, ...] = ()  # how well known each of them is, sorted

    @classmethod
    def fit(cls, scores: Tensor, codes: Tensor) -> Calibration:
        """From scores (n, classes) of pictures that were not learned, and their classes (n,)."""
        if not len(codes):
            return cls()
        temperature = fit_temperature(scores, codes)
        before, after = (probabilities(scores, t) for t in (DEFAULT_TEMPERATURE, temperature))
        return cls(
            temperature,
            len(codes),
            100 * float((scores.argmax(1) == codes).double().mean()),
            100 * expected_calibration_error(before, codes),
            100 * expected_calibration_error(after, codes),
            tuple(familiarity(after).sort().values.tolist()),
        )

    def threshold(self, share: float) -> float:
        """The familiarity that at least `share` of pictures of known classes have."""
        rank = math.floor((1 - share) * (len(self.known) + 1))
        return self.known[rank - 1] if rank else -math.inf


def probabilities(scores: Tensor, temperature: float) -> Tensor:
    """Scores (n, classes) as probabilities, in float64."""
    return (scores.double().cpu() / temperature).softmax(1)


def familiarity(shares: Tensor) -> Tensor:
    """How well known pictures are, from their probabilities (n, classes)."""
    return shares.max(1).values


def fit_temperature(scores: Tensor, codes: Tensor) -> float:
    """The temperature at which the true classes (n,) are likeliest: a search over its logarithm,
    where the loss has one minimum."""
    scores = scores.double().cpu()
    rows = torch.arange(len(codes))

    def loss(log_temperature: float) -> float:
        logs = (scores / math.exp(log_temperature)).log_softmax(1)
        return -float(logs[rows, codes.cpu()].mean())

    low, high = math.log(1e-4), math.log(1e2)
    shrink = (math.sqrt(5) - 1) / 2  # golden section
    for _ in range(40):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return math.exp((low + high) / 2)


def expected_calibration_error(shares: Tensor, codes: Tensor) -> float:
    """How far confidence is from accuracy, in 15 bins of confidence (Guo et al. 2017), 0 to 1.

    >>> expected_calibration_error(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1]))
    0.4
    """
    confidence, guess = shares.max(1)
    right = (guess == codes.to(guess.device)).double()
    bins = (confidence * _BINS).long().clamp(max=_BINS - 1)
    gaps = torch.zeros(_BINS, dtype=torch.double).index_add(0, bins, confidence.double() - right)
    return float(gaps.abs().sum() / max(len(codes), 1))
