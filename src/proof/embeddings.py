"""Embeddings of pictures and of class names, and the file they travel in.

The file is a safetensors file; `docs/embeddings-format.md` describes it. It is read without
executing anything and checked whole before any of it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from proof.errors import ProofError
from proof.files import replacing

_BUILTIN = files("proof") / "data"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_TENSORS = ("train.image", "train.label", "test.image", "test.label", "text")


@dataclass(frozen=True)
class Split:
    """Image embeddings (n, d) and their labels; `codes` index `class_names`."""

    images: Tensor
    codes: Tensor
    class_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def labels(self) -> list[str]:
        return [self.class_names[code] for code in self.codes.tolist()]

    def of(self, classes: tuple[str, ...]) -> Split:
        """The part of the split that shows one of `classes`."""
        names = set(classes)
        wanted = torch.tensor([name in names for name in self.class_names])
        rows = wanted[self.codes].nonzero()[:, 0]
        return Split(self.images[rows], self.codes[rows], self.class_names)


@dataclass(frozen=True)
class Embeddings:
    """A data set behind a frozen encoder: pictures for training and testing, and class names.

    >>> data = Embeddings.load("cifar100-small")
    >>> len(data.class_names), len(data.train), len(data.test), data.dim
    (100, 6000, 3000, 512)
    """

    train: Split
    test: Split
    texts: Tensor  # (classes, d), one for each of class_names
    name: str = "embeddings"
    metadata: dict[str, str] = field(default_factory=dict)  # encoder, preprocess, text, ...

    def __post_init__(self) -> None:
        _check_names(self.name, self.class_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.train.class_names

    @property
    def dim(self) -> int:
        return self.texts.shape[1]

    def texts_of(self, classes: Sequence[str]) -> Tensor:
        """The text embeddings of `classes`, (classes, d)."""
        row = {name: index for index, name in enumerate(self.class_names)}
        return self.texts[[row[name] for name in classes]]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every number and name in it: the same data give the same string anywhere."""
        train, test = self.train, self.test
        return hash_tensors(
            json.dumps(self.class_names),
            [self.texts, train.images, train.codes, test.images, test.codes],
        )

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Embeddings:
        """Read an embeddings file, or built-in data by name (see `builtin_data`)."""
        path = Path(source)
        if not path.exists():
            builtin = builtin_data()
            if str(source) not in builtin:
                raise ProofError(
                    f"no embeddings at '{source}': expected a .safetensors file or one of the "
                    f"built-in names: {', '.join(builtin)}"
                )
            path = Path(str(_BUILTIN / f"{source}.safetensors"))
        if path.is_dir():
            raise ProofError(f"'{path}' is a folder: expected an embeddings file (.safetensors)")
        tensors, metadata = read_tensors(path, _TENSORS, "an embeddings file")
        names = _class_names(path, metadata)
        _check(path, tensors, names)
        return cls(
            train=Split(tensors["train.image"], tensors["train.label"].long(), names),
            test=Split(tensors["test.image"], tensors["test.label"].long(), names),
            texts=tensors["text"],
            name=path.stem,
            metadata={key: value for key, value in metadata.items() if key != "class_names"},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the embeddings file."""
        label = torch.int16 if len(self.class_names) <= 2**15 else torch.int32
        tensors = {
            "train.image": self.train.images.contiguous(),
            "train.label": self.train.codes.to(label),
            "test.image": self.test.images.contiguous(),
            "test.label": self.test.codes.to(label),
            "text": self.texts.contiguous(),
        }
        _check(Path(path), tensors, self.class_names)
        metadata = {
            key: value.encode("utf-8", "replace").decode() for key, value in self.metadata.items()
        }
        metadata["class_names"] = json.dumps(self.class_names)
        with replacing(Path(path)) as partial:
            save_file(tensors, partial, metadata=metadata)


def holds_embeddings(source: str) -> bool:
    """Whether this names an embeddings file or built-in data, and no pictures.

    >>> holds_embeddings("photos.safetensors"), holds_embeddings("cifar100-small")
    (True, True)
    """
    return source.endswith(".safetensors") or source in builtin_data()


def builtin_data() -> list[str]:
    """The names of the data inside the package.

    >>> builtin_data()
    ['cifar100-small']
    """
    names = (entry.name for entry in _BUILTIN.iterdir())
    return sorted(
        name.removesuffix(".safetensors") for name in names if name.endswith(".safetensors")
    )


def read_tensors(
    path: Path, wanted: Sequence[str], kind: str
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of these names in a safetensors file, and its metadata. `kind` says what should
    hold them."""
    try:
        with safe_open(path, framework="pt") as file:
            missing = [name for name in wanted if name not in file.keys()]
            if missing:
                raise ProofError(
                    f"{path}: no tensor '{missing[0]}': {kind} holds {', '.join(wanted)}"
                )
            return {name: file.get_tensor(name) for name in wanted}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ProofError(f"{path}: cannot be read as a safetensors file: {error}") from None


def check_vectors(path: Path, name: str, tensor: Tensor, dim: int) -> None:
    """Refuse what cannot be embeddings (n, dim). It is the dimension of 'text'."""
    if tensor.ndim != 2 or tensor.shape[1] != dim:
        raise ProofError(
            f"{path}: '{name}' has shape {tuple(tensor.shape)}: expected (n, {dim}), "
            f"the dimension of 'text'"
        )
    if tensor.dtype not in _FLOATS:
        raise ProofError(f"{path}: '{name}' is {tensor.dtype}: expected floating point")
    finite = tensor.isfinite().all(dim=1)
    if not finite.all():
        row = int((~finite).nonzero()[0, 0])
        raise ProofError(
            f"{path}: '{name}' has NaN or infinite numbers in {int((~finite).sum())} of its "
            f"{len(tensor)} rows, first in row {row}"
        )
    zero = ~tensor.any(dim=1)
    if zero.any():
        raise ProofError(
            f"{path}: '{name}' is all zeros in {int(zero.sum())} of its {len(tensor)} rows, "
            f"first in row {int(zero.nonzero()[0, 0])}: such a vector has no direction"
        )


def hash_tensors(text: str, tensors: Iterable[Tensor]) -> str:
    """A hash of a text and of every number: the same anywhere."""
    digest = hashlib.sha256(text.encode())
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _class_names(path: Path, metadata: dict[str, str]) -> tuple[str, ...]:
    if "class_names" not in metadata:
        raise ProofError(f"{path}: its metadata has no 'class_names' (a JSON list of strings)")
    try:
        names = json.loads(metadata["class_names"])
    except json.JSONDecodeError as error:
        raise ProofError(f"{path}: 'class_names' in its metadata is not JSON: {error}") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProofError(f"{path}: 'class_names' in its metadata is not a list of strings")
    _check_names(str(path), names)
    return tuple(names)


def _check_names(where: str, names: Sequence[str]) -> None:
    if not names:
        raise ProofError(f"{where}: the list of class names is empty")
    if len(set(names)) != len(names):
        name = next(name for name, count in Counter(names).items() if count > 1)
        raise ProofError(
            f"{where}: class name '{name}' stands {names.count(name)} times among the "
            f"{len(names)} names: every class needs a name of its own"
        )


def _check(path: Path, tensors: dict[str, Tensor], names: tuple[str, ...]) -> None:
    text = tensors["text"]
    if text.ndim != 2 or len(text) != len(names):
        raise ProofError(
            f"{path}: 'text' has shape {tuple(text.shape)}: expected one row for each of the "
            f"{len(names)} class names"
        )
    for name in ("train.image", "test.image", "text"):
        check_vectors(path, name, tensors[name], text.shape[1])
    for split in ("train", "test"):
        label, image = tensors[f"{split}.label"], tensors[f"{split}.image"]
        if label.is_floating_point() or label.dtype == torch.bool or label.shape != image.shape[:1]:
            raise ProofError(
                f"{path}: '{split}.label' is {label.dtype} of shape {tuple(label.shape)}: expected "
                f"one whole number for each of the {len(image)} rows of '{split}.image'"
            )
        codes = label.long()
        outside = (codes < 0) | (codes >= len(names))
        if outside.any():
            row = int(outside.nonzero()[0, 0])
            raise ProofError(
                f"{path}: '{split}.label' has {int(codes[row])} in row {row}: expected 0 to "
                f"{len(names) - 1}, an index into the {len(names)} class names"
            )
