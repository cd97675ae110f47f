"""Many readers at once: processes on Linux and macOS, threads elsewhere and for a few pictures."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from proof.errors import ProofError
from proof.pictures.decode import Pixels
from proof.pictures.preprocessing import Preprocessing
from proof.pictures.reader import CHANGED, KEY, Contents, Reader
from proof.pictures.worker_protocol import receive, send

FEW = 64  # below this, starting processes takes longer than they save
_DIED = "decoding it ended the process: out of memory?"
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from proof.pictures.worker import main
main()
"""


class AnyReader(Protocol):
    """What `Reader` and `RemoteReader` do."""

    def read(self, pictures: Sequence[str | bytes | Pixels]) -> Contents: ...
    def decode(self, wanted: Sequence[tuple[int, int]]) -> list[str]: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


class RemoteReader:
    """A `Reader` in a process of its own. Where that dies, the picture that did it is broken."""

    def __init__(self, preprocessing: Preprocessing, file: int, shape: Sequence[int]) -> None:
        self._file = file
        self._settings = json.dumps(
            {"preprocessing": dataclasses.asdict(preprocessing), "file": file, "shape": shape}
        )
        self._closed = False
        self._start()
        self._given: Sequence[str | bytes | Pixels] = ()
        self._keys = np.empty((0, KEY), np.uint8)
        self._holds = True  # whether the process holds what was given

    def _start(self) -> None:
        # With this process's own path, and without the working folder: that may be anybody's.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, json.dumps(sys.path), self._settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libraries complain there about damaged pictures
            pass_fds=[self._file],
            process_group=0,  # Ctrl-C is the parent's to handle
        )
        self._up = False

    def read(self, pictures: Sequence[str | bytes | Pixels]) -> Contents:
        self._given, self._holds = pictures, True
        try:
            contents = self._read(pictures)
        except (EOFError, OSError):
            self._holds = False
            contents = _joined([self._read_alone(picture) for picture in pictures])
        self._keys = contents.keys
        return contents

    def decode(self, wanted: Sequence[tuple[int, int]]) -> list[str]:
        if self._holds:
            try:
                reasons: list[str] = self._ask(("decode", wanted))[0]
                return reasons
            except (EOFError, OSError):
                self._holds = False
        return [self._decode_alone(index, row) for index, row in wanted]

    def _read(self, pictures: Sequence[str | bytes | Pixels]) -> Contents:
        items = [_item(picture) for picture in pictures]
        blobs = [_blob(picture) for picture in pictures if not isinstance(picture, str)]
        broken, (keys, files, changed) = self._ask(("read", items), *blobs)
        return Contents(
            np.frombuffer(keys, np.uint8).reshape(-1, KEY),
            np.frombuffer(files, np.uint8).reshape(-1, KEY),
            np.frombuffer(changed, np.int64),
            dict(broken),
        )

    def _read_alone(self, picture: str | bytes | Pixels) -> Contents:
        self._restart()
        try:
            return self._read([picture])
        except (EOFError, OSError):
            nothing = np.zeros((1, KEY), np.uint8)
            return Contents(nothing, nothing, np.zeros(1, np.int64), {0: _DIED})

    def _decode_alone(self, index: int, row: int) -> str:
        self._restart()
        try:
            again = self._read([self._given[index]])
            if again.broken:
                return again.broken[0]
            if not np.array_equal(again.keys[0], self._keys[index]):
                return CHANGED
            reasons: list[str] = self._ask(("decode", [(0, row)]))[0]
            return reasons[0]
        except (EOFError, OSError):
            return _DIED

    def _ask(self, message: Any, *blobs: bytes) -> tuple[Any, list[bytes]]:
        assert self._process.stdin
        assert self._process.stdout
        self._wait_until_up()
        send(self._process.stdin, message, *blobs)
        answer, arrays = receive(self._process.stdout)
        if isinstance(answer, dict):
            raise RuntimeError(answer["mistake"])
        return answer, arrays

    def _wait_until_up(self) -> None:
        if self._up:
            return
        assert self._process.stdout
        try:
            receive(self._process.stdout)
        except (EOFError, OSError):
            if self._closed:
                raise EOFError from None
            raise ProofError(
                f"a process that reads pictures does not start: "
                f"`{sys.executable} -c 'import proof.pictures.worker'` says why"
            ) from None
        self._up = True

    def _restart(self) -> None:
        if self._closed:
            raise EOFError
        self._end()
        self._start()

    def stop(self) -> None:
        """Have the process ended, whatever it is at."""
        self._closed = True
        self._process.kill()

    def close(self) -> None:
        self.stop()
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


class Readers:
    """A few more readers than cores, and the rows of pixels that they fill."""

    def __init__(
        self, preprocessing: Preprocessing, rows: int, pictures: int, workers: int | None = None
    ) -> None:
        count = workers or cores() + max(1, cores() // 4)  # some wait for their next pictures
        shape = (rows, *preprocessing.size, 3)
        remote = os.name == "posix" and pictures >= FEW
        size = int(np.prod(shape))
        if remote:
            self._file = _memory_file(size)
            self.rows: Pixels = np.frombuffer(mmap.mmap(self._file, size), np.uint8).reshape(shape)
            self.all: list[AnyReader] = [
                RemoteReader(preprocessing, self._file, shape) for _ in range(count)
            ]
        else:
            self._file = -1
            self.rows = np.empty(shape, np.uint8)
            one_large_picture = threading.Lock()
            self.all = [
                Reader(preprocessing, self.rows, one_large_picture)
                for _ in range(min(count, pictures))
            ]

    def stop(self) -> None:
        """Have all readers ended, whatever they are at."""
        for reader in self.all:
            reader.stop()

    def close(self) -> None:
        self.stop()
        for reader in self.all:
            reader.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def cores() -> int:
    """The cores that this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_file(size: int) -> int:
    """Memory with a file descriptor. It has no name, so that a killed process leaves nothing."""
    if hasattr(os, "memfd_create"):  # not /dev/shm: it is small in containers
        file = os.memfd_create("proof-pixels")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, size)
    return file


def _joined(parts: list[Contents]) -> Contents:
    return Contents(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.files for part in parts]),
        np.concatenate([part.changed for part in parts]),
        {index: part.broken[0] for index, part in enumerate(parts) if part.broken},
    )


def _item(picture: str | bytes | Pixels) -> Any:
    if isinstance(picture, str):
        return picture
    return None if isinstance(picture, bytes) else picture.shape


def _blob(picture: bytes | Pixels) -> bytes:
    return picture if isinstance(picture, bytes) else picture.tobytes()
