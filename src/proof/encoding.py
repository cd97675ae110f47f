"""From pictures to vectors, by way of the cache: nothing is encoded twice.

Readers decode on all cores into blocks of pixels, the encoder takes a block as soon as it is full,
and its vectors are on disk before the block is used again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proof.cache import Cache, Store
from proof.encoders.base import Encoder
from proof.errors import ProofError
from proof.pictures.decode import BrokenPicture, Pixels
from proof.pictures.reader import (
    KEY,
    Contents,
    Picture,
    content_key,
    file_key,
    file_status,
    plain,
)
from proof.pictures.readers import FEW, AnyReader, Readers, cores

_SETTLED = 2_000_000_000  # nanoseconds: a file that changed less long ago may change unseen
_MERGE_EVERY = 32  # batches
_SLAB = 2048  # pictures that are looked up at a time
_TEXTS = 256  # texts that are encoded at a time
_CHUNK = 32  # pictures that a reader takes at a time, at most
_NO_NOTES = np.empty((0, 2 * KEY), np.uint8)

Progress = Callable[[int, int], None]  # pictures done, pictures in all


@dataclass(frozen=True)
class Broken:
    """A picture that could not be decoded."""

    index: int  # which of the pictures that were given
    picture: str  # its path, or its number where it has none
    reason: str

    def __str__(self) -> str:
        return f"{self.picture}: {self.reason}"


@dataclass(frozen=True)
class Encoded:
    """The vectors of those pictures that could be decoded."""

    vectors: NDArray[np.float16]  # (good, dim), not normalised
    good: NDArray[np.int64]  # which of the pictures they belong to
    broken: list[Broken]
    fresh: int  # how many were encoded now; the others were in the cache


def encode_pictures(
    pictures: Sequence[Picture],
    encoder: Encoder,
    *,
    cache: Cache | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    workers: int | None = None,
) -> Encoded:
    """The vector of each picture. Broken ones are listed, or with `strict` are an error."""
    cache = cache or Cache()
    store, files = cache.space(encoder, "images"), cache.files()
    work = _Work(pictures, encoder, store, files, strict)
    work.run(progress, workers)
    keys, broken = work.keys, work.broken
    good = np.array([i for i in range(len(keys)) if i not in broken], np.int64)
    return Encoded(
        vectors=_found(store, keys[good]),
        good=good,
        broken=[Broken(i, _title(pictures[i], i), broken[i]) for i in sorted(broken)],
        fresh=work.fresh,
    )


def encode_texts(
    texts: Sequence[str], encoder: Encoder, *, cache: Cache | None = None
) -> NDArray[np.float16]:
    """The vector of each text, (texts, dim), not normalised."""
    store = (cache or Cache()).space(encoder, "texts")
    digests = [hashlib.sha256(_encoded(text)).digest() for text in texts]
    keys = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, KEY)
    missing = {digests[i]: texts[i] for i in np.flatnonzero(store.view.find(keys) < 0).tolist()}
    if missing:
        encoder.prepare()
        wanted = list(missing)
        for start in range(0, len(wanted), _TEXTS):
            some = wanted[start : start + _TEXTS]
            vectors = _halved(encoder.encode_texts([missing[key] for key in some]), encoder)
            store.append(np.frombuffer(b"".join(some), np.uint8).reshape(-1, KEY), vectors)
        store.merge()
    return _found(store, keys)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ProofError(f"the text {text!r} is not Unicode: give the class another name") from None


def _found(store: Store, keys: NDArray[np.uint8]) -> NDArray[Any]:
    """The rows of keys that must be there."""
    rows = store.view.find(keys)
    if (rows < 0).any():
        raise ProofError(
            f"the cache at '{store.folder}' lost {int((rows < 0).sum())} embeddings while it was "
            f"used: was it cleared? Run the command again"
        )
    return store.view.take(rows)


def _title(picture: Picture, index: int) -> str:
    return os.fspath(picture) if isinstance(picture, str | os.PathLike) else f"picture {index}"


def _halved(vectors: NDArray[np.float32], encoder: Encoder) -> NDArray[np.float16]:
    """As the cache keeps them: float16 is near enough, and half the size."""
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    if not np.isfinite(half).all():
        raise ProofError(
            f"encoder '{encoder.name}' gave a vector with NaN, infinite or very large numbers: "
            f"its weights or its ONNX file must be damaged"
        )
    return half


class _Block:
    """Rows of pixels that go through the encoder together."""

    def __init__(self, start: int, size: int) -> None:
        self.start = start  # its first row
        self.keys = np.zeros((size, KEY), np.uint8)  # of the contents, row for row
        self.good = np.zeros(size, bool)  # the rows that hold a picture
        self.reserved = self.filled = 0  # rows
        self.closed = False  # no more rows will be reserved


class _Work:
    """Pictures on their way into the cache, those that are not there yet."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        encoder: Encoder,
        store: Store,
        files: Store,
        strict: bool,
    ) -> None:
        self.pictures, self.encoder, self.store, self.files = pictures, encoder, store, files
        self.strict = strict
        self.keys = np.zeros((len(pictures), KEY), np.uint8)  # of the contents; zeros: not known
        self.broken: dict[int, str] = {}
        self.fresh = 0
        self._done = 0
        self._claimed: set[bytes] = set()  # content that is on its way
        self._notes: list[NDArray[np.uint8]] = []  # what files contain, not on disk yet
        self._error: BaseException | None = None
        self._stop = False
        self._batches = 0
        self._change = threading.Condition()
        self._disk = threading.Lock()
        self._stored, self._known_files = store.view, files.view  # as they were at the start

    def run(self, progress: Progress | None, workers: int | None) -> None:
        chunks = self._chunks_to_read()
        first, count = [], 0
        while count < FEW and (chunk := next(chunks, None)):
            first.append(chunk)
            count += len(chunk)
        if first:
            self._chunks: Iterator[list[int]] = itertools.chain(first, chunks)
            self.encoder.prepare()
            self._size = self.encoder.batch_size
            self._go(self._readers(count, workers), progress)
            if left := self._left():  # of two copies, the one that was to be read was gone
                self._claimed.clear()
                self._chunks = iter([left])
                self._go(self._readers(len(left), workers), progress)
                self._left()
            self.store.merge()
            self.files.merge()
        if progress:
            progress(len(self.pictures), len(self.pictures))

    def _readers(self, count: int, workers: int | None) -> Readers:
        blocks = 4 + 2 * self.encoder.streams
        return Readers(self.encoder.preprocessing, blocks * self._size, count, workers)

    def _left(self) -> list[int]:
        """Pictures that are neither in the store nor broken."""
        reasons = {self.keys[index].tobytes(): why for index, why in self.broken.items()}
        reasons.pop(bytes(KEY), None)  # not known
        left = []
        for index in np.flatnonzero(self.store.view.find(self.keys) < 0).tolist():
            key = self.keys[index].tobytes()
            if key in reasons:  # the same broken bytes under another name
                self.broken.setdefault(index, reasons[key])
            elif index not in self.broken:
                left.append(index)
        return left

    def _go(self, readers: Readers, progress: Progress | None) -> None:
        self._pixels = readers.rows
        self._free = deque(range(0, len(self._pixels), self._size))
        self._block: _Block | None = None
        self._full: deque[_Block] = deque()
        self._stop = False
        self._reading = len(readers.all)
        threads = [
            threading.Thread(target=self._guard, args=(self._read, reader), daemon=True)
            for reader in readers.all
        ] + [
            threading.Thread(target=self._guard, args=(self._encode,), daemon=True)
            for _ in range(self.encoder.streams)
        ]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads) and self._error is None:
                if progress:
                    progress(self._done, len(self.pictures))
                with self._change:
                    self._change.wait(0.1)
        finally:  # also where the user interrupts
            with self._change:
                self._stop = True
                self._change.notify_all()
            readers.stop()
            for thread in threads:
                thread.join()
            readers.close()
            self._write_notes()
        if self._error is not None:
            raise self._error

    def _chunks_to_read(self) -> Iterator[list[int]]:
        """The pictures that have to be read, a few at a time: of unknown content, and the first of
        each content that is not in the store. Readers take from it while it goes on."""
        listed: set[bytes] = set()
        for start in range(0, len(self.pictures), _SLAB):
            slab = range(start, min(start + _SLAB, len(self.pictures)))
            self._recognise(slab)
            keys = self.keys[slab.start : slab.stop]
            stored = self._stored.find(keys) >= 0
            self._done += int(stored.sum())
            missing: list[int] = []
            for place in np.flatnonzero(~stored).tolist():
                key = keys[place].tobytes()
                if key in listed:
                    self._done += 1
                elif start + place not in self.broken:
                    missing.append(start + place)
                if any(key):
                    listed.add(key)
            last = slab.stop == len(self.pictures)
            while missing:  # smaller ones at the end, so that all readers end together
                step = _CHUNK if not last else min(_CHUNK, max(1, len(missing) // (2 * cores())))
                yield missing[:step]
                missing = missing[step:]

    def _recognise(self, slab: range) -> None:
        """Find the content of pictures without reading a file, where that is possible."""
        asked: list[int] = []
        notes: list[bytes] = []
        for index in slab:
            try:
                picture = plain(self.pictures[index])
            except BrokenPicture as error:  # one that PIL had opened
                self._break(index, str(error))
                continue
            if not isinstance(picture, str):
                self.keys[index] = np.frombuffer(content_key(picture), np.uint8)
                continue
            with contextlib.suppress(OSError, ValueError):  # what is not there is reported later
                notes.append(file_key(picture, file_status(os.stat(picture))))  # noqa: PTH116
                asked.append(index)
        rows = self._known_files.find(np.frombuffer(b"".join(notes), np.uint8).reshape(-1, KEY))
        found = rows >= 0
        self.keys[np.array(asked, np.int64)[found]] = self._known_files.take(rows[found])

    def _guard(self, work: Callable[..., None], *arguments: Any) -> None:
        """A thread's work; what goes wrong in it goes wrong in `run`."""
        try:
            work(*arguments)
        except BaseException as error:
            with self._change:
                if not self._stop:
                    self._error = self._error or error
                self._change.notify_all()

    def _read(self, reader: AnyReader) -> None:
        """A reader's thread: keys and pixels of chunk after chunk."""
        try:
            while not self._stop:
                with self._change:
                    chunk = next(self._chunks, None)
                if chunk is None:
                    return
                read_at = time.time_ns()
                contents = reader.read([plain(self.pictures[index]) for index in chunk])
                settled = contents.files.any(axis=1) & (read_at - contents.changed > _SETTLED)
                notes = np.hstack([contents.files[settled], contents.keys[settled]])
                with self._change:
                    self.keys[chunk] = contents.keys
                    self._notes.append(notes)
                    for place, reason in contents.broken.items():
                        self._break(chunk[place], reason)
                    wanted = self._claim(contents)
                for block, rows in self._reserve(len(wanted)):
                    mine, wanted = wanted[: len(rows)], wanted[len(rows) :]
                    reasons = reader.decode(list(zip(mine, rows, strict=True)))
                    good = np.array([not reason for reason in reasons])
                    with self._change:
                        for place, reason in zip(mine, reasons, strict=True):
                            if reason:
                                self._break(chunk[place], reason)
                        within = slice(rows.start - block.start, rows.stop - block.start)
                        block.keys[within] = contents.keys[mine]
                        block.good[within] = good
                        block.filled += len(rows)
                        self._hand_over(block)
        finally:
            with self._change:
                self._reading -= 1
                if not self._reading and self._block is not None:
                    self._block.closed = True
                    self._hand_over(self._block)
                self._change.notify_all()

    def _claim(self, contents: Contents) -> list[int]:
        """The pictures whose content was not in the store when the work began, and is not on its
        way there."""
        stored = self._stored.find(contents.keys) >= 0
        wanted: list[int] = []
        for place, key in enumerate(contents.keys):
            content = key.tobytes()
            if place in contents.broken:
                continue
            if stored[place] or content in self._claimed:
                self._done += 1
            else:
                self._claimed.add(content)
                wanted.append(place)
        return wanted

    def _reserve(self, count: int) -> Iterator[tuple[_Block, range]]:
        """Rows to put pixels in, a piece at a time, each of one block."""
        while count:
            with self._change:
                while self._block is None:
                    if self._stop:
                        return
                    if self._free:
                        self._block = _Block(self._free.popleft(), self._size)
                    else:
                        self._change.wait()
                block = self._block
                first = block.start + block.reserved
                rows = range(first, min(first + count, block.start + self._size))
                block.reserved += len(rows)
                count -= len(rows)
                if block.reserved == self._size:
                    block.closed, self._block = True, None
            yield block, rows

    def _hand_over(self, block: _Block) -> None:
        if block.closed and block.filled == block.reserved:
            block.closed = False  # once
            self._full.append(block)
            self._change.notify_all()

    def _break(self, index: int, reason: str) -> None:
        self._done += 1
        self.broken[index] = reason
        if self.strict and self._error is None:
            title = _title(self.pictures[index], index)
            self._error = ProofError(f"{title}: {reason} (--strict stops at such a picture)")

    def _encode(self) -> None:
        """An encoder's thread: full blocks to vectors, and these to disk."""
        while True:
            with self._change:
                while not self._full and self._reading and not self._stop:
                    self._change.wait()
                if self._stop or not self._full:
                    return
                block = self._full.popleft()
            count = int(block.good.sum())
            if count:
                self._encode_block(block)
            with self._change:
                self._done += count
                self.fresh += count
                self._free.append(block.start)
                self._change.notify_all()

    def _encode_block(self, block: _Block) -> None:
        rows = slice(block.start, block.start + block.reserved)
        good = block.good[: block.reserved]
        pixels: Pixels = self._pixels[rows] if good.all() else self._pixels[rows][good]
        vectors = _halved(self.encoder.encode_images(pixels), self.encoder)
        if vectors.shape != (len(pixels), self.encoder.dim):
            raise ProofError(
                f"encoder '{self.encoder.name}' gave vectors of shape {vectors.shape} for "
                f"{len(pixels)} pictures: expected {(len(pixels), self.encoder.dim)}"
            )
        with self._disk:
            self.store.append(block.keys[: block.reserved][good], vectors)
            self._write_notes()
            self._batches += 1
            if self._batches % _MERGE_EVERY == 0:
                self.store.merge()
                self.files.merge()

    def _write_notes(self) -> None:
        with self._change:
            notes, self._notes = np.concatenate([_NO_NOTES, *self._notes]), []
        self.files.append(notes[:, :KEY], notes[:, KEY:])
