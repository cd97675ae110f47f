"""What processes do to a model while they are killed. It is run as a program, so that it may fork:
each process is then up at once, and torch is imported one time only."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from proof.models import drop_history, locked, read_model, steps, undo, write_model

CHANGES = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}

State = tuple[int, tuple[int, ...]]  # the version that is there, and those that can be brought back


def version(path: Path) -> int:
    """The number of a version, which stands in its manifest and all over its tensor."""
    model = read_model(path)
    number: int = model.manifest["number"]
    assert (model.tensors["rows"] == number).all()
    return number


def state(path: Path) -> State:
    if not path.exists():
        return 0, ()
    return version(path), tuple(version(step) for step in steps(path))


def write(path: Path, number: int, keep: bool = True, rows: int = 10) -> None:
    write_model(path, {"number": number}, {"rows": torch.full((rows, 64), number)}, keep=keep)


def check_that_nothing_is_left(path: Path) -> None:
    """After the next write and without a history, the model is alone."""
    write(path, state(path)[0] + 1)
    drop_history(path)
    assert list(path.parent.iterdir()) == [path]


def fork(work: Callable[[], None]) -> int:
    if pid := os.fork():
        return pid
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def teach_at_once(teachers: int = 2, times: int = 25) -> None:
    """Each counts on from what is there, and who reads meanwhile sees whole models only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kitchen.proof"

        def teach() -> None:
            for _ in range(times):
                with locked(path):
                    write(path, state(path)[0] + 1)

        running = {fork(teach) for _ in range(teachers)}
        seen = []
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            assert status == 0
            running.discard(pid)
            seen.append(version(path) if path.exists() else 0)
            time.sleep(0.005)
        assert seen == sorted(seen)
        last = teachers * times
        assert state(path) == (last, tuple(range(last - 1, last - 11, -1)))


def kill_at_random(kills: int = 20) -> None:
    """What was reported as written is there after SIGKILL, and so are the versions before it."""
    rng, reported, interrupted = random.Random(0), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kitchen.proof"
        for _ in range(kills):
            reader, writer = os.pipe()

            def work(first: int = reported + 1, report: int = writer) -> None:
                for number in range(first, first + 200):
                    write(path, number, rows=5_000)  # takes a while
                    os.write(report, b".")

            pid = fork(work)
            os.close(writer)
            os.read(reader, 1)  # it is up
            time.sleep(rng.random() * 0.05)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            now, earlier = state(path)
            done = reported + 1
            while more := os.read(reader, 100):
                done += len(more)
            os.close(reader)
            assert now in (done, done + 1), f"{done} was reported, {now} is there"
            assert earlier == tuple(range(now - 1, max(now - 11, 0), -1))
            reported = now
            interrupted += len(list(path.parent.iterdir())) > 2  # the lock was held
        assert interrupted > kills / 2, "most were killed while they were writing"
        check_that_nothing_is_left(path)


def stop_at_every_change(work: Callable[[Path], None], base: Path) -> set[State]:
    """Let processes work on a copy of `base`. The first ends before its first change to the file
    system, the next before its second, and so on. Return the states that they leave."""
    left, status, changes = set(), 1, 0
    while status:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(shutil.copytree(base, folder, dirs_exist_ok=True)) / "kitchen.proof"

            def stopping(last: int = changes, path: Path = path) -> None:
                count = 0

                def stop(event: str, arguments: tuple[object, ...]) -> None:
                    nonlocal count
                    count += event in CHANGES
                    if count > last:
                        os._exit(1)

                sys.addaudithook(stop)
                work(path)

            status = os.waitpid(fork(stopping), 0)[1]
            changes += 1
            left.add(found := state(path))
            if found[0] == 9:
                assert not list(path.parent.glob(".kitchen.proof.history/*"))
            check_that_nothing_is_left(path)
    assert changes > 3
    return left


def stop_everywhere() -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty, base = Path(folder) / "empty", Path(folder) / "base"
        empty.mkdir()
        for number in (1, 2, 3):
            write(base / "kitchen.proof", number)
        whole = (3, (2, 1))
        partly = {whole, (3, (2,)), (3, ())}  # removed, one by one

        assert stop_at_every_change(lambda path: write(path, 1), empty) == {(0, ()), (1, ())}
        assert stop_at_every_change(lambda path: write(path, 4), base) == {whole, (4, (3, 2, 1))}
        assert stop_at_every_change(undo, base) == {whole, (2, (1,))}  # type: ignore[arg-type]
        dropped = stop_at_every_change(drop_history, base)
        assert {whole, (3, ())} <= dropped <= partly
        forgotten = stop_at_every_change(lambda path: write(path, 9, keep=False), base)
        assert {whole, (9, ())} <= forgotten <= partly | {(9, ())}


if __name__ == "__main__":
    torch.set_num_threads(1)  # those of OpenMP do not survive a fork
    for part in (kill_at_random, stop_everywhere, teach_at_once):
        part()
        print(part.__name__, flush=True)
