"""The upper bound: keeps every picture, and learns everything anew with each task.

No method of continual learning: it is what forgetting is measured against. The paper's oracle is
PROOF on all classes at once; a linear probe is the field's other one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer, Votes
from proof.methods.proof import Proof, ProofOptions
from proof.probabilities import Scale
from proof.streams import Task


class _KeepsAll(Learner):
    """Every picture, its class, and every text."""

    _kept: ClassVar[tuple[str, ...]] = ("images", "codes", "texts")
    images: Tensor  # (n, d)
    codes: Tensor  # (n,)
    texts: Tensor  # (classes, d)

    def _keep(self, images: Tensor, codes: Tensor, texts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not self.known:
            return images, codes, texts
        old = (self.images, self.codes, self.texts)
        new = (images, codes, texts)
        all_images, all_codes, all_texts = map(torch.cat, zip(old, new, strict=True))
        return all_images, all_codes, all_texts

    def _forget(self, code: int, images: Tensor | None) -> None:
        stay = self.codes != code
        codes = self.codes[stay]
        self.images, self.codes = self.images[stay], codes - (codes > code).long()
        self.texts = torch.cat([self.texts[:code], self.texts[code + 1 :]])

    def _remembered(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.images, self.codes, self.texts


@dataclass(frozen=True)
class OracleOptions(ProofOptions):
    """As for `proof`. In ten tasks a class of PROOF is trained on for up to fifty epochs, as an
    exemplar in most of them: five would be no upper bound where pictures are few."""

    epochs: int = 20


@register("oracle")
class Oracle(_KeepsAll):
    """PROOF on all classes at once, anew with each task: the paper's upper bound."""

    Options = OracleOptions
    options: OracleOptions
    scale = Proof.scale
    inner: Proof

    @property
    def trainable_parameters(self) -> int:
        return self.inner.trainable_parameters if self.known else 0

    @property
    def inference_parameters(self) -> int:
        return self.inner.inference_parameters if self.known else 0

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        everything = self._keep(images, codes, texts)
        inner = self._taught_on(*everything, progress)
        self.inner = inner
        self.images, self.codes, self.texts = everything

    def _taught_on(
        self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress | None = None
    ) -> Proof:
        inner = Proof(self.options, seed=self.seed, device=self.device, budget=Budget(total=0))
        names = tuple(map(str, range(len(texts))))
        inner.learn(Task(names, texts, images, [names[c] for c in codes.tolist()]), progress)
        return inner

    def _scorer(self, texts: Tensor | None) -> Scorer:
        return self.inner._scorer(texts)

    def _voter(self, texts: Tensor | None) -> Callable[[Tensor], Votes]:
        return self.inner._voter(texts)

    def _project(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner._project(images, texts)

    def _forget(self, code: int, images: Tensor | None) -> None:
        super()._forget(code, images)
        if len(self.texts):
            self.inner = self._taught_on(self.images, self.codes, self.texts)

    def _tensors(self) -> dict[str, Tensor]:
        inner = {f"inner.{name}": tensor for name, tensor in self.inner.state().items()}
        return {**super()._tensors(), **inner}

    def _set_tensors(self, tensors: dict[str, Tensor], tasks: int) -> None:
        super()._set_tensors(tensors, tasks)
        self.inner = Proof(self.options, seed=self.seed, device=self.device)
        inner = {k.removeprefix("inner."): v for k, v in tensors.items() if k.startswith("inner.")}
        self.inner.restore(inner, list(map(str, range(len(self.texts)))), 1)


@dataclass(frozen=True)
class ProbeOptions:
    """Of logistic regression."""

    steps: int = 100  # of L-BFGS
    weight_decay: float = 1e-6
    logit_scale: float = 30.0  # unit embeddings times this

    def __post_init__(self) -> None:
        if self.steps < 1 or self.weight_decay < 0 or self.logit_scale <= 0:
            raise ProofError("steps must be at least 1, weight_decay at least 0, logit_scale above")


@register("linear-probe")
class LinearProbe(_KeepsAll):
    """Logistic regression on all classes at once, anew with each task: an upper bound too."""

    Options = ProbeOptions
    scale = Scale(temperature=1.0)
    options: ProbeOptions
    _kept = (*_KeepsAll._kept, "weight")
    weight: Tensor  # (classes, d + 1)

    @property
    def trainable_parameters(self) -> int:
        return self.weight.numel() if self.known else 0

    @property
    def inference_parameters(self) -> int:
        return self.trainable_parameters

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        everything = self._keep(images, codes, texts)
        self.weight = self._fit(*everything, progress)
        self.images, self.codes, self.texts = everything

    def _fit(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> Tensor:
        x, options = self._inputs(images), self.options
        weight = torch.zeros(len(texts), x.shape[1], device=x.device, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [weight], max_iter=options.steps, history_size=20, line_search_fn="strong_wolfe"
        )
        calls = 0

        def closure() -> Tensor:
            nonlocal calls
            calls += 1
            progress(1 - math.exp(-2 * calls / options.steps))
            optimizer.zero_grad()
            loss = (
                F.cross_entropy(x @ weight.T, codes) + options.weight_decay * weight.square().sum()
            )
            loss.backward()
            return loss

        with torch.enable_grad():
            optimizer.step(closure)
        return weight.detach()

    def _scorer(self, texts: Tensor | None) -> Scorer:
        return lambda images: self._inputs(images) @ self.weight.T

    def _forget(self, code: int, images: Tensor | None) -> None:
        super()._forget(code, images)
        if len(self.texts):
            self.weight = self._fit(self.images, self.codes, self.texts, lambda share: None)

    def _inputs(self, images: Tensor) -> Tensor:
        unit = F.normalize(images, dim=1) * self.options.logit_scale
        return F.pad(unit, (0, 1), value=1.0)
