"""The process behind a grid: does the runs that it is told of, until its parent ends.

It is a process of its own and not a fork: a fork of a process with torch in it can hang.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import signal
import sys
import threading
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import torch

from proof.embeddings import Embeddings
from proof.errors import ProofError
from proof.exemplars import Budget
from proof.grid import Plan, do
from proof.pairs import Pairs
from proof.pictures.worker_protocol import receive, send
from proof.plugins import load_plugin
from proof.records import RecordStore
from proof.runs import Record
from proof.streams import Stream

_Loaded = TypeVar("_Loaded", Embeddings, Pairs)


class _Teller:
    """A watcher that tells the parent."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def progress(self, index: int, tasks: float) -> None:
        send(self._pipe, ["progress", tasks])

    def task_done(self, index: int, tasks: int, classes: int, accuracy: float) -> None:
        send(self._pipe, ["task_done", tasks, classes, accuracy])

    def finished(self, index: int, record: Record, *, kept: bool) -> None:
        send(self._pipe, ["finished", record])


def main() -> None:
    """Do what comes in on standard input, and tell of it on standard output."""
    settings = json.loads(sys.argv[1])
    # Files of our own: the interpreter closes its own at its end, and what a method prints is not
    # for the parent.
    coming, pipe = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what is half written is taken away
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(coming, orders), daemon=True).start()
    torch.set_num_threads(settings["threads"])
    for plugin in settings["plugins"]:
        load_plugin(Path(plugin))
    store = RecordStore(Path(settings["store"])) if settings["store"] else None
    try:
        while True:
            do(_plan(**orders.get()).run(), 0, _Teller(pipe), store)
    except ProofError as error:
        send(pipe, ["mistake", str(error)])
    except BrokenPipeError:  # the parent is gone
        sys.exit(1)
    except OSError as error:
        send(pipe, ["refused", str(error)])


def _listen(pipe: IO[bytes], orders: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Pass on what the parent sends. Where that is gone, end, in the middle of a run too."""
    try:
        while True:
            orders.put(receive(pipe)[0])
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)


def _plan(
    data: str,
    name: str,
    pairs: tuple[str, str] | None,
    protocol: str | list[int],
    order_seed: int,
    budget: str,
    **rest: Any,
) -> Plan:
    return Plan(
        stream=Stream.of(_load(Embeddings, data, name), protocol, order_seed),
        budget=Budget.parse(budget),
        pairs=_load(Pairs, *pairs) if pairs else None,
        **rest,
    )


@cache
def _load(kind: type[_Loaded], path: str, name: str) -> _Loaded:
    return dataclasses.replace(kind.load(path), name=name)
