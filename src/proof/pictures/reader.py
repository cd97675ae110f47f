"""Reading pictures: what they are called by their content, and their pixels.

A `Reader` takes a few pictures at a time, in two steps: `read` says what each is (a key made of
its content), and `decode` makes the pixels of those that are wanted. A file is read once for both.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from proof.errors import ProofError
from proof.pictures.decode import BrokenPicture, Pixels, decode, from_pil, resize_pixels
from proof.pictures.preprocessing import Preprocessing

# A file, the bytes of one, or what is decoded already: an array (h, w, 3) or (h, w), or PIL's.
Picture = str | os.PathLike[str] | bytes | Pixels | Image.Image

KEY = 32  # bytes of a key
MAX_BYTES = 1 << 30  # a larger file is no picture
_HOLD = 64_000_000  # bytes of files that a reader keeps between reading and decoding
CHANGED = "it was changed while it was read"


@dataclass(frozen=True)
class Contents:
    """What some pictures are. Of a broken one, all is zeros."""

    keys: NDArray[np.uint8]  # (n, 32), of the content
    files: NDArray[np.uint8]  # (n, 32), of the file: its path and what `stat` says of it, or zeros
    changed: NDArray[np.int64]  # when the file was last changed, in nanoseconds
    broken: dict[int, str]  # which could not be read, and why


@dataclass(frozen=True)
class _Again:
    """A file that is too large to be held with the others, and is read again for its pixels."""

    path: str
    key: bytes

    def read(self) -> bytes:
        data = read_file(self.path)[0]
        if content_key(data) != self.key:
            raise BrokenPicture(CHANGED)
        return data


class Reader:
    """Reads and decodes in this process."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        rows: Pixels,
        one_large_picture: AbstractContextManager[object] | None = None,
    ) -> None:
        self.preprocessing = preprocessing
        self.rows = rows  # (many, height, width, 3): where the pixels go
        self._one_large_picture = one_large_picture or threading.Lock()
        self._held: list[bytes | Pixels | _Again] = []

    def read(self, pictures: Sequence[str | bytes | Pixels]) -> Contents:
        """Read pictures and hold them until the next call."""
        count = len(pictures)
        keys, files = np.zeros((count, KEY), np.uint8), np.zeros((count, KEY), np.uint8)
        changed = np.zeros(count, np.int64)
        broken: dict[int, str] = {}
        self._held, held = [], 0
        for index, picture in enumerate(pictures):
            data: bytes | Pixels | _Again = b""
            try:
                if isinstance(picture, str):
                    data, status = read_file(picture)
                    files[index] = np.frombuffer(file_key(picture, status), np.uint8)
                    changed[index] = min(max(status[3:]), np.iinfo(np.int64).max)
                else:
                    data = picture
                key = content_key(data)
                keys[index] = np.frombuffer(key, np.uint8)
                held += len(data)
                if isinstance(picture, str) and held > _HOLD:
                    data = _Again(picture, key)
            except BrokenPicture as error:
                broken[index] = str(error)
            self._held.append(data)
        return Contents(keys, files, changed, broken)

    def decode(self, wanted: Sequence[tuple[int, int]]) -> list[str]:
        """Put the pixels of held picture i into row r for each (i, r); '' or why it is broken."""
        reasons: list[str] = []
        for index, row in wanted:
            held = self._held[index]
            try:
                if isinstance(held, _Again):
                    held = held.read()
                self.rows[row] = (
                    decode(held, self.preprocessing, self._one_large_picture)
                    if isinstance(held, bytes)
                    else resize_pixels(held, self.preprocessing)
                )
                reasons.append("")
            except BrokenPicture as error:
                reasons.append(str(error))
        return reasons

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self._held = []


def read_file(path: str) -> tuple[bytes, tuple[int, ...]]:
    """The bytes of a file and what `stat` says of it; the same file while it was read."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise BrokenPicture("not a file")
            if before.st_size > MAX_BYTES:
                raise BrokenPicture(f"{before.st_size:,} bytes: too large for a picture")
            data = file.read()
            after = os.fstat(file.fileno())
    except OSError as error:
        raise BrokenPicture(error.strerror or str(error)) from None
    except ValueError as error:  # a path that cannot be one
        raise BrokenPicture(str(error)) from None
    except MemoryError:
        raise BrokenPicture("not enough memory to read it") from None
    if file_status(before) != file_status(after):
        raise BrokenPicture(CHANGED)
    return data, file_status(before)


def file_status(status: os.stat_result) -> tuple[int, ...]:
    """What changes whenever a file does. `ctime` cannot be set back by a user, `mtime` can."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def file_key(path: str, status: Sequence[int]) -> bytes:
    """32 bytes that stand for a file as it is now."""
    return hashlib.sha256(repr(tuple(status)).encode() + os.fsencode(path)).digest()


def content_key(picture: bytes | Pixels) -> bytes:
    """32 bytes that stand for a picture's content: of a file's bytes, or of bare pixels."""
    if isinstance(picture, bytes):
        return hashlib.sha256(picture).digest()
    digest = hashlib.sha256(f"pixels {picture.shape}".encode())
    digest.update(np.ascontiguousarray(picture).data)
    return digest.digest()


def plain(picture: Picture) -> str | bytes | Pixels:
    """A picture as a path, bytes, or RGB pixels (height, width, 3). PIL's may be broken."""
    if isinstance(picture, bytes):
        return picture
    if isinstance(picture, str | os.PathLike):
        return os.path.abspath(picture)  # noqa: PTH100
    if isinstance(picture, Image.Image):
        return from_pil(picture)
    array = np.asarray(picture)
    if array.ndim == 2:
        array = np.repeat(array[:, :, None], 3, axis=2)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise ProofError(
            f"a picture given as an array of {array.dtype} with shape {array.shape}: expected "
            f"uint8 with shape (height, width, 3)"
        )
    return array


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a named pipe would wait for ever
