"""What a user may give as pictures, and its way to embeddings.

A picture is a path, the bytes of a file, PIL's, or an array of uint8 (height, width, 3). All other
arrays are embeddings: (d,) is one, (n, d) are many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proof.encoders.base import Encoder
from proof.encoding import Broken, encode_pictures
from proof.errors import InputError, ProofError

Progress = Callable[[str, int, int], None]  # what, done, in all
OpenEncoder = Callable[[], Encoder]  # gives the encoder, loaded when first asked for


class Embedded(NamedTuple):
    """Embeddings of those pictures that could be read."""

    vectors: Tensor  # (good, d), float16
    good: list[int]  # which of the pictures they belong to
    broken: list[Broken]


def is_one(pictures: Any, pixels: bool) -> bool:
    """Whether this is a single picture; `pixels`: arrays of uint8 are pictures."""
    if isinstance(pictures, np.ndarray | Tensor):
        return pictures.ndim == 1 or (pixels and _is_pixels(pictures) and pictures.ndim < 4)
    return isinstance(pictures, str | os.PathLike | bytes | Image.Image)


def listed(pictures: Any, pixels: bool) -> list[Any] | Tensor:
    """Pictures as a list of what `encode_pictures` takes, or embeddings (n, d)."""
    if is_one(pictures, pixels):
        if isinstance(pictures, np.ndarray | Tensor) and pictures.ndim == 1:
            return vectors_of(pictures[None])
        return [pictures]
    if isinstance(pictures, np.ndarray | Tensor):
        if pixels and _is_pixels(pictures):
            return list(np.asarray(pictures))
        return vectors_of(pictures)
    if hasattr(pictures, "__array__") or hasattr(pictures, "tocsr"):  # a data frame, a matrix
        return vectors_of(pictures)
    if isinstance(pictures, dict) or not isinstance(pictures, Iterable):
        raise ProofError(
            f"{_shown(pictures)} given as pictures: expected paths, PIL images, arrays or "
            f"embeddings"
        )
    items = list(pictures)
    numbers = [_is_vector(item, pixels) for item in items]
    if items and all(numbers):
        return vectors_of([np.asarray(item) for item in items])
    if any(numbers):
        raise ProofError(
            f"pictures and embeddings in one list, first {_shown(items[numbers.index(False)])}: "
            f"give them apart"
        )
    for item in items:
        if not is_one(item, pixels):
            raise ProofError(
                f"{_shown(item)} among pictures: expected a path, a PIL image, an array of uint8 "
                f"(height, width, 3), or an embedding"
            )
    return items


def vectors_of(given: Any) -> Tensor:
    """Embeddings (n, d) as float16, all of them finite and with a direction.

    >>> vectors_of([[1, 2], [3, 4]]).dtype
    torch.float16
    """
    if isinstance(given, Tensor):
        given = given.detach().cpu().float().numpy()
    if hasattr(given, "tocsr"):
        raise InputError(f"a sparse matrix of shape {given.shape}: expected a dense array (n, d)")
    try:
        array = np.asarray(given)
        if np.iscomplexobj(array):
            raise InputError("Complex data not supported: expected embeddings of real numbers")
        array = array.astype(np.float32)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"embeddings that are no numbers: {error}") from None
    if array.ndim != 2:
        raise InputError(
            f"embeddings of shape {array.shape}: expected (n, d), one row for each picture. Reshape "
            f"your data: (1, d) is one picture"
        )
    if not array.shape[1]:
        raise InputError(
            f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required: embeddings have "
            f"at least one number"
        )
    vectors = torch.from_numpy(array)
    finite = vectors.isfinite().all(1)
    if not finite.all():
        row = int((~finite).nonzero()[0, 0])
        raise InputError(
            f"NaN or infinite (inf) numbers in {int((~finite).sum())} of {len(vectors)} embeddings, "
            f"first in row {row}"
        )
    half = vectors.half()
    if not half.isfinite().all():
        raise InputError("embeddings with numbers beyond 65504: divide them all by the same number")
    zero = ~half.any(1)
    if zero.any():
        raise InputError(
            f"{int(zero.sum())} of {len(half)} embeddings are all zeros (in half precision), first "
            f"row {int(zero.nonzero()[0, 0])}: such a vector has no direction"
        )
    return half


def _is_pixels(array: np.ndarray[Any, Any] | Tensor) -> bool:
    return array.dtype in (np.uint8, torch.uint8)


def _is_vector(item: Any, pixels: bool) -> bool:
    if isinstance(item, np.ndarray | Tensor):
        return item.ndim <= 1
    numbers = isinstance(item, Sequence) and not isinstance(item, str | bytes)
    return isinstance(item, int | float | np.number) or numbers


def _shown(item: Any) -> str:
    if isinstance(item, np.ndarray | Tensor):
        return f"an array of {item.dtype} with shape {tuple(item.shape)}"
    return f"'{item}'" if isinstance(item, str | os.PathLike) else f"{type(item).__name__}"
