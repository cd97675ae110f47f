"""Pairs of a picture and a text that belong together, from outside a stream of classes.

The paper's zero-shot protocol takes 10,000 of LAION-400M and watches their matching score, the mean
cosine, while classes are learned: what falls is CLIP's own ability.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from proof.embeddings import Embeddings, check_vectors, hash_tensors, read_tensors
from proof.errors import ProofError
from proof.files import replacing

_TENSORS = ("image", "text")


@dataclass(frozen=True)
class Pairs:
    """Pictures and texts behind a frozen encoder; those in the same row belong together.

    >>> import torch
    >>> print(Pairs(torch.eye(3), torch.eye(3), "photos"))
    photos (3 pairs, 21be964a557c2134)
    """

    images: Tensor  # (n, d)
    texts: Tensor  # (n, d)
    name: str = "pairs"
    metadata: dict[str, str] = field(default_factory=dict)  # encoder, fingerprint, ...

    def __len__(self) -> int:
        return len(self.images)

    def __str__(self) -> str:
        return f"{self.name} ({len(self):,} pairs, {self.fingerprint})"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every number in it."""
        return hash_tensors("pairs", [self.images, self.texts])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Pairs:
        """Read a safetensors file with `image` (n, d) and `text` (n, d)."""
        path = Path(path)
        if not path.is_file():
            raise ProofError(
                f"no pairs at '{path}': expected a .safetensors file with 'image' and 'text', or a "
                "CSV file of path,text"
            )
        tensors, metadata = read_tensors(path, _TENSORS, "a file of pairs")
        _check(path, **tensors)
        return cls(tensors["image"], tensors["text"], path.stem, metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that `load` reads."""
        tensors = {"image": self.images.contiguous(), "text": self.texts.contiguous()}
        _check(Path(path), **tensors)
        with replacing(Path(path)) as partial:
            save_file(tensors, partial, metadata=self.metadata)

    def check_fit(self, data: Embeddings) -> None:
        """Refuse pairs that are not behind the encoder of `data`, as far as that can be told."""
        if self.images.shape[1] != data.dim:
            raise ProofError(
                f"pairs '{self.name}' have {self.images.shape[1]} numbers each, but '{data.name}' "
                f"has {data.dim}: expected pairs behind the same encoder"
            )
        ours, theirs = (facts.get("fingerprint") for facts in (self.metadata, data.metadata))
        if ours and theirs and ours != theirs:
            raise ProofError(
                f"pairs '{self.name}' are behind the encoder {self.metadata.get('encoder')}, but "
                f"'{data.name}' is behind {data.metadata.get('encoder')} with other weights: "
                "expected the same"
            )


def _check(path: Path, image: Tensor, text: Tensor) -> None:
    if text.ndim != 2 or not len(text) or image.shape != text.shape:
        raise ProofError(
            f"{path}: 'image' has shape {tuple(image.shape)} and 'text' {tuple(text.shape)}: "
            "expected the same (n, d), one row for each pair"
        )
    for name, tensor in (("image", image), ("text", text)):
        check_vectors(path, name, tensor, text.shape[1])
