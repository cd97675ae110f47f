"""PROOF as the authors' released code runs it, for reproducing their numbers.

It differs from the paper's equations: projections have a bias and PyTorch's default start; all text
projections go on learning; the fusion has an output layer, dropout and LayerNorm; matchings are
plain dot products without a temperature; projected matching is trained with CLIP's in-batch loss;
at test time the image is not normalised; and the adapted texts and prototypes are **averaged over
the batch**, so that a picture's score depends on the pictures scored with it. `proof` does none of
this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proof.equations import visual_prototypes
from proof.errors import ProofError
from proof.methods import register
from proof.methods.base import Learner, Progress, Scorer
from proof.probabilities import Scale


@dataclass(frozen=True)
class ReferenceOptions:
    """The settings of the authors' CIFAR-100 run."""

    prompt_length: int = 3
    dropout: float = 0.1
    epochs: int = 5
    lr: float = 0.001
    batch_size: int = 64
    momentum: float = 0.9
    weight_decay: float = 0.05

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or self.prompt_length < 0:
            raise ProofError("epochs and batch_size must be at least 1, prompt_length at least 0")
        if not (self.lr > 0 and 0 <= self.dropout < 1 and 0 <= self.momentum < 1):
            raise ProofError("lr must be above 0, dropout and momentum from 0 to below 1")


