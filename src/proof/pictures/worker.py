"""The process behind a `RemoteReader`: reads pictures, writes pixels into shared memory.

Started by a `RemoteReader`, with the shared memory as an open file. It is a process of its own and
not a fork, so that it imports no torch, holds no lock of its parent and works from a script without
a main guard. It ends when its parent does.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from proof.pictures.preprocessing import Preprocessing
from proof.pictures.reader import Reader
from proof.pictures.worker_protocol import receive, send


class FileLock:
    """One process at a time; the system releases it where the process dies."""

    def __init__(self, file: int) -> None:
        self.file = file

    def __enter__(self) -> None:
        fcntl.lockf(self.file, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        fcntl.lockf(self.file, fcntl.LOCK_UN)


def main() -> None:
    warnings.simplefilter("ignore")  # of Pillow, on pictures: they would fill the screen
    os.nice(5)  # where pixels and the model compete for the cores, the model goes first
    settings = json.loads(sys.argv[1])
    memory = mmap.mmap(settings["file"], 0)
    rows = np.frombuffer(memory, np.uint8).reshape(settings["shape"])
    preprocessing = Preprocessing.from_json(settings["preprocessing"])
    reader = Reader(preprocessing, rows, FileLock(settings["file"]))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but answers goes through the pipe
    send(answers, "up")
    while True:
        try:
            (verb, items), blobs = receive(requests)
        except EOFError:
            return
        try:
            send(answers, *_answer(reader, verb, items, blobs))
        except BrokenPipeError:  # the parent is gone
            return
        except Exception:  # a mistake of ours, not of the picture
            send(answers, {"mistake": traceback.format_exc()})


def _answer(reader: Reader, verb: str, items: list[Any], blobs: list[bytes]) -> tuple[Any, ...]:
    if verb == "decode":
        return (reader.decode(items),)
    waiting = iter(blobs)
    contents = reader.read([_item(item, waiting) for item in items])
    arrays = (contents.keys, contents.files, contents.changed)
    return (list(contents.broken.items()), *(array.tobytes() for array in arrays))


def _item(item: Any, blobs: Iterator[bytes]) -> str | bytes | np.ndarray[Any, Any]:
    if isinstance(item, str):
        return item
    data = next(blobs)
    return data if item is None else np.frombuffer(data, np.uint8).reshape(item)
