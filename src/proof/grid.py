"""Many runs: one after another on a GPU, on all cores side by side without one.

Each process has a core of its own: the tensors of a run are small, so that several threads in one
run mostly wait for each other.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from proof.devices import choose_device
from proof.embeddings import Embeddings
from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods import method_class
from proof.pairs import Pairs
from proof.pictures.readers import cores
from proof.pictures.worker_protocol import receive, send
from proof.records import RecordStore
from proof.runs import Record, Run
from proof.streams import Stream

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from proof.grid_worker import main
main()
"""


@dataclass(frozen=True)
class Plan:
    """A run to be done."""

    method: str
    stream: Stream
    seed: int = 0
    budget: Budget = field(default_factory=lambda: Budget(total=0))
    device: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    pairs: Pairs | None = None

    @property
    def name(self) -> str:
        """The method without its options."""
        return self.method.partition(":")[0]

    def run(self) -> Run:
        """The run, at its beginning."""
        return Run(
            self.method,
            self.stream,
            seed=self.seed,
            budget=self.budget,
            device=self.device,
            pairs=self.pairs,
            **self.options,
        )


class Watcher(Protocol):
    """Is told how the runs go on, each by its place in the list; from several threads."""

    def progress(self, index: int, tasks: float) -> None:
        """So many tasks are done, the started part of one with them."""

    def task_done(self, index: int, tasks: int, classes: int, accuracy: float) -> None: ...

    def finished(self, index: int, record: Record, *, kept: bool) -> None:
        """The run is done now, or it was kept from before."""


def default_jobs(plans: Sequence[Plan]) -> int:
    """How many runs at once: one for each core, but no process for a single run, since its start
    takes two seconds. On a GPU one."""
    if os.name != "posix" or choose_device(plans[0].device) != "cpu":
        return 1
    return max(1, min(cores(), len(plans) // 2))


def run_all(
    plans: Sequence[Plan],
    watcher: Watcher,
    store: RecordStore | None = None,
    jobs: int = 1,
    plugins: Sequence[Path] = (),
) -> list[Record]:
    """Do all runs, `jobs` at a time, and give their records in the same order.

    What the store has is not run again; what is under way there goes on. Processes of their own
    load the plugins again.
    """
    records: dict[int, Record] = {}
    left: list[int] = []
    for index, plan in enumerate(plans):
        record = store.record(plan.run()) if store else None
        if record is None:
            left.append(index)
        else:
            records[index] = record
            watcher.finished(index, record, kept=True)
    if jobs > 1 and left and os.name == "posix":
        records |= _side_by_side(plans, left, watcher, store, jobs, plugins)
    else:
        for index in left:
            records[index] = do(plans[index].run(), index, watcher, store)
    return [records[index] for index in range(len(plans))]


def do(run: Run, index: int, watcher: Watcher, store: RecordStore | None) -> Record:
    """Do one run, with a checkpoint after every task where there is a store."""
    checkpoint = store.checkpoint(run) if store else None
    if checkpoint and checkpoint.exists():
        run.resume(checkpoint)

    def progress(share: float) -> None:
        watcher.progress(index, run.learner.tasks + share)

    while not run.done:
        run.step(progress)
        watcher.task_done(index, run.learner.tasks, len(run.learner.classes), run.curve[-1])
        if checkpoint:
            run.save(checkpoint)
    record = run.record()
    if store:
        store.keep(run, record)
    watcher.finished(index, record, kept=False)
    return record


def _side_by_side(
    plans: Sequence[Plan],
    left: Sequence[int],
    watcher: Watcher,
    store: RecordStore | None,
    jobs: int,
    plugins: Sequence[Path],
) -> dict[int, Record]:
    """The runs `left`, in `jobs` processes, each with its share of the cores."""
    settings = {
        "threads": max(1, cores() // jobs),
        "plugins": [str(path) for path in plugins],
        "store": str(store.folder) if store else None,
    }
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    # Runs that train on exemplars take long: they go first, so that no core waits at the end.
    for index in sorted(left, key=lambda index: not method_class(plans[index].name).rehearses):
        waiting.put(index)
    records: dict[int, Record] = {}

    def work(worker: _Worker) -> None:
        while True:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            records[index] = worker.do(index, orders[index], watcher)

    with tempfile.TemporaryDirectory(prefix="proof-") as folder, contextlib.ExitStack() as stack:
        orders = _orders(plans, left, Path(folder))
        workers = [_Worker(settings) for _ in range(min(jobs, len(left)))]
        threads = stack.enter_context(ThreadPoolExecutor(len(workers)))
        for end in (_Worker.wait, _Worker.stop):  # all end, before the threads that wait for them
            for worker in workers:
                stack.callback(end, worker)
        done, _ = wait([threads.submit(work, worker) for worker in workers], None, FIRST_EXCEPTION)
        for future in done:
            future.result()
    return records


def _orders(plans: Sequence[Plan], left: Sequence[int], folder: Path) -> dict[int, dict[str, Any]]:
    """The plans as a process is given them. The data travel as a file, which all of them map into
    their memory without a copy."""
    files: dict[int, str] = {}

    def file_of(data: Embeddings | Pairs) -> str:
        if id(data) not in files:
            files[id(data)] = str(folder / f"{len(files)}.safetensors")
            data.save(files[id(data)])
        return files[id(data)]

    orders = {}
    for index in left:
        plan, stream = plans[index], plans[index].stream
        orders[index] = {
            "method": plan.method,
            "data": file_of(stream.data),
            "name": stream.data.name,
            "pairs": (file_of(plan.pairs), plan.pairs.name) if plan.pairs else None,
            "protocol": stream.protocol if stream.protocol[0] == "B" else stream.sizes,
            "order_seed": stream.order_seed,
            "seed": plan.seed,
            "budget": str(plan.budget),
            "device": plan.device,
            "options": plan.options,
        }
    return orders


class _Worker:
    """A process that does runs, one after another. `proof.grid_worker` is its other end."""

    def __init__(self, settings: dict[str, Any]) -> None:
        # With this process's own path, and without the working folder: that may be anybody's.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, json.dumps(sys.path), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is the parent's to handle
        )

    def do(self, index: int, order: dict[str, Any], watcher: Watcher) -> Record:
        """Have a run done, and hand on what is told of it."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # `_receive` then tells of it
            send(self._process.stdin, order)
        while True:
            kind, *values = self._receive(order)
            if kind == "finished":
                record: Record = values[0]
                watcher.finished(index, record, kept=False)
                return record
            if kind == "mistake":
                raise ProofError(values[0])
            if kind == "refused":  # by the machine: a full disk
                raise OSError(values[0])
            getattr(watcher, kind)(index, *values)

    def _receive(self, order: dict[str, Any]) -> list[Any]:
        assert self._process.stdout
        try:
            message: list[Any] = receive(self._process.stdout)[0]
        except EOFError:
            raise ProofError(
                f"the process that ran {order['method']} on {order['name']} ended (out of memory?)"
                ": go on with fewer at a time, --jobs 1"
            ) from None
        return message

    def stop(self) -> None:
        """End the process; it gives up the task under way, and what is written is whole."""
        self._process.terminate()

    def wait(self) -> None:
        """Wait for its end."""
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
