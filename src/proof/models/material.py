"""What a user may give to learn or to be judged by, as embeddings with labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proof.datasets import Dataset, Labelled, open_dataset
from proof.datasets.folders import pictures_below
from proof.embeddings import Embeddings, Split, builtin_data
from proof.encoding import Broken, encode_pictures
from proof.errors import InputError, ProofError
from proof.models.pictures import OpenEncoder, Progress, listed


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
    texts: dict[str, Tensor] = field(default_factory=dict)  # (d,) for those that are given
    broken: list[tuple[str, str]] = field(default_factory=list)  # path and reason
    metadata: dict[str, str] = field(default_factory=dict)  # of an embeddings file


@dataclass(frozen=True)
class Gatherer:
    """Turns what is given into embeddings. `encoder` loads one when first called; None: there is
    none, and only embeddings will do."""

    encoder: OpenEncoder | None
    progress: Progress | None = None

    def gather(self, given: Any, testing: bool = False) -> Material:
        """Labelled pictures of any form; of a data set the training part, or that for testing.

        A data set that is not split is taken whole.
        """
        if isinstance(given, str | os.PathLike):
            given = _opened(os.fspath(given))
        if isinstance(given, Embeddings):
            return _of_embeddings(given, testing)
        if isinstance(given, Dataset):
            return self._of_pictures(given.test if testing and len(given.test) else given.train)
        if isinstance(given, Mapping):
            return self._of_classes(given)
        raise ProofError(
            f"{type(given).__name__} given to learn from: expected a dictionary of class names and "
            f"their pictures, a folder of class folders, or embeddings"
        )

    def embed(self, pictures: Any, what: str = "pictures", strict: bool = False) -> Embedded:
        """Embeddings of pictures. Broken ones are listed, or with `strict` are an error."""
        items = listed(pictures, pixels=self.encoder is not None)
        if isinstance(items, Tensor):
            return Embedded(items, list(range(len(items))), [])
        if self.encoder is None:
            raise InputError(
                f"{len(items)} pictures to be encoded, and this classifier has no encoder: give "
                f"embeddings (n, d), or make one with an encoder: "
                f"Classifier('ViT-B-16/laion400m_e32')"
            )
        progress = self.progress
        report = (lambda done, total: progress(what, done, total)) if progress else None
        encoded = encode_pictures(items, self.encoder(), progress=report, strict=strict)
        return Embedded(torch.from_numpy(encoded.vectors), encoded.good.tolist(), encoded.broken)

    def _of_pictures(self, part: Labelled) -> Material:
        embedded = self.embed(part.pictures)
        classes = list(dict.fromkeys(part.labels))
        return _checked(classes, embedded, list(part.labels))

    def _of_classes(self, given: Mapping[Any, Any]) -> Material:
        pictures: list[Any] = []
        labels: list[str] = []
        parts: dict[str, Tensor] = {}
        for label, mine in given.items():
            check_label(label)
            items = listed(_unfolded(label, mine), pixels=self.encoder is not None)
            if isinstance(items, Tensor):
                parts[label] = items
            else:
                pictures += items
                labels += [label] * len(items)
        if not pictures:
            return _joined(list(given), parts)
        encoded = _checked([], self.embed(pictures), labels)
        for label in dict.fromkeys(labels):
            parts[label] = encoded.vectors[[name == label for name in encoded.labels]]
        joined = _joined(list(given), parts)
        return Material(joined.classes, joined.vectors, joined.labels, broken=encoded.broken)


def check_label(label: Any) -> None:
    """Labels are words."""
    if not isinstance(label, str):
        raise ProofError(f"the label {label!r} is {type(label).__name__}: expected a string")
    if not label.strip():
        raise ProofError(f"the label {label!r} is empty: expected the name of a class")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise ProofError(f"the label {label!r} is not Unicode text") from None


def _opened(source: str) -> Embeddings | Dataset:
    if source.endswith(".safetensors") or source in builtin_data():
        return Embeddings.load(source)
    return open_dataset(source, test_fraction=0.0)


def _of_embeddings(given: Embeddings, testing: bool) -> Material:
    split: Split = given.test if testing and len(given.test) else given.train
    there = set(split.codes.unique().tolist())
    classes = [name for code, name in enumerate(given.class_names) if code in there]
    texts = dict(zip(classes, given.texts_of(classes).half(), strict=True))
    return Material(
        classes, split.images.half(), split.labels, texts, metadata=dict(given.metadata)
    )


def _unfolded(label: str, pictures: Any) -> Any:
    """The pictures of a folder, where one is given."""
    if not isinstance(pictures, str | os.PathLike) or not Path(pictures).is_dir():
        return pictures
    found, _ = pictures_below(pictures)
    if not found:
        raise ProofError(f"'{os.fspath(pictures)}', given for '{label}', holds no pictures")
    return [Path(pictures) / name for name in found]


def _checked(classes: list[str], embedded: Embedded, labels: list[str]) -> Material:
    """What could be read; a class of which nothing could is an error."""
    read = [labels[index] for index in embedded.good]
    left = set(read)
    for picture in embedded.broken:
        if (label := labels[picture.index]) not in left:
            raise ProofError(
                f"none of the {labels.count(label)} pictures of '{label}' can be read, first "
                f"{picture}: mend them, or leave the class out"
            )
    broken = [(picture.picture, picture.reason) for picture in embedded.broken]
    return Material(classes, embedded.vectors, read, broken=broken)


def _joined(classes: list[str], parts: Mapping[str, Tensor]) -> Material:
    dims = {part.shape[1]: label for label, part in parts.items()}
    if len(dims) > 1:
        (one, a), (other, b) = list(dims.items())[:2]
        raise InputError(f"the embeddings of '{a}' have {one} numbers, those of '{b}' {other}")
    every: Iterable[Tensor] = (parts[label] for label in classes if label in parts)
    vectors = torch.cat([torch.zeros(0, *dims, dtype=torch.float16), *every]) if dims else None
    labels = [label for label in classes if label in parts for _ in range(len(parts[label]))]
    return Material(classes, torch.zeros(0, 0).half() if vectors is None else vectors, labels)
