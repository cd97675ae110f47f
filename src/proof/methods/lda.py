"""Linear discriminant analysis with one covariance for all classes, in closed form."""

from __future__ import annotations

from torch import Tensor

from proof.closed_form import Solution, Sums, solve
from proof.methods import register
from proof.methods.sums import SumsLearner


@register("lda")
class LDA(SumsLearner):
    """Class means under one shared covariance. Knows no class by its name alone."""

    reads_names = False

    def _solve(self, sums: Sums, texts: Tensor, ridge: float | None = None) -> Solution:
        return solve(sums, texts.shape[1], rule="lda", ridge=ridge)
