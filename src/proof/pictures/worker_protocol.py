"""How a process of readers and its parent talk: lines of JSON, with bytes behind them."""

from __future__ import annotations

import json
from typing import IO, Any


def send(pipe: IO[bytes], message: Any, *blobs: bytes) -> None:
    """A line of JSON, then the blobs, whose sizes the line tells."""
    pipe.write(json.dumps([message, [len(blob) for blob in blobs]]).encode() + b"\n")
    for blob in blobs:
        pipe.write(blob)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[Any, list[bytes]]:
    """The inverse of `send`. EOFError where the other end is gone."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    message, sizes = json.loads(line)
    blobs = [pipe.read(size) for size in sizes]
    if [len(blob) for blob in blobs] != sizes:
        raise EOFError
    return message, blobs
