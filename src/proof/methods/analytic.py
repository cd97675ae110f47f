"""Analytic learning: quadratic features, closed form, no exemplars and no epochs.

Ridge regression and discriminant analysis on products of coordinates, joined by the texts as far
as they help; all of it, the ridge and the weights too, from sums (`proof.closed_form`). Any order
of tasks gives the model of training on everything at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proof.closed_form import Solution, Sums, quadratic_features, solve
from proof.errors import ProofError
from proof.methods import register
from proof.methods.sums import SumsLearner


@dataclass(frozen=True)
class AnalyticOptions:
    """How many features, and how exactly they are summed."""

    features: int = 7680  # the embedding, and products of its coordinates
    text: bool = True  # no: pictures alone
    precision: str = "float32"  # or float64

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ProofError(f"features={self.features}: expected at least 1")
        if self.precision not in ("float32", "float64"):
            raise ProofError(f"precision={self.precision}: expected float32 or float64")


@register("analytic")
class Analytic(SumsLearner):
    """Closed form on quadratic features, with texts: as if all had been learned at once."""

    Options = AnalyticOptions
    options: AnalyticOptions

    @property
    def reads_names(self) -> bool:  # type: ignore[override]
        return self.options.text

    @property
    def precision(self) -> torch.dtype:
        return torch.float64 if self.options.precision == "float64" else torch.float32

    def _features(self, z: Tensor) -> Tensor:
        return quadratic_features(z, self.options.features)

    def _solve(self, sums: Sums, texts: Tensor, ridge: float | None = None) -> Solution:
        dim, used = texts.shape[1], texts if self.options.text else None
        return solve(sums, dim, used, ridge=ridge)


@dataclass(frozen=True)
class LargeOptions(AnalyticOptions):
    """As for `analytic`, with more features: 2.7 GB of sums, for a GPU."""

    features: int = 36864


@register("analytic-large")
class AnalyticLarge(Analytic):
    """As `analytic`, with five times the features: the most accurate here, and for a GPU."""

    Options = LargeOptions
