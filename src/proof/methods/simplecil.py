"""SimpleCIL (Zhou et al. 2023): the class whose mean picture is nearest."""

from __future__ import annotations

from collections.abc import Sequence

import torch
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

    @torch.no_grad()
    def loo_scores(self, images: Tensor, labels: Sequence[str]) -> Tensor:
        """Scores of pictures that were taught, each as if it had not been."""
        z = F.normalize(self._take(images), dim=1)
        rows = torch.arange(len(z), device=self.device)
        place = {name: column for column, name in enumerate(self.classes)}
        codes, columns = self._codes_of(labels), [place[label] for label in labels]
        counts = self._counts[codes][:, None]
        others = (self.prototypes[codes] * counts - z) / (counts - 1).clamp_min(1)
        scores = self.scores(images)
        scores[rows, columns] = F.cosine_similarity(z, others)
        return scores

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
