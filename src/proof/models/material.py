"""What a user may give to learn from or to be judged by, as embeddings with labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proof.datasets import Dataset, open_dataset
from proof.datasets.folders import pictures_below
from proof.embeddings import Embeddings, holds_embeddings
from proof.encoders import Encoder
from proof.encoding import Broken, encode_pictures
from proof.errors import InputError, ProofError
from proof.models.pictures import listed, vectors_of

Progress = Callable[[str, int, int], None]  # what, done, in all


@dataclass(frozen=True)
class Embedded:
    """Embeddings of those pictures that could be read."""

    vectors: Tensor  # (good, d), float16
    good: list[int]  # which of the pictures they belong to
    broken: list[Broken]


@dataclass(frozen=True)
class Material:
    """Embeddings with labels."""

    classes: list[str]  # all that are named, with pictures or without
    vectors: Tensor  # (n, d), float16
    labels: list[str]
    texts: dict[str, Tensor] = field(default_factory=dict)  # (d,), where they are given
    broken: list[tuple[str, str]] = field(default_factory=list)  # path and reason
    metadata: dict[str, str] = field(default_factory=dict)  # of an embeddings file


@dataclass(frozen=True)
class Gatherer:
    """Turns what is given into embeddings. `encoder` loads one; None where there is none."""

    encoder: Callable[[], Encoder] | None
    progress: Progress | None = None

    def gather(self, given: Any, testing: bool = False) -> Material:
        """Labelled pictures of any form; of a data set the training part, or that for testing.
        One without parts is taken whole."""
        if isinstance(given, str | os.PathLike):
            given = _opened(os.fspath(given))
        if isinstance(given, Embeddings):
            return _of_embeddings(given, testing)
        if isinstance(given, Dataset):
            part = given.test if testing and len(given.test) else given.train
            there = set(part.labels)
            classes = [name for name in given.class_names if name in there]
            return self._read(classes, part.pictures, part.labels)
        if isinstance(given, Mapping):
            return self._of_classes(given)
        raise ProofError(
            f"{type(given).__name__} given: expected a dictionary of class names and their "
            f"pictures, a folder of class folders, or another form of labelled pictures"
        )

    def embed(self, pictures: Any, strict: bool = False) -> Embedded:
        """Embeddings of pictures. Broken ones are listed, or with `strict` are an error."""
        items = listed(pictures, pixels=self.encoder is not None)
        if isinstance(items, Tensor):
            return Embedded(items, list(range(len(items))), [])
        return self._encode(items, strict)

    def _encode(self, items: Sequence[Any], strict: bool = False) -> Embedded:
        if not len(items):
            return Embedded(torch.zeros(0, 0).half(), [], [])
        if self.encoder is None:
            raise InputError(
                f"{len(items):,} pictures that must be encoded, and the classifier has no encoder: "
                f"give embeddings (n, d), or make it with Classifier('ViT-B-16/laion400m_e32')"
            )
        progress = self.progress
        report = (lambda done, total: progress("pictures", done, total)) if progress else None
        encoded = encode_pictures(items, self.encoder(), progress=report, strict=strict)
        return Embedded(torch.from_numpy(encoded.vectors), encoded.good.tolist(), encoded.broken)

    def _read(self, classes: list[str], pictures: Sequence[Any], labels: Sequence[str]) -> Material:
        """Encode pictures; a class of which none can be read is an error."""
        embedded = self._encode(pictures)
        read = [labels[index] for index in embedded.good]
        there = set(read)
        for picture in embedded.broken:
            if (label := labels[picture.index]) not in there:
                raise ProofError(
                    f"none of the {Counter(labels)[label]} pictures of '{label}' can be read, "
                    f"first {picture}: mend them, or leave the class out"
                )
        broken = [(picture.picture, picture.reason) for picture in embedded.broken]
        return Material(classes, embedded.vectors, read, broken=broken)

    def _of_classes(self, given: Mapping[Any, Any]) -> Material:
        pictures: list[Any] = []
        owners: list[str] = []
        vectors: dict[str, Tensor] = {}
        for label, mine in given.items():
            check_label(label)
            items = listed(_unfolded(label, mine), pixels=self.encoder is not None)
            if isinstance(items, Tensor):
                vectors[label] = items
            else:
                pictures += items
                owners += [label] * len(items)
        read = self._read(list(given), pictures, owners)
        return _joined(read, vectors) if vectors else read


def check_label(label: Any) -> None:
    """Labels are words."""
    if not isinstance(label, str):
        raise ProofError(f"the label {label!r} is {type(label).__name__}: expected a string")
    if not label.strip():
        raise ProofError(f"the label {label!r} is empty: expected the name of a class")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise ProofError(f"the label {label!r} is not Unicode text: rename it") from None


def _opened(source: str) -> Embeddings | Dataset:
    if holds_embeddings(source):
        return Embeddings.load(source)
    return open_dataset(source, test_fraction=0.0)


def _of_embeddings(given: Embeddings, testing: bool) -> Material:
    split = given.test if testing and len(given.test) else given.train
    there = set(split.codes.tolist())
    classes = [name for code, name in enumerate(given.class_names) if code in there]
    texts = dict(zip(classes, vectors_of(given.texts_of(classes)), strict=True))
    return Material(classes, vectors_of(split.images), split.labels, texts, [], given.metadata)


def _unfolded(label: str, pictures: Any) -> Any:
    """The pictures in a folder, where one is given."""
    if not isinstance(pictures, str | os.PathLike) or not Path(pictures).is_dir():
        return pictures
    found, _ = pictures_below(pictures)
    if not found:
        raise ProofError(f"'{os.fspath(pictures)}', given for '{label}', holds no pictures")
    return [Path(pictures) / name for name in found]


def _joined(read: Material, vectors: Mapping[str, Tensor]) -> Material:
    """Pictures that were read and embeddings that were given, class after class."""
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(read.labels):
        rows.setdefault(label, []).append(row)
    parts = {label: read.vectors[mine] for label, mine in rows.items()} | dict(vectors)
    widths = {part.shape[1]: label for label, part in parts.items()}
    if len(widths) > 1:
        (width, label), (other, another) = list(widths.items())[:2]
        raise InputError(
            f"embeddings of '{label}' have {width} numbers and those of '{another}' {other}: "
            f"expected the same for all"
        )
    classes = [label for label in read.classes if label in parts]
    labels = [label for label in classes for _ in range(len(parts[label]))]
    every = torch.cat([parts[label] for label in classes])
    return Material(read.classes, every, labels, broken=read.broken)
