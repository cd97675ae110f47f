"""The cache: what was encoded once is never encoded again.

One folder for a user, shared by all commands and processes. It holds stores: a store maps keys of
32 bytes (a hash of the content) to rows of numbers. A store is a folder of shards, safetensors
files that are written whole, moved into place in one step and never changed after that. So a
process that is killed loses the batch in flight and nothing else, and two processes need no lock.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from proof.errors import ProofError
from proof.files import replacing
from proof.pictures.reader import KEY

if TYPE_CHECKING:
    from proof.encoders.base import Encoder

_MERGE = 16  # so many shards of about one size become one
_SMALL = 8192  # rows: a smaller shard may not have waited for the disk, and is checked
_LARGE = 65536  # rows: a larger shard is not merged any more, so that a merge fits in memory
_TRIES = 200  # to read a folder that other processes change
_ABANDONED = 3600.0  # seconds after which a half-written file is nobody's

Keys = NDArray[np.uint8]  # (n, 32)


@dataclass(frozen=True)
class Shard:
    """One file of a store, memory-mapped."""

    path: Path
    keys: Keys
    values: NDArray[Any]  # (n, width)

    @classmethod
    def open(cls, path: Path) -> Shard | None:
        """The shard, or None where the file is not whole: then its rows are encoded again. An
        OSError where it is gone, or where no more files may be open."""
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > 10_000:
                    return None
                header = json.loads(file.read(length))
            data = np.memmap(path, np.uint8, "r")[8 + length :]
            arrays = []
            for name in ("keys", "values"):
                start, end = header[name]["data_offsets"]
                kind = {"U8": np.uint8, "F16": np.float16}[header[name]["dtype"]]
                arrays.append(data[start:end].view(kind).reshape(header[name]["shape"]))
            keys, values = arrays
            if keys.shape != (len(values), KEY) or values.ndim != 2:
                return None
            if len(keys) < _SMALL and header["__metadata__"]["check"] != _check(keys, values):
                return None  # the power went before the disk had all of it
            return cls(path, keys, values)
        except (ValueError, KeyError, TypeError):
            return None

    def __len__(self) -> int:
        return len(self.keys)


def shard_files(folder: Path) -> list[Path]:
    """The shards of a store, and not those that are being written."""
    return sorted(folder.glob("[!.]*.safetensors"))


class View:
    """The rows of some shards. It stays what it is, whatever becomes of the files."""

    def __init__(self, shards: Sequence[Shard], width: int, kind: np.dtype[Any]) -> None:
        self.shards, self._width, self._kind = tuple(shards), width, kind
        self._starts = np.cumsum([0, *map(len, shards)])  # the first row of each, and the end

    def __len__(self) -> int:
        """Rows, those that stand there twice counted twice."""
        return int(self._starts[-1])

    @cached_property
    def _index(self) -> Index:
        empty = np.empty((0, KEY), np.uint8)
        return Index(np.concatenate([empty, *(shard.keys for shard in self.shards)]))

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The row of each key, -1 where there is none."""
        return self._index.find(keys)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The values of rows, (n, width)."""
        values = np.empty((len(rows), self._width), self._kind)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(owner):
            mine = np.flatnonzero(owner == number)
            values[mine] = self.shards[number].values[rows[mine] - self._starts[number]]
        return values


class Store:
    """Keys of 32 bytes to rows of one width and type, on disk. `view` is what is there now.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()), width=2)
    >>> keys = np.arange(64, dtype=np.uint8).reshape(2, KEY)
    >>> store.append(keys, np.ones((2, 2), np.float16))
    >>> store.view.find(keys[::-1]).tolist(), store.view.find(keys[:1] + 1).tolist()
    ([1, 0], [-1])
    >>> store.view.take(np.array([0])).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, folder: Path, width: int, kind: type[np.generic] = np.float16) -> None:
        self.folder, self.width, self.kind = folder, width, np.dtype(kind)
        self._set([])
        self.refresh()

    def refresh(self) -> None:
        """See what other processes have written."""
        known = {shard.path: shard for shard in self.view.shards}
        for _ in range(_TRIES):
            try:
                opened = [known.get(path) or Shard.open(path) for path in shard_files(self.folder)]
                break
            except FileNotFoundError:  # merged into another by another process, this moment
                time.sleep(0.01)
        else:
            raise ProofError(
                f"'{self.folder}' changes faster than it can be read: is there a file that cannot "
                f"be opened?"
            )
        self._set([shard for shard in opened if shard and self._fits(shard)])

    def append(self, keys: Keys, values: NDArray[Any]) -> None:
        """Add rows. Whatever happens to this process, they are there when this returns."""
        if len(keys) == 0:
            return
        path = self._write(keys, values, wait=False)
        try:
            self._set([*self.view.shards, self._read_back(path)])
        except FileNotFoundError:  # another process has merged it already
            self.refresh()

    def merge(self) -> None:
        """Make one shard of many small ones. Not on Windows, which keeps files that are mapped."""
        if sys.platform == "win32":
            return
        with _alone(self.folder) as alone:
            if not alone:
                return  # another process is at it
            self.refresh()
            while group := self._to_merge():
                keys = np.concatenate([shard.keys for shard in group])
                values = np.concatenate([shard.values for shard in group])
                once = _first_of_each(keys)
                merged = self._read_back(self._write(keys[once], values[once], wait=True))
                gone = {shard.path for shard in group}
                self._set([*(s for s in self.view.shards if s.path not in gone), merged])
                for path in gone:
                    path.unlink(missing_ok=True)

    def _to_merge(self) -> list[Shard]:
        """The shards of the smallest size that has enough of them."""
        tiers: dict[int, list[Shard]] = {}
        for shard in self.view.shards:
            if len(shard) < _LARGE:
                tiers.setdefault(_tier(len(shard)), []).append(shard)
        full = [tier for tier in sorted(tiers) if len(tiers[tier]) >= _MERGE]
        return tiers[full[0]][:_MERGE] if full else []

    def _write(self, keys: Keys, values: NDArray[Any], wait: bool) -> Path:
        path = self.folder / f"{time.time_ns():x}-{uuid.uuid4().hex[:8]}.safetensors"
        keys, values = np.ascontiguousarray(keys), np.ascontiguousarray(values)
        try:
            with replacing(path, wait=wait) as partial:
                arrays = {"keys": keys, "values": values}
                save_file(arrays, partial, metadata={"check": _check(keys, values)})
        except OSError as error:
            raise ProofError(
                f"cannot write to the cache ({error}): set PROOF_CACHE to a folder that can be "
                f"written and has room"
            ) from None
        return path

    def _read_back(self, path: Path) -> Shard:
        shard = Shard.open(path)
        if shard is None:
            raise ProofError(f"'{path}' was written and cannot be read back: is the disk well?")
        return shard

    def _fits(self, shard: Shard) -> bool:
        return shard.values.shape[1] == self.width and shard.values.dtype == self.kind

    def _set(self, shards: Sequence[Shard]) -> None:
        self.view = View(shards, self.width, self.kind)


