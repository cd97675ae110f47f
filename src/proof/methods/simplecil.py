"""SimpleCIL (Zhou et al. 2023): the class whose mean picture is nearest."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.equations import cosine, visual_prototypes
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer


@register("simplecil")
class SimpleCIL(Learner):
    """SimpleCIL: the class whose mean picture is nearest. Knows no class by its name alone."""

    _kept = ("prototypes",)
    prototypes: Tensor  # (classes, d)

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        known = len(self.classes)
        new = visual_prototypes(F.normalize(images, dim=1), codes - known, len(texts))
        self.prototypes = torch.cat([self.prototypes, new]) if self.tasks else new

    def _scorer(self, texts: Tensor | None) -> Scorer:
        return lambda images: cosine(images, self.prototypes)
