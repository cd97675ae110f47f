"""What a user may give as pictures: told apart, and checked.

A picture is a path, the bytes of a file, PIL's, or an array of uint8 (height, width, 3). All other
arrays are embeddings: (d,) is one, (n, d) are many.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from proof.errors import InputError, ProofError

_MOST = 65504  # the largest number of float16


def is_one(pictures: Any, pixels: bool) -> bool:
    """Whether this is a single picture; `pixels`: arrays of uint8 are pictures.

    >>> is_one("moka.jpg", True), is_one(np.ones(512), True), is_one(np.ones((2, 512)), True)
    (True, True, False)
    """
    if isinstance(pictures, np.ndarray | Tensor):
        return pictures.ndim == 1 or (pixels and _is_pixels(pictures) and pictures.ndim < 4)
    return isinstance(pictures, str | os.PathLike | bytes | Image.Image)


def is_table(pictures: Any, pixels: bool) -> bool:
    """Whether this is a table of embeddings, as scikit-learn's users give them."""
    if isinstance(pictures, np.ndarray | Tensor):
        return pictures.ndim == 2 and not is_one(pictures, pixels)
    if isinstance(pictures, list | tuple):
        return bool(pictures) and isinstance(pictures[0], list | tuple)
    return hasattr(pictures, "__array__") and not isinstance(pictures, Image.Image)


def listed(pictures: Any, pixels: bool) -> list[Any] | Tensor:
    """Pictures as a list of what can be encoded, or embeddings (n, d)."""
    if is_one(pictures, pixels):
        one_vector = isinstance(pictures, np.ndarray | Tensor) and pictures.ndim == 1
        return vectors_of(pictures[None]) if one_vector else [pictures]
    if isinstance(pictures, np.ndarray | Tensor) and pixels and _is_pixels(pictures):
        return list(np.asarray(pictures))
    if hasattr(pictures, "__array__") or hasattr(pictures, "tocsr"):
        return vectors_of(pictures)
    if isinstance(pictures, dict) or not isinstance(pictures, Iterable):
        raise ProofError(
            f"{_shown(pictures)} given as pictures: expected paths, PIL images, arrays of uint8 or "
            f"embeddings"
        )
    items = list(pictures)
    numbers = [_is_vector(item) for item in items]
    if items and all(numbers):
        return vectors_of([np.asarray(item) for item in items])
    if any(numbers):
        raise ProofError(
            f"embeddings and {_shown(items[numbers.index(False)])} in one list: give them apart"
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
    array = _numbers(given)
    if array.ndim != 2:
        raise InputError(
            f"embeddings of shape {array.shape}: expected (n, d), a row for each picture. Reshape "
            f"your data: (1, d) is one. Pictures are arrays of uint8"
        )
    if not array.shape[1]:
        raise InputError(f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    vectors = torch.from_numpy(array)
    half = vectors.clamp(-2 * _MOST, 2 * _MOST).half()
    _check_rows(~vectors.isfinite().all(1), "have NaN or infinite (inf) numbers")
    _check_rows(half.isinf().any(1), f"have numbers beyond {_MOST}: divide them all by one number")
    _check_rows(~half.any(1), "are all zeros (in half precision): they have no direction")
    return half


def _numbers(given: Any) -> NDArray[np.float32]:
    if hasattr(given, "tocsr"):
        raise InputError(f"a sparse matrix of shape {given.shape}: expected a dense array (n, d)")
    array = given.detach().cpu().float().numpy() if isinstance(given, Tensor) else given
    try:
        array = np.asarray(array)
        if not np.iscomplexobj(array):
            with np.errstate(over="ignore"):
                return np.ascontiguousarray(array, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"embeddings that are no numbers: {error}") from None
    raise InputError("Complex data not supported: expected embeddings of real numbers")


def _check_rows(wrong: Tensor, what: str) -> None:
    if wrong.any():
        first = int(wrong.nonzero()[0, 0])
        raise InputError(f"{int(wrong.sum())} of {len(wrong)} embeddings {what}; first row {first}")


def _is_pixels(array: NDArray[Any] | Tensor) -> bool:
    return array.dtype in (np.uint8, torch.uint8)


def _is_vector(item: Any) -> bool:
    if isinstance(item, np.ndarray | Tensor):
        return item.ndim < 2
    numbers = isinstance(item, Sequence) and not isinstance(item, str | bytes)
    return numbers or isinstance(item, int | float | np.number)


def _shown(item: Any) -> str:
    if isinstance(item, np.ndarray | Tensor):
        return f"an array of {item.dtype} with shape {tuple(item.shape)}"
    return f"'{item}'" if isinstance(item, str | os.PathLike) else type(item).__name__
