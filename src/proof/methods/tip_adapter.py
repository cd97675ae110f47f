"""A cache of pictures beside the texts, as Tip-Adapter has it (Zhang et al. 2022), untrained."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.devices import add_rows
from proof.equations import cosine
from proof.errors import ProofError
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer
from proof.probabilities import Scale


@dataclass(frozen=True)
class TipAdapterOptions:
    """The paper's two: what the cache counts beside the texts, and how near is near."""

    alpha: float = 1.0
    beta: float = 5.5
    logit_scale: float = 100.0  # CLIP's

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.beta <= 0 or self.logit_scale <= 0:
            raise ProofError("alpha must be at least 0, beta and logit_scale above 0")


@register("tip-adapter")
class TipAdapter(Learner):
    """CLIP's text score, and a vote of the exemplars near the picture. No exemplars: zero-shot."""

    rehearses = True
    Options = TipAdapterOptions
    scale = Scale(temperature=1.0)
    options: TipAdapterOptions
    _kept = _of_class = ("texts",)
    texts: Tensor  # (classes, d)

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        self.exemplars.add(F.normalize(images, dim=1), codes, self.known + len(texts))
        self.texts = torch.cat([self.texts, texts]) if self.known else texts

    def _scorer(self, texts: Tensor | None) -> Scorer:
        options, cache = self.options, self.exemplars.tensors()
        candidates = self.texts if texts is None else torch.cat([self.texts, texts])

        def score(images: Tensor) -> Tensor:
            scores = options.logit_scale * cosine(images, candidates)
            if cache is None:
                return scores
            keys, codes = cache
            near = (options.beta * (cosine(images, keys) - 1)).exp()
            add_rows(scores.T, codes, options.alpha * near.T)
            return scores

        return score

    def _remembered(self) -> tuple[Tensor, Tensor, Tensor]:
        kept = self.exemplars.tensors()
        if kept is None:
            raise ProofError("tip-adapter without exemplars has nothing to merge")
        return *kept, self.texts
