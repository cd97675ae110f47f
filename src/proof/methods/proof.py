"""PROOF: expandable projections and cross-modal fusion on a frozen CLIP.

Read it beside the paper; the equations are in `proof.equations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.equations import (
    Attention,
    FusedContext,
    Matchings,
    Reading,
    fuse_context,
    gather_context,
    projected_matching,
    summed_inference,
    three_part_loss,
    visual_and_textual_matching,
    visual_prototypes,
)
from proof.errors import ProofError
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer, Votes
from proof.methods.descent import descend
from proof.probabilities import Scale
from proof.projections import KINDS, Projection, merge, project, project_all, start, trainable

CONTEXTS = ("P", "W", "PW", "PWC")


@dataclass(frozen=True)
class ProofOptions:
    """The switches of PROOF; the defaults are the paper's model and our way of training it."""

    projection: str = "linear"  # linear, ssf, adapter, or none for the fusion alone
    residual: bool = False  # P(z) + z for each task: the paper's dagger variant
    fusion: bool = True  # no: projected matching alone
    context: str = "PWC"  # what stands in the context: P, W, PW or PWC
    prompt_length: int = 3
    temperature: float = 0.03
    balanced: bool = True  # no: plain cross-entropy on the unequal counts of a task
    adapter_width: int = 64
    epochs: int = 5
    lr: float = 0.012
    batch_size: int = 256
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if self.projection not in KINDS:
            raise ProofError(f"projection={self.projection}: expected one of {', '.join(KINDS)}")
        if self.context not in CONTEXTS:
            raise ProofError(f"context={self.context}: expected one of {', '.join(CONTEXTS)}")
        if self.projection == "none" and not self.fusion:
            raise ProofError(
                "projection=none with fusion=no leaves nothing to learn: use zero-shot"
            )
        if self.epochs < 1 or self.batch_size < 1 or self.adapter_width < 1:
            raise ProofError("epochs, batch_size and adapter_width must be at least 1")
        if self.prompt_length < 0:
            raise ProofError(f"prompt_length={self.prompt_length}: expected 0 or more")
        if not (self.temperature > 0 and self.lr > 0 and 0 <= self.momentum < 1):
            raise ProofError("temperature and lr must be above 0, momentum from 0 to below 1")


