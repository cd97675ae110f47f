"""The pictures that a classifier keeps, as embeddings.

They serve to forget exactly, to rehearse, and to calibrate: of each class a few are held out, which
are kept and never learned.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from proof.exemplars import Budget, herd

HELD_MOST = 10  # pictures of a class that are held out, at most
_HELD_SHARE = 10  # one of so many
_HELD_FROM = 5  # a class with fewer pictures learns from all of them


class Memory:
    """Embeddings (n, d) in float16, each with its class, its lesson, and whether it is held out.

    They lie in the order in which they came. What is written into a file is what the learner was
    taught, bit for bit.
    """

    def __init__(self) -> None:
        self.vectors = torch.zeros(0, 0, dtype=torch.float16)
        self.labels: list[str] = []
        self.lessons = torch.zeros(0, dtype=torch.int32)
        self.held = torch.zeros(0, dtype=torch.bool)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, vectors: Tensor, labels: Sequence[str], held: Tensor, lesson: int) -> None:
        """Take in the pictures of a lesson."""
        if not len(labels):
            return
        self.vectors = torch.cat([self.vectors, vectors]) if len(self) else vectors
        self.labels = [*self.labels, *labels]
        self.lessons = torch.cat([self.lessons, torch.full((len(labels),), lesson).int()])
        self.held = torch.cat([self.held, held])

    def shrink(self, budget: Budget, classes: int) -> None:
        """Keep as many of each class as the budget allows, the best by herding."""
        room = budget.of_each(classes)
        if not room:
            self._keep(torch.zeros(len(self), dtype=torch.bool))
            return
        held, taught = self._counts(held=True), self._counts(held=False)
        over = [label for label, count in taught.items() if count > room - held[label]]
        if not over:
            return
        place = {label: code for code, label in enumerate(over)}
        codes = torch.tensor([place.get(label, -1) for label in self.labels])
        codes[self.held] = -1
        rows = (codes >= 0).nonzero()[:, 0]
        keep = codes < 0
        chosen = herd(self.vectors[rows].float(), codes[rows], len(over), room)
        for label, best in zip(over, chosen, strict=True):
            keep[rows[best[: max(room - held[label], 0)]]] = True
        self._keep(keep)

    def drop(self, label: str) -> None:
        """Remove all pictures of a class."""
        self._keep(torch.tensor([name != label for name in self.labels], dtype=torch.bool))

    def rename(self, old: str, new: str) -> None:
        """Give the pictures of a class another label."""
        self.labels = [new if label == old else label for label in self.labels]

    def taught(self, label: str) -> Tensor:
        """The kept pictures that a class was taught with, (n, d)."""
        return self.vectors[self._where(label) & ~self.held]

    def held_out(self) -> tuple[Tensor, list[str]]:
        """The pictures that were kept and not learned, and their classes."""
        return self.vectors[self.held], self._labels(self.held)

    def learned(self) -> tuple[Tensor, list[str]]:
        """The kept pictures that were learned, and their classes."""
        return self.vectors[~self.held], self._labels(~self.held)

    def counts(self) -> Counter[str]:
        """How many pictures of each class are held out."""
        return self._counts(held=True)

    def by_lesson(self) -> Iterator[tuple[Tensor, list[str]]]:
        """What was taught, lesson after lesson."""
        for lesson in self.lessons.unique().tolist():
            rows = (self.lessons == lesson) & ~self.held
            if rows.any():
                yield self.vectors[rows], self._labels(rows)

    def keys(self, held: bool) -> set[tuple[str, bytes]]:
        """Class and content of what is kept."""
        rows = self.held == held
        return set(zip(self._labels(rows), keys_of(self.vectors[rows]), strict=True))

    def _counts(self, held: bool) -> Counter[str]:
        return Counter(self._labels(self.held == held))

    def _labels(self, rows: Tensor) -> list[str]:
        return [self.labels[row] for row in rows.nonzero()[:, 0].tolist()]

    def _where(self, label: str) -> Tensor:
        return torch.tensor([name == label for name in self.labels], dtype=torch.bool)

    def _keep(self, rows: Tensor) -> None:
        self.labels = self._labels(rows)
        self.vectors, self.lessons = self.vectors[rows], self.lessons[rows]
        self.held = self.held[rows]

    def state(self, classes: Sequence[str]) -> dict[str, Tensor]:
        """As tensors for a file."""
        if not len(self):
            return {}
        place = {label: code for code, label in enumerate(classes)}
        codes = torch.tensor([place[label] for label in self.labels], dtype=torch.int32)
        return {
            "vectors": self.vectors,
            "classes": codes,
            "lessons": self.lessons,
            "held": self.held,
        }

    def restore(self, state: dict[str, Tensor], classes: Sequence[str]) -> None:
        """Take back what `state` gave."""
        if state:
            self.vectors, self.lessons = state["vectors"], state["lessons"]
            self.labels = [classes[code] for code in state["classes"].tolist()]
            self.held = state["held"]


def keys_of(vectors: Tensor) -> list[bytes]:
    """Eight bytes for each of `vectors` (n, d) that stand for its content."""
    return [hashlib.blake2b(row.data, digest_size=8).digest() for row in vectors.numpy()]


def choose_held_out(
    keys: Sequence[bytes], labels: Sequence[str], memory: Memory, room: int
) -> Tensor:
    """Which pictures of a lesson are not to be learned, (n,) bool: a tenth of each class, chosen by
    their content, so that the order does not matter. `room` is how many of a class may be kept."""
    held, taught = memory.counts(), memory.keys(held=False)
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    chosen = torch.zeros(len(keys), dtype=torch.bool)
    for label, mine in rows.items():
        if len(mine) < _HELD_FROM:
            continue
        free = min(HELD_MOST, room // 5) - held[label]
        wanted = min(max(len(mine) // _HELD_SHARE, 1), free)
        fresh = sorted({keys[row] for row in mine if (label, keys[row]) not in taught})
        kept = set(fresh[: max(wanted, 0)])
        if len(kept) < len(fresh):  # something is left to learn from
            chosen[[row for row in mine if keys[row] in kept]] = True
    return chosen
