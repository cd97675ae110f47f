"""Streams: the order in which classes arrive, task after task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from proof.embeddings import Embeddings, Split
from proof.errors import ProofError

DEFAULT_ORDER_SEED = 1993


@dataclass(frozen=True)
class Task:
    """What arrives at once: new classes with their text embeddings, and pictures of them."""

    classes: tuple[str, ...]
    texts: Tensor  # (classes, d)
    images: Tensor  # (n, d)
    labels: list[str]  # n of `classes`


@dataclass(frozen=True)
class Stream:
    """Data cut into tasks of new classes.

    >>> stream = Stream.of(Embeddings.load("cifar100-small"), "B0-Inc10")
    >>> len(stream), stream.classes(0)[:3], len(stream.task(0).images)
    (10, ('road', 'palm tree', 'snake'), 600)
    """

    data: Embeddings
    protocol: str
    sizes: tuple[int, ...]
    order_seed: int
    order: tuple[str, ...]  # every class, in the order of arrival

    @classmethod
    def of(
        cls,
        data: Embeddings,
        protocol: str | Sequence[int],
        order_seed: int = DEFAULT_ORDER_SEED,
    ) -> Stream:
        """Shuffle the classes with `order_seed` and cut them by `protocol`.

        `protocol` is `"B50-Inc10"` or a list of task sizes. Every class needs a training picture.
        """
        names = data.class_names
        if not 0 <= order_seed < 2**32:
            raise ProofError(f"order seed {order_seed}: expected a whole number from 0 to 2^32 - 1")
        sizes, name = task_sizes(protocol, len(names))
        counts = torch.bincount(data.train.codes, minlength=len(names))
        if not counts.all():
            empty = [names[i] for i in (counts == 0).nonzero()[:, 0].tolist()]
            raise ProofError(
                f"{len(empty)} of {len(names)} classes have no training picture, first "
                f"'{empty[0]}': every class of a stream needs at least one"
            )
        shuffled = np.random.RandomState(order_seed).permutation(len(names))
        stream = cls(data, name, sizes, order_seed, tuple(names[i] for i in shuffled))
        for index in range(len(stream)):
            if not len(stream.test(index)):
                raise ProofError(
                    f"task {index + 1} ({sizes[index]} classes, first "
                    f"'{stream.classes(index)[0]}') has no test picture: nothing to measure it by"
                )
        return stream

    def __len__(self) -> int:
        return len(self.sizes)

    def classes(self, index: int) -> tuple[str, ...]:
        """The classes that are new in task `index`."""
        start = sum(self.sizes[:index])
        return self.order[start : start + self.sizes[index]]

    def task(self, index: int) -> Task:
        """The training pictures of task `index`."""
        classes = self.classes(index)
        split = self.data.train.of(classes)
        return Task(classes, self.data.texts_of(classes), split.images, split.labels)

    def test(self, index: int) -> Split:
        """The test pictures of the classes of task `index`."""
        return self._tests[index]

    @cached_property
    def _tests(self) -> list[Split]:
        return [self.data.test.of(self.classes(index)) for index in range(len(self))]


def task_sizes(protocol: str | Sequence[int], classes: int) -> tuple[tuple[int, ...], str]:
    """Task sizes of a protocol or a list of sizes, and its name; an error if they do not fit.

    >>> task_sizes([3, 4, 3], 10)
    ((3, 4, 3), '3,4,3')
    """
    if isinstance(protocol, str):
        return parse_protocol(protocol, classes)
    _check_sizes(tuple(protocol), classes)
    return tuple(protocol), ",".join(map(str, protocol))


def parse_protocol(protocol: str, classes: int) -> tuple[tuple[int, ...], str]:
    """Task sizes of a Base-x Inc-y protocol, and its name in one spelling.

    Base 0 means that the first task is as large as the others.

    >>> parse_protocol("B50-Inc10", 100)
    ((50, 10, 10, 10, 10, 10), 'B50-Inc10')
    >>> parse_protocol("Base-0, Inc-25", 100)
    ((25, 25, 25, 25), 'B0-Inc25')
    """
    match = re.fullmatch(r"b(?:ase)?-?(\d+)[-, ]*inc-?(\d+)", protocol.strip(), re.IGNORECASE)
    if not match:
        raise ProofError(f"protocol '{protocol}' is not of the form B0-Inc10 or B50-Inc10")
    base, increment = int(match[1]), int(match[2])
    name = f"B{base}-Inc{increment}"
    if increment == 0 or base > classes:
        raise ProofError(
            f"protocol {name} does not fit {classes} classes: expected a base of at most {classes} "
            "and an increment of at least 1"
        )
    first = (base,) if base else ()
    tasks, left = divmod(classes - base, increment)
    sizes = first + (increment,) * tasks
    if left:
        longer = (*sizes[:-1], sizes[-1] + left) if sizes else (left,)
        raise ProofError(
            f"protocol {name} does not add up to {classes} classes: {len(sizes)} tasks hold "
            f"{sum(sizes)} and {left} are left over; give the sizes, such as "
            f"--sizes {','.join(map(str, longer))}"
        )
    return sizes, name


def _check_sizes(sizes: tuple[int, ...], classes: int) -> None:
    if any(size < 1 for size in sizes):
        raise ProofError(f"task sizes {list(sizes)}: every task needs at least 1 class")
    if sum(sizes) != classes:
        raise ProofError(
            f"task sizes {list(sizes)} add up to {sum(sizes)} classes, but the data have {classes}"
        )