@register("proof")
class Proof(Learner):
    """PROOF (Zhou et al.): a projection for each task, and fusion with all classes as context."""

    rehearses = True
    scale = Scale(temperature=1.0, bend=1e-6)  # scores are sums of probabilities
    _of_class = ("prototypes", "texts")
    Options = ProofOptions
    options: ProofOptions

    # What is learned. All embeddings are unit vectors before they are projected.
    image_projections: list[Projection]  # one for each task; old ones are frozen
    text_projections: list[Projection]
    prompts: Tensor  # (tasks * prompt_length, d), context prompts; old ones are frozen
    attention: Attention  # of the fusion; learned on in every task
    prototypes: Tensor  # (classes, d), frozen
    texts: Tensor  # (classes, d), frozen

    @property
    def trainable_parameters(self) -> int:
        """The newest projections, the fusion and the newest prompts."""
        if not self.tasks:
            return 0
        learned = trainable(self.image_projections[-1]) + trainable(self.text_projections[-1])
        if self.options.fusion:
            learned += [*self.attention, self.prompts[: self._prompt_length]]
        return sum(tensor.numel() for tensor in learned)

    @property
    def extra_parameters(self) -> int:
        """What is added to CLIP, as the paper counts it: projections, attention, prototypes."""
        projections = self.image_projections + self.text_projections
        kept = [tensor for projection in projections for tensor in trainable(projection)]
        attention = list(self.attention) if self.options.fusion else []
        return sum(tensor.numel() for tensor in [*kept, *attention, self.prototypes])

    @property
    def inference_parameters(self) -> int:
        """With the projections of all tasks merged into one (Eq. 11), and without what only the
        fusion uses where there is none."""
        if not self.tasks:
            return 0
        sides = (self.image_projections, self.text_projections)
        merged = sum(_numbers(side) - _numbers(merge(side)) for side in sides)
        fusion = [*self.attention, self.prompts, self.prototypes]
        unused = 0 if self.options.fusion else sum(tensor.numel() for tensor in fusion)
        return self.total_parameters - merged - unused

    def compact(self) -> None:
        """Eq. 11: keep the sum of all projections in place of each. The scores stay the same."""
        if not self.known:
            return
        self.image_projections = merge(self.image_projections)
        self.text_projections = merge(self.text_projections)

    @property
    def _prompt_length(self) -> int:
        return self.options.prompt_length if "C" in self.options.context else 0

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        options, known = self.options, self.known
        classes = known + len(texts)
        d = images.shape[1]
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + self.tasks)

        # Algorithm 1, line 1: prototypes of the new classes, Eq. 7. More pictures of a known class
        # move its mean.
        z = F.normalize(images, dim=1)
        before = (self.prototypes, self._counts) if known else None
        p = visual_prototypes(z, codes, classes, before)
        w = F.normalize(texts, dim=1)
        if known:
            w = torch.cat([self.texts, w])

        # Lines 2 to 4: freeze what there is; add a projection for images and texts, and prompts.
        # The first projection starts at the identity, that is at CLIP itself, and later ones at
        # zero, so that a task starts where the last one ended.
        identity = options.residual or not known
        new_image, new_text = (
            start(options.projection, d, options.adapter_width, identity, generator, self.device)
            for _ in range(2)
        )
        scale = 1 / math.sqrt(d)
        new_prompts = self._randn(generator, self._prompt_length, d) * scale
        old_prompts = self.prompts if known else new_prompts[:0]
        if known:
            attention = Attention(self.attention.weights.clone())
        else:
            # Values start at zero: the fusion first changes nothing, then learns what to add.
            weights = self._randn(generator, 3 * d, d) * scale
            weights[2 * d :] = 0
            attention = Attention(weights)

        # The rehearsal set D^b with the exemplars E.
        rehearsal = self.exemplars.tensors()
        train_z, train_codes = z, codes
        if rehearsal is not None:
            train_z = torch.cat([z, F.normalize(rehearsal[0], dim=1)])
            train_codes = torch.cat([codes, rehearsal[1]])
        log_prior = None
        if options.balanced:
            log_prior = torch.bincount(train_codes, minlength=classes).clamp_min(1).log()

        # Old projections are frozen: what they give is computed once, here.
        old_images = self.image_projections if known else []
        old_texts = self.text_projections if known else []
        zp = torch.cat([train_z, p])
        old_zp, old_w = project_all(merge(old_images), zp), project_all(merge(old_texts), w)
        p_rows = torch.arange(len(train_z), len(zp), device=self.device)

        def loss(rows: Tensor) -> Tensor:
            # Lines 5 to 11: Eq. 6, then Eq. 5, 8 and 9, then Eq. 10. Images and prototypes go
            # through the projection together, and queries and context through the attention.
            zp_rows = torch.cat([rows, p_rows])
            projected = old_zp[zp_rows] + project(new_image, zp[zp_rows])
            image, prototype = projected.split([len(rows), classes])
            text = old_w + project(new_text, w)
            fused = None
            if options.fusion:
                prompts = torch.cat([old_prompts, new_prompts])
                tokens, targets = gather_context(prototype, text, prompts, options.context)
                reading = attention.read(torch.cat([image, tokens]))
                image_reading, context_reading = reading.split(len(rows))
                fused = image_reading, fuse_context(tokens, context_reading, targets)
            matchings = self._match(image, prototype, text, fused)
            return three_part_loss(matchings, train_codes[rows], log_prior)

        parameters = trainable(new_image) + trainable(new_text)
        if options.fusion:
            parameters += [*attention, *([new_prompts] if self._prompt_length else [])]
        descend(
            loss,
            parameters,
            len(train_z),
            epochs=options.epochs,
            batch_size=options.batch_size,
            lr=options.lr,
            momentum=options.momentum,
            generator=generator,
            progress=progress,
        )

        self.image_projections = [*old_images, new_image]
        self.text_projections = [*old_texts, new_text]
        self.prompts = torch.cat([old_prompts, new_prompts])
        self.attention, self.prototypes, self.texts = attention, p, w
        self.exemplars.add(images, codes, classes)

    def _matcher(self, texts: Tensor | None) -> Callable[[Tensor], Matchings]:
        attention, projections = self.attention, merge(self.image_projections)
        w = self.texts if texts is None else torch.cat([self.texts, F.normalize(texts, dim=1)])
        text = project_all(merge(self.text_projections), w)
        prototype = project_all(projections, self.prototypes)
        context = None
        if self.options.fusion:
            tokens, targets = gather_context(prototype, text, self.prompts, self.options.context)
            context = fuse_context(tokens, attention.read(tokens), targets)

        def match(images: Tensor) -> Matchings:
            image = project_all(projections, F.normalize(images, dim=1))
            fused = (attention.read(image), context) if context else None
            matchings = self._match(image, prototype, text, fused)
            # A class known by name alone has no prototype: visual matching then abstains, so that
            # the same votes judge every class.
            return matchings if texts is None else matchings._replace(visual=None)

        return match

    def _scorer(self, texts: Tensor | None) -> Scorer:
        match = self._matcher(texts)
        return lambda images: summed_inference(match(images))

    def _voter(self, texts: Tensor | None) -> Callable[[Tensor], Votes]:
        match = self._matcher(texts)

        def vote(images: Tensor) -> Votes:
            logits = match(images)._asdict()
            return {name: part.softmax(1) for name, part in logits.items() if part is not None}

        return vote

    def _project(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        return (
            project_all(merge(self.image_projections), F.normalize(images, dim=1)),
            project_all(merge(self.text_projections), F.normalize(texts, dim=1)),
        )

    def _remembered(self) -> tuple[Tensor, Tensor, Tensor]:
        return *self.exemplars.or_else(self.prototypes), self.texts

    def _match(
        self,
        image: Tensor,
        prototype: Tensor,
        text: Tensor,
        fused: tuple[Reading, FusedContext] | None,
    ) -> Matchings:
        """Eq. 5, and Eq. 9 where there is fusion; all inputs are projected already."""
        tau, parts = self.options.temperature, self.options.context
        projected = projected_matching(image, text, tau)
        if fused is None:
            return Matchings(projected)
        reading, context = fused
        visual, textual = visual_and_textual_matching(
            image, reading, prototype, text, context, tau, parts
        )
        return Matchings(projected, visual, textual)

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"prompts": self.prompts, "prototypes": self.prototypes, "texts": self.texts}
        tensors["attention"] = self.attention.weights
        for side in ("image_projections", "text_projections"):
            projections: list[Projection] = getattr(self, side)
            for name in projections[0]:
                tensors[f"{side}.{name}"] = torch.stack([p[name] for p in projections])
        return tensors

    def _set_tensors(self, tensors: dict[str, Tensor], tasks: int) -> None:
        self.prompts, self.prototypes = tensors["prompts"], tensors["prototypes"]
        self.texts = tensors["texts"]
        self.attention = Attention(tensors["attention"])
        for side in ("image_projections", "text_projections"):
            parts = {k.split(".")[1]: v for k, v in tensors.items() if k.startswith(f"{side}.")}
            stacks = list(zip(*parts.values(), strict=True))
            if not stacks:
                raise ProofError(f"the state has no {side}")
            setattr(self, side, [dict(zip(parts, stack, strict=True)) for stack in stacks])

    def _randn(self, generator: torch.Generator, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(self.device)


def _numbers(projections: list[Projection]) -> int:
    return sum(tensor.numel() for projection in projections for tensor in projection.values())


@dataclass(frozen=True)
class ResidualOptions(ProofOptions):
    """As for `proof`, with residual projections."""

    residual: bool = True


@register("proof-residual")
class ProofResidual(Proof):
    """PROOF with residual projections (the paper's dagger): stays closer to zero-shot CLIP."""

    Options = ResidualOptions
