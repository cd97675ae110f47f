"""SimpleCIL (Zhou et al. 2023): the class whose mean picture is nearest."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from proof.equations import cosine, visual_prototypes
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer


@register("simplecil")
class SimpleCIL(Learner):
    """SimpleCIL: the class whose mean picture is nearest. Knows no class by its name alone."""

    _kept = _of_class = ("prototypes",)
    exact = True
    prototypes: Tensor  # (classes, d)

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        before = (self.prototypes, self._counts) if self.known else None
        classes = self.known + len(texts)
        self.prototypes = visual_prototypes(F.normalize(images, dim=1), codes, classes, before)

    def _scorer(self, texts: Tensor | None) -> Scorer:
        return lambda images: cosine(images, self.prototypes)

    def _merge(self, other: Learner, codes: Tensor, progress: Progress) -> None:
        assert isinstance(other, SimpleCIL)
        theirs, counts = other.prototypes.to(self.device), other._counts.to(self.device)
        if not self.known:
            self.prototypes = theirs
            return
        ours = F.pad(self.prototypes, (0, 0, 0, int((codes >= self.known).sum())))
        old = F.pad(self._counts, (0, len(ours) - self.known))
        total = old.index_add(0, codes, counts)[:, None]
        sums = (ours * old[:, None]).index_add(0, codes, theirs * counts[:, None])
        self.prototypes = sums / total
