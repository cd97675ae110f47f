"""Ridge regression on the plain embedding, in closed form."""

from __future__ import annotations

from torch import Tensor

from proof.closed_form import Solution, Sums, solve
from proof.methods import register
from proof.methods.sums import SumsLearner


@register("ridge")
class Ridge(SumsLearner):
    """Ridge regression on the embedding itself. Knows no class by its name alone."""

    reads_names = False

    def _solve(self, sums: Sums, texts: Tensor, ridge: float | None = None) -> Solution:
        return solve(sums, texts.shape[1], rule="ridge", ridge=ridge)