class Index:
    """Finds keys in a table of keys by their first eight bytes, sorted."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        head = _head(keys)
        self.order = np.argsort(head, kind="stable")
        self.head = head[self.order]

    def find(self, keys: Keys) -> NDArray[np.int64]:
        rows = np.full(len(keys), -1, np.int64)
        head = _head(keys)
        place = np.searchsorted(self.head, head)
        open_ = np.arange(len(keys))
        while True:  # once, and again only for keys that share their first eight bytes
            open_ = open_[place[open_] < len(self.head)]
            open_ = open_[self.head[place[open_]] == head[open_]]
            if not len(open_):
                return rows
            row = self.order[place[open_]]
            same = (self.keys[row] == keys[open_]).all(axis=1)
            rows[open_[same]] = row[same]
            open_ = open_[~same]
            place[open_] += 1


def _first_of_each(keys: Keys) -> NDArray[np.int64]:
    """The rows that remain when every key stands there once."""
    words = np.ascontiguousarray(keys).view(np.uint64)
    order = np.lexsort(words.T)
    new = np.ones(len(keys), bool)
    new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    return np.sort(order[new])


def _head(keys: Keys) -> NDArray[np.uint64]:
    return np.ascontiguousarray(keys[:, :8]).view(np.uint64)[:, 0]


def _check(keys: Keys, values: NDArray[Any]) -> str:
    return f"{zlib.crc32(values.data, zlib.crc32(keys.data)):08x}"


def _tier(rows: int) -> int:
    return max(rows, 1).bit_length() // 4  # sizes within a factor of sixteen


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other process is inside, for this folder. The system ends it with the process."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("wb")
    except OSError:  # read-only
        yield False
        return
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError as error:
            # A file system without locks: two at once lose nothing, each writes before it removes.
            free = error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
        yield free


@dataclass(frozen=True)
class Space:
    """What the cache holds of one encoder and one kind of content."""

    folder: Path
    encoder: str
    fingerprint: str
    content: str  # "images, squash 224x224 bicubic" or "texts"
    rows: int
    bytes: int
    used: float  # when, in seconds since 1970


class Cache:
    """The user's cache. `Cache()` is the one that `PROOF_CACHE` or the system's rules name."""

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()

    def files(self) -> Store:
        """What files contained when they were last read: a hash of `stat` to a hash of content."""
        return Store(self.root / "files", KEY, np.uint8)

    def space(self, encoder: Encoder, content: str) -> Store:
        """The store for an encoder's vectors of `content`, "images" or "texts"."""
        about = {"encoder": encoder.name, "fingerprint": encoder.fingerprint, "content": content}
        name = content
        if content == "images":
            about["content"] = f"images, {encoder.preprocessing}"
            name = f"images-{encoder.preprocessing.mode}-{encoder.preprocessing.fingerprint}"
        folder = self.root / "embeddings" / encoder.fingerprint[:16] / name
        text = json.dumps(about, indent=1) + "\n"
        with contextlib.suppress(OSError), replacing(folder / "about.json", wait=False) as partial:
            partial.write_text(text)  # unless the cache is read-only, and has all that is asked
        return Store(folder, encoder.dim)

    def spaces(self) -> list[Space]:
        """All that it holds, the least recently used first."""
        found = []
        for about in self.root.glob("embeddings/*/*/about.json"):
            try:
                facts = json.loads(about.read_text())
                shards = [Shard.open(path) for path in shard_files(about.parent)]
                found.append(
                    Space(
                        about.parent,
                        facts["encoder"],
                        facts["fingerprint"],
                        facts["content"],
                        sum(len(shard) for shard in shards if shard),
                        folder_size(about.parent),
                        about.stat().st_mtime,
                    )
                )
            except (OSError, ValueError, KeyError):
                continue  # being written or removed by another process
        return sorted(found, key=lambda space: space.used)

    def size(self) -> int:
        """Bytes on disk."""
        return folder_size(self.root)

    def remove(self, spaces: Sequence[Space]) -> None:
        for space in spaces:
            _remove(space.folder)
            with contextlib.suppress(OSError):
                space.folder.parent.rmdir()  # where it is empty now

    def sweep(self) -> None:
        """Remove what killed processes left half-written."""
        for path in self.root.rglob(".*.partial*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()

    def clear(self) -> None:
        for name in ("embeddings", "encoders", "files"):
            _remove(self.root / name)


def _remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            raise
        except OSError:  # another process wrote into it just now: once more
            shutil.rmtree(folder)


def default_root() -> Path:
    """`PROOF_CACHE`, else `proof` in the system's folder for caches."""
    if given := os.environ.get("PROOF_CACHE"):
        return Path(given).expanduser()
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.environ.get("XDG_CACHE_HOME", "~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(base).expanduser() / "proof"


def folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
