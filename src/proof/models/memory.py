"""The pictures that a classifier keeps, as embeddings.

They serve to rehearse, to forget exactly, and to calibrate: of each class a few are held out, kept
and never learned.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from proof.exemplars import Budget, herd

HELD_MOST = 10  # pictures of a class that are held out, at most
_HELD_SHARE = 10  # one of so many
_HELD_FROM = 5  # a class with fewer pictures learns from all of them
_HELD_OF_KEPT = 5  # of what is kept, at most one of so many is held out

Key = tuple[str, bytes]  # a class, and the content of a picture


class Memory:
    """Embeddings (n, d) in float16, in the order in which they came: each with its class, its
    lesson, and whether it is held out. They are what the learner was given, bit for bit."""

    def __init__(self) -> None:
        self.vectors = torch.zeros(0, 0, dtype=torch.float16)
        self.labels: list[str] = []
        self.lessons = torch.zeros(0, dtype=torch.int32)
        self.held = torch.zeros(0, dtype=torch.bool)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, vectors: Tensor, labels: Sequence[str], held: Tensor, lessons: Tensor) -> None:
        """Take in pictures."""
        if not len(labels):
            return
        self.vectors = torch.cat([self.vectors, vectors]) if len(self) else vectors
        self.labels = [*self.labels, *labels]
        self.lessons = torch.cat([self.lessons, lessons.int()])
        self.held = torch.cat([self.held, held])

    def take_in(self, other: Memory, after: int) -> None:
        """Add what another keeps, its lessons counted on from `after`. A picture that one of the
        two has learned is not held out any more, and none is held out twice."""
        mine = set(self.keys(self.held))
        self.add(other.vectors, other.labels, other.held, other.lessons + after)
        learned = set(self.keys(~self.held))
        again = torch.zeros(len(self), dtype=torch.bool)
        again[len(self) - len(other) :] = True
        rows = self.held.nonzero()[:, 0].tolist()
        keep = torch.ones(len(self), dtype=torch.bool)
        for row, key in zip(rows, self.keys(self.held), strict=True):
            keep[row] = key not in learned and not (again[row] and key in mine)
        self._keep(keep)

    def shrink(self, budget: Budget, classes: int, herded: bool) -> None:
        """Keep as many of each class as the budget allows: for rehearsal the best by herding, else
        a fair sample, chosen by content, that a model can be judged by."""
        room = budget.of_each(classes)
        if not room:
            self._keep(torch.zeros(len(self), dtype=torch.bool))
            return
        self._release(_held_most(room))
        held = self.counts(held=True)
        over = [name for name, n in self.counts(held=False).items() if n > room - held[name]]
        if not over:
            return
        place = {label: code for code, label in enumerate(over)}
        codes = torch.tensor([place.get(label, -1) for label in self.labels])
        codes[self.held] = -1
        keep, rows = codes < 0, (codes >= 0).nonzero()[:, 0]
        choose = herd if herded else _sample
        chosen = choose(self.vectors[rows].float(), codes[rows], len(over), room)
        for label, best in zip(over, chosen, strict=True):
            keep[rows[best[: max(room - held[label], 0)]]] = True
        self._keep(keep)

    def _release(self, most: int) -> None:
        """Keep fewer that are held out of each class, the first ones."""
        count: Counter[str] = Counter()
        keep = torch.ones(len(self), dtype=torch.bool)
        for row in self.held.nonzero()[:, 0].tolist():
            count[self.labels[row]] += 1
            keep[row] = count[self.labels[row]] <= most
        self._keep(keep)

    def drop(self, label: str) -> None:
        """Remove all pictures of a class."""
        self._keep(~self._of(label))

    def rename(self, old: str, new: str) -> None:
        """Give the pictures of a class another label."""
        self.labels = [new if label == old else label for label in self.labels]

    def learned(self, label: str, until: int | None = None) -> Tensor:
        """The kept pictures that a class was taught with, (n, d), up to a lesson."""
        rows = self._of(label) & ~self.held
        return self.vectors[rows if until is None else rows & (self.lessons <= until)]

    def part(self, held: bool) -> tuple[Tensor, list[str]]:
        """The pictures that are held out, or those that were learned, and their classes."""
        return self.vectors[self.held == held], self._labels(self.held == held)

    def by_lesson(self, without: str) -> Iterator[tuple[int, Tensor, list[str]]]:
        """What was learned, lesson after lesson, but for one class."""
        wanted = ~self.held & ~self._of(without)
        for lesson in self.lessons[wanted].unique().tolist():
            rows = wanted & (self.lessons == lesson)
            yield lesson, self.vectors[rows], self._labels(rows)

    def counts(self, held: bool) -> Counter[str]:
        """How many pictures of each class are held out, or were learned."""
        return Counter(self._labels(self.held == held))

    def keys(self, rows: Tensor, of: Collection[str] | None = None) -> list[Key]:
        """Class and content of some of what is kept; `of` some classes, where it is given."""
        if of is not None:
            rows = rows & torch.tensor([name in of for name in self.labels], dtype=torch.bool)
        return list(zip(self._labels(rows), keys_of(self.vectors[rows]), strict=True))

    def _labels(self, rows: Tensor) -> list[str]:
        return [self.labels[row] for row in rows.nonzero()[:, 0].tolist()]

    def _of(self, label: str) -> Tensor:
        return torch.tensor([name == label for name in self.labels], dtype=torch.bool)

    def _keep(self, rows: Tensor) -> None:
        if rows.all():
            return
        self.labels = self._labels(rows)
        self.vectors, self.lessons = self.vectors[rows], self.lessons[rows]
        self.held = self.held[rows]


def keys_of(vectors: Tensor) -> list[bytes]:
    """Eight bytes for each of `vectors` (n, d) that stand for its content."""
    return [hashlib.blake2b(row.data, digest_size=8).digest() for row in vectors.numpy()]


def choose_held_out(keys: Sequence[Key], memory: Memory, room: int) -> Tensor:
    """Which pictures of a lesson are not to be learned, (n,) bool: a tenth of each class, chosen by
    their content, so that their order does not matter. `room` is how many of a class are kept."""
    rows: dict[str, list[int]] = {}
    for row, (label, _) in enumerate(keys):
        rows.setdefault(label, []).append(row)
    held, learned = memory.counts(held=True), set(memory.keys(~memory.held, of=rows))
    chosen = torch.zeros(len(keys), dtype=torch.bool)
    for label, mine in rows.items():
        fresh = sorted({keys[row] for row in mine} - learned)
        if len(fresh) < _HELD_FROM:
            continue
        free = _held_most(room) - held[label]
        kept = set(fresh[: max(min(max(len(fresh) // _HELD_SHARE, 1), free), 0)])
        chosen[[row for row in mine if keys[row] in kept]] = True
    return chosen


def _sample(images: Tensor, codes: Tensor, classes: int, count: int) -> list[Tensor]:
    """For each class the rows of pictures chosen by their content, as `herd` gives them."""
    keys = keys_of(images)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rows = torch.tensor(order)
    return [rows[codes[rows] == code][:count] for code in range(classes)]


def _held_most(room: int) -> int:
    return min(HELD_MOST, room // _HELD_OF_KEPT)
