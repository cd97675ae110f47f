"""What every method is: a learner that takes tasks and scores pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.equations import cosine
from proof.errors import ProofError
from proof.exemplars import Budget, Exemplars
from proof.probabilities import Scale
from proof.streams import Task

Progress = Callable[[float], None]  # called with the share of a task that is done, 0 to 1
Scorer = Callable[[Tensor], Tensor]  # images (n, d) -> scores (n, classes)
Votes = dict[str, Tensor]  # what each part of a method says, (n, classes) by name

_CHUNK = 1024  # pictures scored at once on a CPU
_GPU_SCORES = 2**24  # scores made at once on a GPU, which wants few and large pieces of work


@dataclass(frozen=True)
class NoOptions:
    """The options of a method that has none."""


class Learner(ABC):
    """Learns classes task after task from embeddings, and scores pictures.

    A method subclasses this, writes `_learn` and `_scorer`, and names in `_kept` the tensors that
    are its memory (or writes `_tensors` and `_set_tensors`). Classes keep their place: class k of
    `classes` is column k of `scores`, until one before it is forgotten.

    Inside, a method sees only the classes that it was given pictures of, as codes 0 to
    `self.known` - 1 in the order in which their pictures came. Classes known by their names alone
    wait here, and are given to `_scorer` as texts.
    """

    name: ClassVar[str] = ""
    rehearses: ClassVar[bool] = False  # whether it trains on exemplars of old classes
    exact: ClassVar[bool] = False  # whether forgetting a class is as if it was never taught
    depends_on_batch: ClassVar[bool] = False  # whether pictures change each other's scores
    scale: ClassVar[Scale] = Scale()  # how its scores become probabilities, uncalibrated
    Options: ClassVar[type[Any]] = NoOptions
    _kept: ClassVar[tuple[str, ...]] = ()
    _of_class: ClassVar[tuple[str, ...]] = ()  # the tensors that have a row for each class

    def __init__(
        self,
        options: Any = None,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        budget: Budget | None = None,
    ) -> None:
        if not 0 <= seed < 2**32:
            raise ProofError(f"seed {seed}: expected a whole number from 0 to 2^32 - 1")
        self.options = self.Options() if options is None else options
        self.seed = seed
        self.device = torch.device(device)
        self.exemplars = Exemplars(budget if self.rehearses and budget else Budget(total=0))
        self.classes: list[str] = []
        self.tasks = 0
        self._taught: list[str] = []  # the classes with pictures, in the order of their codes
        self._counts = torch.zeros(0, dtype=torch.long, device=self.device)  # pictures of each
        self._named: dict[str, Tensor] = {}  # the classes without, and their texts (d,)

    @property
    def known(self) -> int:
        """How many classes have been taught with pictures."""
        return len(self._taught)

    @property
    def pictures(self) -> dict[str, int]:
        """How many pictures each class was taught with."""
        counts = dict(zip(self._taught, self._counts.tolist(), strict=True))
        return {name: counts.get(name, 0) for name in self.classes}

    @property
    def trainable_parameters(self) -> int:
        """How many numbers are trained while a task is learned."""
        return 0

    @property
    def total_parameters(self) -> int:
        """How many numbers it holds beside the frozen encoders, without the exemplars."""
        return sum(tensor.numel() for tensor in self._tensors().values()) if self.tasks else 0

    @property
    def inference_parameters(self) -> int:
        """How many of them are left where nothing more is to be learned, only predicted."""
        return self.total_parameters

    @property
    def kept_bytes(self) -> int:
        """How many bytes `state` holds: all that was learned, and the exemplars."""
        return sum(tensor.nbytes for tensor in self.state().values())

    def learn(self, task: Task, progress: Progress | None = None) -> None:
        """Learn what `task` brings: new classes, more pictures of known ones, or both.

        A class without a picture is known by its name alone until pictures of it come.
        """
        self._check(task)
        texts = dict(zip(task.classes, self._take(task.texts), strict=True)) | self._named
        shown, code_of = set(task.labels), {name: code for code, name in enumerate(self._taught)}
        new = [name for name in task.classes if name in shown and name not in code_of]
        code_of |= {name: self.known + place for place, name in enumerate(new)}
        if shown:
            codes = torch.tensor([code_of[label] for label in task.labels], device=self.device)
            of_new = [texts[name] for name in new]
            self._learn(
                self._take(task.images),
                codes,
                torch.stack(of_new) if new else self._take(task.texts[:0]),
                progress or _silent,
            )
            before = F.pad(self._counts, (0, len(new)))
            self._counts = before + codes.bincount(minlength=len(code_of))
            self._taught += new
            self.tasks += 1
        old = set(self.classes)
        self.classes += [name for name in task.classes if name not in old]
        self._named = {name: text for name, text in texts.items() if name not in code_of}

    def _codes_of(self, labels: Sequence[str]) -> Tensor:
        """The codes of classes that were taught, (n,)."""
        code_of = {name: code for code, name in enumerate(self._taught)}
        return torch.tensor([code_of[label] for label in labels], device=self.device)

    def _check(self, task: Task) -> None:
        names = set(task.classes)
        if not names:
            raise ProofError("a task without classes: expected at least one")
        if len(names) != len(task.classes):
            raise ProofError(f"the task names a class twice among its {len(task.classes)}")
        if len(task.images) != len(task.labels):
            raise ProofError(
                f"the task has {len(task.images)} pictures and {len(task.labels)} labels: "
                f"expected a label for each picture"
            )
        odd = set(task.labels) - names
        if odd:
            raise ProofError(
                f"'{min(odd)}' labels a picture but is no class of the task: it has "
                f"{len(names)} classes"
            )

    @torch.no_grad()
    def scores(self, images: Tensor, names: Mapping[str, Tensor] | None = None) -> Tensor:
        """Score `images` (n, d) against every class, (n, classes): the highest score wins.

        `names` adds classes known by their text embedding (d,) alone, as further columns; a method
        that cannot tell such a class from its name gives it minus infinity.
        """
        texts, order = self._columns(names)
        scorer = self._scorer(texts) if self.known else _nearest_name(texts)
        rows = _CHUNK
        if self.device.type != "cpu":
            rows = max(_CHUNK, min(16 * _CHUNK, _GPU_SCORES // len(order)) // 64 * 64)
        parts = [scorer(self._take(chunk)) for chunk in images.split(rows)]
        scores = torch.cat(parts) if parts else torch.zeros(0, len(order), device=self.device)
        return self._in_order(scores, order)

    @torch.no_grad()
    def votes(self, images: Tensor) -> Votes:
        """What each part of the method says of `images` (n, d), by name: (n, classes) each."""
        texts, order = self._columns(None)
        voter = self._voter(texts) if self.known else _named_vote(texts)
        votes = voter(self._take(images))
        return {name: self._in_order(vote, order) for name, vote in votes.items()}

    def predict(self, images: Tensor) -> list[str]:
        """The class of each of `images` (n, d)."""
        return [self.classes[code] for code in self.scores(images).argmax(dim=1).tolist()]

    @torch.no_grad()
    def match_pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """The cosine of each of `images` (n, d) with the text in the same row of `texts` (n, d), in
        the space in which the method matches them: (n,)."""
        image, text = self._take(images), self._take(texts)
        if self.known:
            image, text = self._project(image, text)
        return F.cosine_similarity(image, text)

    def works(self, dim: int) -> bool:
        """Whether pictures of `dim` numbers can be scored by what was restored from somewhere."""
        scores = self.scores(torch.full((1, dim), dim**-0.5))
        fits = scores.shape == (1, len(self.classes)) and not scores.isnan().any()
        return bool(fits) and bool(scores.max().isfinite())

    def forget(self, name: str, images: Tensor | None = None) -> None:
        """Remove a class. An `exact` method that is given all its `images` (n, d) again is then as
        if it had never been taught."""
        if name not in self.classes:
            raise ProofError(f"no class '{name}' to forget: {_listed(self.classes)}")
        if name in self._taught:
            code = self._taught.index(name)
            self._forget(code, None if images is None else self._take(images))
            self.exemplars.drop(code)
            del self._taught[code]
            self._counts = _without(self._counts, code)
        self._named.pop(name, None)
        self.classes.remove(name)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name. What it was taught stays."""
        if old not in self.classes:
            raise ProofError(f"no class '{old}' to rename: {_listed(self.classes)}")
        if new in self.classes:
            raise ProofError(f"cannot rename '{old}' to '{new}': there is a class '{new}' already")
        self.classes[self.classes.index(old)] = new
        if old in self._taught:
            self._taught[self._taught.index(old)] = new
        if old in self._named:
            self._named = {new if name == old else name: t for name, t in self._named.items()}

    def merge(self, other: Learner, progress: Progress | None = None) -> None:
        """Take in what `other`, of the same method and options, was taught."""
        if type(other) is not type(self) or other.options != self.options:
            raise ProofError(
                f"cannot merge {other.name} ({other.options}) into {self.name} ({self.options}): "
                f"both must be the same method with the same options"
            )
        if other.known:
            code_of = {name: code for code, name in enumerate(self._taught)}
            for name in other._taught:
                code_of.setdefault(name, len(code_of))
            codes = torch.tensor([code_of[name] for name in other._taught], device=self.device)
            self._merge(other, codes, progress or _silent)
            counts = F.pad(self._counts, (0, len(code_of) - self.known))
            self._counts = counts.index_add(0, codes, other._counts.to(self.device))
            self._taught = list(code_of)
        old, taught = set(self.classes), set(self._taught)
        self.classes += [name for name in other.classes if name not in old]
        named = {name: self._take(text) for name, text in other._named.items()} | self._named
        self._named = {name: text for name, text in named.items() if name not in taught}

    def rehearse_on(self, pictures: Mapping[str, Tensor]) -> None:
        """Take these embeddings (n, d), by class, as the exemplars from now on."""
        kept = [self._take(pictures[name]) for name in self._taught]
        if kept:
            counts = torch.tensor([len(rows) for rows in kept])
            self.exemplars.restore({"exemplars": torch.cat(kept), "exemplar_counts": counts})

    def compact(self) -> None:  # noqa: B027, most methods have nothing to do here
        """Make what is kept smaller, where that leaves the scores as they are."""

    def state(self) -> dict[str, Tensor]:
        """All that was learned, as tensors by name, on the CPU."""
        tensors = self.exemplars.state()
        if self.known:
            place = {name: index for index, name in enumerate(self.classes)}
            tensors["taught"] = torch.tensor([place[name] for name in self._taught])
            tensors["counts"] = self._counts
            tensors.update(self._tensors())
        if self._named:
            names = [name for name in self.classes if name in self._named]
            tensors["named"] = torch.stack([self._named[name] for name in names])
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

    def restore(self, state: dict[str, Tensor], classes: list[str], tasks: int) -> None:
        """Take back what `state` gave after `tasks` tasks; scores are the same, bit for bit."""
        state = {name: tensor.to(self.device) for name, tensor in state.items()}
        self.classes, self.tasks = list(classes), tasks
        self._taught, self._named, self._counts = [], {}, self._counts[:0]
        if "taught" in state:
            self._taught = [classes[place] for place in state["taught"].tolist()]
            self._counts = state["counts"]
            self._set_tensors(state, tasks)
            self._check_restored()
        if "named" in state:
            taught = set(self._taught)
            names = [name for name in classes if name not in taught]
            self._named = dict(zip(names, state["named"], strict=True))
        self.exemplars.restore(state)

    def _check_restored(self) -> None:
        rows = {len(getattr(self, name)) for name in self._of_class}
        counts = self._counts
        whole = counts.shape == (self.known,) and counts.dtype == torch.long
        if not whole or rows - {self.known} or len(set(self._taught)) != self.known:
            raise ProofError(f"the state is not that of {self.known} classes")
        if not (counts > 0).all():
            raise ProofError("the state has classes that were taught without a picture")

    @abstractmethod
    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        """Learn from images (n, d) and their classes (n,). Codes below `self.known` are classes
        known already, those from there on are new; `texts` are the text embeddings of the new
        ones. Change `self` only when nothing can fail any more.
        """

    @abstractmethod
    def _scorer(self, texts: Tensor | None) -> Scorer:
        """A function that scores pictures against the known classes, then those of `texts`.
        What all pictures share is computed here, once."""

    def _voter(self, texts: Tensor | None) -> Callable[[Tensor], Votes]:
        """A function that gives what each part of the method says; here the score itself."""
        scorer = self._scorer(texts)
        return lambda images: {"score": scorer(images)}

    def _project(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Images (n, d) and texts (n, d) as the method matches them; here as CLIP does."""
        return images, texts

    def _forget(self, code: int, images: Tensor | None) -> None:
        """Remove class `code`, here its row of every tensor that `_of_class` names."""
        for name in self._of_class:
            setattr(self, name, _without(getattr(self, name), code))

    def _merge(self, other: Learner, codes: Tensor, progress: Progress) -> None:
        """Take in `other`, whose class k is class `codes[k]` here; those from `self.known` on are
        new. Here by learning what `other` remembers, as a task."""
        images, labels, texts = (tensor.to(self.device) for tensor in other._remembered())
        self._learn(images, codes[labels], texts[codes >= self.known], progress)
        self.tasks += 1

    def _remembered(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pictures that stand for what was taught, their classes, and the texts of all classes."""
        raise ProofError(f"models of the method {self.name} cannot be merged")

    def _tensors(self) -> dict[str, Tensor]:
        """What was learned, by name; here the attributes that `_kept` names."""
        return {name: getattr(self, name) for name in self._kept}

    def _set_tensors(self, tensors: dict[str, Tensor], tasks: int) -> None:
        """Take back what `_tensors` gave after `tasks` tasks."""
        for name in self._kept:
            setattr(self, name, tensors[name])

    def _take(self, tensor: Tensor) -> Tensor:
        # First moved, then converted: half-precision embeddings travel to a GPU as they are.
        return tensor.to(self.device).to(torch.float32)

    def _columns(self, names: Mapping[str, Tensor] | None) -> tuple[Tensor | None, list[int]]:
        """The texts of all classes known by name alone, and where each class stands behind those
        with pictures: the place in `_scorer`'s columns, class by class."""
        if not self.classes:
            raise ProofError("no class was learned yet: learn a task before scoring pictures")
        texts = [*self._named.values(), *(self._take(text) for text in (names or {}).values())]
        inside = {name: place for place, name in enumerate([*self._taught, *self._named])}
        further = range(len(inside), len(inside) + len(names or ()))
        return torch.stack(texts) if texts else None, [*map(inside.get, self.classes), *further]

    def _in_order(self, scores: Tensor, order: list[int]) -> Tensor:
        scores = F.pad(scores, (0, len(order) - scores.shape[1]), value=-torch.inf)
        return scores if order == list(range(len(order))) else scores[:, order]


def _nearest_name(texts: Tensor | None) -> Scorer:
    """Where no class has a picture, CLIP itself decides, whatever the method."""
    assert texts is not None
    return lambda images: cosine(images, texts)


def _named_vote(texts: Tensor | None) -> Callable[[Tensor], Votes]:
    scorer = _nearest_name(texts)
    return lambda images: {"name": scorer(images)}


def _without(tensor: Tensor, row: int) -> Tensor:
    return torch.cat([tensor[:row], tensor[row + 1 :]])


def _listed(classes: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in classes[:5])
    more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
    return f"it knows {shown}{more}" if classes else "it knows no class yet"


def _silent(share: float) -> None:
    pass
