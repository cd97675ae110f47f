"""What every method is: a learner that takes tasks and scores pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.errors import ProofError
from proof.exemplars import Budget, Exemplars
from proof.streams import Task

Progress = Callable[[float], None]  # called with the share of a task that is done, 0 to 1
Scorer = Callable[[Tensor], Tensor]  # images (n, d) -> scores (n, classes)

_CHUNK = 1024  # pictures scored at once on a CPU
_GPU_SCORES = 2**24  # scores made at once on a GPU, which wants few and large pieces of work


@dataclass(frozen=True)
class NoOptions:
    """The options of a method that has none."""


class Learner(ABC):
    """Learns classes task after task from embeddings, and scores pictures.

    A method subclasses this, writes `_learn` and `_scorer`, and names in `_kept` the tensors that
    are its memory (or writes `_tensors` and `_set_tensors`). Classes keep their place: class k of
    `classes` is column k of `scores`, forever.
    """

    name: ClassVar[str] = ""
    rehearses: ClassVar[bool] = False  # whether it trains on exemplars of old classes
    Options: ClassVar[type[Any]] = NoOptions
    _kept: ClassVar[tuple[str, ...]] = ()

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
        """Learn the classes of `task`, none of which may be known yet."""
        again = set(task.classes) & set(self.classes)
        if again:
            raise ProofError(f"class '{min(again)}' was learned before: a task brings new classes")
        codes = {name: len(self.classes) + i for i, name in enumerate(task.classes)}
        if len(codes) != len(task.classes):
            raise ProofError(f"the task names a class twice among its {len(task.classes)}")
        odd = set(task.labels) ^ codes.keys()
        if odd:
            name = min(odd)
            what = "has no pictures" if name in codes else "labels a picture but is no class"
            raise ProofError(
                f"'{name}' {what} of the task: its {len(task.images)} pictures must show its "
                f"{len(codes)} classes, each at least once"
            )
        labels = torch.tensor([codes[label] for label in task.labels], device=self.device)
        self._learn(self._take(task.images), labels, self._take(task.texts), progress or _silent)
        self.classes += task.classes
        self.tasks += 1

    @torch.no_grad()
    def scores(self, images: Tensor, names: Mapping[str, Tensor] | None = None) -> Tensor:
        """Score `images` (n, d) against every class, (n, classes): the highest score wins.

        `names` adds classes known by their text embedding (d,) alone, as further columns; a method
        that cannot tell such a class from its name gives it minus infinity.
        """
        if not self.classes:
            raise ProofError("no class was learned yet: learn a task before scoring pictures")
        texts = self._take(torch.stack(list(names.values()))) if names else None
        columns = len(self.classes) + (len(names) if names else 0)
        scorer = self._scorer(texts)
        rows = _CHUNK
        if self.device.type != "cpu":
            rows = max(_CHUNK, min(16 * _CHUNK, _GPU_SCORES // columns) // 64 * 64)
        parts = [scorer(self._take(chunk)) for chunk in images.split(rows)]
        scores = torch.cat(parts) if parts else torch.zeros(0, columns, device=self.device)
        return F.pad(scores, (0, columns - scores.shape[1]), value=-torch.inf)

    def predict(self, images: Tensor) -> list[str]:
        """The class of each of `images` (n, d)."""
        return [self.classes[code] for code in self.scores(images).argmax(dim=1).tolist()]

    def state(self) -> dict[str, Tensor]:
        """All that was learned, as tensors by name, on the CPU."""
        tensors = {**(self._tensors() if self.tasks else {}), **self.exemplars.state()}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

    def restore(self, state: dict[str, Tensor], classes: list[str], tasks: int) -> None:
        """Take back what `state` gave after `tasks` tasks; scores are the same, bit for bit."""
        state = {name: tensor.to(self.device) for name, tensor in state.items()}
        if tasks:
            self._set_tensors(state, tasks)
        self.exemplars.restore(state)
        self.classes, self.tasks = list(classes), tasks

    @abstractmethod
    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        """Learn new classes: images (n, d), their classes (n,) counting on from those known, and
        the text embeddings of the new classes. Change `self` only when nothing can fail any more.
        """

    @abstractmethod
    def _scorer(self, texts: Tensor | None) -> Scorer:
        """A function that scores pictures against the known classes, then those of `texts`.
        What all pictures share is computed here, once."""

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


def _silent(share: float) -> None:
    pass
