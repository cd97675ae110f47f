"""Zero-shot CLIP: the class whose name is nearest. Nothing is learned (Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from proof.equations import cosine
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer


@register("zero-shot")
class ZeroShot(Learner):
    """Zero-shot CLIP: the class whose text embedding is nearest. Pictures teach it nothing."""

    _kept = _of_class = ("texts",)
    exact = True
    texts: Tensor  # (classes, d)

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        self.texts = torch.cat([self.texts, texts]) if self.known else texts

    def _scorer(self, texts: Tensor | None) -> Scorer:
        candidates = self.texts if texts is None else torch.cat([self.texts, texts])
        return lambda images: cosine(images, candidates)

    def loo_scores(self, images: Tensor, labels: Sequence[str]) -> Tensor:
        """Scores of pictures as if none of them had been taught, which changes nothing here."""
        return self.scores(images)

    def _merge(self, other: Learner, codes: Tensor, progress: Progress) -> None:
        assert isinstance(other, ZeroShot)
        new = other.texts.to(self.device)[codes >= self.known]
        self.texts = torch.cat([self.texts, new]) if self.known else new