class _Fusion(nn.Module):
    """Single-head self-attention with an output layer, residual and LayerNorm."""

    def __init__(self, d: int, dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d, d, bias=False) for _ in range(3))
        for layer in (self.query, self.key, self.value):
            nn.init.normal_(layer.weight, std=math.sqrt(2 / (d + d)))
        self.output = nn.Linear(d, d)
        nn.init.xavier_normal_(self.output.weight)
        self.norm = nn.LayerNorm(d)
        self.dropout = dropout

    def forward(self, tokens: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(batch, tokens, d) -> the same shape; with a generator there is dropout."""
        scores = self.query(tokens) @ self.key(tokens).mT / math.sqrt(tokens.shape[-1])
        shares = self._drop(scores.softmax(dim=-1), generator)
        mixed = self._drop(self.output(shares @ self.value(tokens)), generator)
        adapted: Tensor = self.norm(tokens + mixed)
        return adapted

    def _drop(self, tensor: Tensor, generator: torch.Generator | None) -> Tensor:
        if generator is None or not self.dropout:
            return tensor
        keep = torch.empty_like(tensor).bernoulli_(1 - self.dropout, generator=generator)
        return tensor * keep / (1 - self.dropout)


class _Network(nn.Module):
    """All that is learned; `expand` adds the parts of a new task."""

    def __init__(self, d: int, options: ReferenceOptions) -> None:
        super().__init__()
        self.d, self.prompt_length = d, options.prompt_length
        self.image_projections = nn.ModuleList()
        self.text_projections = nn.ModuleList()
        self.prompts = nn.ParameterList()
        self.fusion = _Fusion(d, options.dropout)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(100.0)))

    def expand(self) -> None:
        for old in (*self.image_projections.parameters(), *self.prompts):
            old.requires_grad_(False)
        self.image_projections.append(nn.Linear(self.d, self.d))
        self.text_projections.append(nn.Linear(self.d, self.d))
        self.prompts.append(nn.Parameter(torch.randn(self.prompt_length, self.d)))

    def project_images(self, images: Tensor) -> Tensor:
        return torch.stack([layer(images) for layer in self.image_projections]).sum(0)

    def project_texts(self, texts: Tensor) -> Tensor:
        return torch.stack([layer(texts) for layer in self.text_projections]).sum(0)

    def fuse(
        self,
        image: Tensor,
        text: Tensor,
        prototype: Tensor,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Adapted images (n, d), and texts and prototypes averaged over the batch."""
        context = torch.cat([text, prototype, *self.prompts])
        tokens = torch.cat([image[:, None], context.expand(len(image), -1, -1)], dim=1)
        adapted = self.fusion(tokens, generator)
        mean = adapted[:, 1:].mean(0)
        return adapted[:, 0], mean[: len(text)], mean[len(text) : len(text) + len(prototype)]


@register("proof-reference")
class ProofReference(Learner):
    """What the authors' code does, its slips included; scores depend on the batch."""

    rehearses = True
    depends_on_batch = True
    scale = Scale(temperature=1.0)  # scores are sums of logits
    _of_class = ("prototypes", "texts")
    Options = ReferenceOptions
    options: ReferenceOptions
    network: _Network
    prototypes: Tensor  # (classes, d)
    texts: Tensor  # (classes, d)

    @property
    def trainable_parameters(self) -> int:
        """The newest image projection and prompts, every text projection, fusion, logit scale."""
        if not self.tasks:
            return 0
        return sum(p.numel() for p in self.network.parameters() if p.requires_grad)

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        options, known = self.options, self.known
        seed = 1_000_003 * self.seed + self.tasks
        generator = torch.Generator(self.device).manual_seed(seed)
        shuffler = torch.Generator().manual_seed(seed)
        before = (self.prototypes, self._counts) if known else None
        p = visual_prototypes(F.normalize(images, dim=1), codes, known + len(texts), before)
        w = torch.cat([self.texts, texts]) if known else texts
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _Network(images.shape[1], options)
            for _ in range(self.tasks + 1):
                network.expand()
        if known:
            network.load_state_dict(self.network.state_dict(), strict=False)
        network.to(self.device)

        x, y = images, codes
        rehearsal = self.exemplars.tensors()
        if rehearsal is not None:
            x, y = torch.cat([x, rehearsal[0]]), torch.cat([y, rehearsal[1]])
        learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
        optimizer = torch.optim.SGD(
            learned, lr=options.lr, momentum=options.momentum, weight_decay=options.weight_decay
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
        for epoch in range(options.epochs):
            batches = (
                torch.randperm(len(x), generator=shuffler).to(self.device).split(options.batch_size)
            )
            for done, rows in enumerate(batches):
                image = F.normalize(network.project_images(x[rows]), dim=1)
                text = F.normalize(network.project_texts(w), dim=1)
                prototype = F.normalize(network.project_images(p), dim=1)
                image_f, text_f, prototype_f = network.fuse(image, text, prototype, generator)
                # CLIP's symmetric loss: pictures and the texts of their own classes, in pairs.
                pairs = network.logit_scale.exp() * image @ text[y[rows]].T
                own = torch.arange(len(rows), device=self.device)
                contrastive = (F.cross_entropy(pairs, own) + F.cross_entropy(pairs.T, own)) / 2
                loss = (
                    F.cross_entropy(image_f @ text_f.T, y[rows])
                    + F.cross_entropy(image_f @ prototype_f.T, y[rows])
                    + contrastive
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                progress((epoch + (done + 1) / len(batches)) / options.epochs)
            schedule.step()

        self.network, self.prototypes, self.texts = network, p, w
        self.exemplars.add(images, codes, known + len(texts))

    def _scorer(self, texts: Tensor | None) -> Scorer:
        network = self.network
        w = self.texts if texts is None else torch.cat([self.texts, texts])
        text = F.normalize(network.project_texts(w), dim=1)
        prototype = F.normalize(network.project_images(self.prototypes), dim=1)

        def score_batch(images: Tensor) -> Tensor:
            image = network.project_images(images)
            image_f, text_f, prototype_f = network.fuse(image, text, prototype)
            scores = image @ text.T + image_f @ text_f.T
            return scores if texts is not None else scores + image_f @ prototype_f.T

        # Batches of 64 pictures, as the authors test.
        return lambda images: torch.cat([score_batch(batch) for batch in images.split(64)])

    def _project(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        # Images as `_scorer` takes them; texts as long as those of classes are, which matters here
        # since projections have a bias.
        unit = F.normalize(texts, dim=1)
        return self.network.project_images(images), self.network.project_texts(unit)

    def _remembered(self) -> tuple[Tensor, Tensor, Tensor]:
        return *self.exemplars.or_else(self.prototypes), self.texts

    def _tensors(self) -> dict[str, Tensor]:
        weights = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        return {**weights, "prototypes": self.prototypes, "texts": self.texts}

    def _set_tensors(self, tensors: dict[str, Tensor], tasks: int) -> None:
        self.prototypes, self.texts = tensors["prototypes"], tensors["texts"]
        prefix = "network."
        weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if f"prompts.{tasks - 1}" not in weights:  # before a network of so many tasks is made
            raise ProofError(f"the state is not that of {tasks} tasks")
        with torch.device("meta"):  # the tensors are there already: no memory for others
            network = _Network(self.texts.shape[1], self.options)
            for _ in range(tasks):
                network.expand()
        network.load_state_dict(weights, assign=True)
        self.network = network
