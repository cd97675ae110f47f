"""Many runs at once, in processes of their own."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from conftest import make_data
from proof import Budget, ProofError, Stream, list_methods, methods
from proof.grid import Plan, default_jobs, run_all
from proof.pairs import Pairs
from proof.pictures.readers import cores
from proof.plugins import load_plugin
from proof.records import RecordStore
from proof.runs import Record

BUDGET = Budget(per_class=4)
PLUGIN = """
import os, signal
from proof.methods import method_class, register

@register("talker")
class Talker(method_class("simplecil")):
    def _learn(self, *arguments):
        print("a method may print")
        super()._learn(*arguments)

@register("mortal")
class Mortal(method_class("simplecil")):
    def _learn(self, *arguments):
        if self.tasks:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._learn(*arguments)
"""


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.tasks: list[tuple[int, int]] = []
        self.kept: list[int] = []

    def progress(self, index: int, tasks: float) -> None:
        pass

    def task_done(self, index: int, tasks: int, classes: int, accuracy: float) -> None:
        self.tasks.append((index, tasks))

    def finished(self, index: int, record: Record, *, kept: bool) -> None:
        if kept:
            self.kept.append(index)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    list_methods()
    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))  # no other test sees them
    load_plugin(path)
    return path


def without_timing(records: list[Record]) -> list[Record]:
    timing = ("seconds", "task_seconds", "device")  # the device tells of the threads
    return [{k: v for k, v in record.items() if k not in timing} for record in records]


def plans(*methods: str, protocols: tuple[str | list[int], ...] = ("B0-Inc4",)) -> list[Plan]:
    data = make_data()
    return [
        Plan(method, Stream.of(data, protocol), 1, BUDGET, "cpu")
        for protocol in protocols
        for method in methods
    ]


def test_side_by_side_gives_what_one_after_another_gives(plugin: Path, tmp_path: Path) -> None:
    pairs = Pairs(torch.eye(16), torch.ones(16, 16), "some")
    wanted = [
        dataclasses.replace(plan, pairs=pairs)
        for plan in plans("zero-shot", "proof:epochs=2", "talker", protocols=("B0-Inc6", [3, 9]))
    ]
    single = run_all(wanted, Notes())
    notes, store = Notes(), RecordStore(tmp_path / "runs")
    several = run_all(wanted, notes, store, jobs=2, plugins=[plugin])
    assert without_timing(several) == without_timing(single)
    assert several[0]["pairs"] == str(pairs)
    assert sorted(notes.tasks) == [(index, tasks) for index in range(6) for tasks in (1, 2)]
    assert len(list(store.folder.iterdir())) == 6, "records alone; checkpoints have served"
    again = Notes()
    assert run_all(wanted, again, store, jobs=2) == several
    assert again.kept == list(range(6))
    assert again.tasks == []


def test_a_process_that_dies_is_told_and_the_rest_goes_on_from_there(
    plugin: Path, tmp_path: Path
) -> None:
    store = RecordStore(tmp_path)
    wanted = plans("mortal", "proof:epochs=2")
    with pytest.raises(ProofError, match="that ran mortal on made ended"):
        run_all(wanted, Notes(), store, jobs=2, plugins=[plugin])
    assert store.checkpoint(wanted[0].run()).exists(), "its first task is kept"
    assert run_all(wanted[1:], Notes(), store)[0]["method"] == "proof:epochs=2"


def test_a_mistake_in_a_process_is_the_users_mistake(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    wanted = plans("simplecil", "zero-shot")
    store.checkpoint(wanted[0].run()).write_bytes(b"half a checkpoint")
    with pytest.raises(ProofError, match="not a checkpoint that can be read"):
        run_all(wanted, Notes(), store, jobs=2)


def test_the_processes_end_with_their_parent(tmp_path: Path) -> None:
    make_data().save(tmp_path / "made.safetensors")
    command = [
        sys.executable, "-m", "proof", "bench", "made.safetensors", "--methods", "proof",
        "--protocol", "B0-Inc2", "--epochs", "5000", "--seeds", "0,1", "--jobs", "2",
    ]  # fmt: skip
    process = subprocess.Popen([*command, "--out", "runs"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (workers := children(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(workers) == 2
    assert not any(map(alive, workers))


def test_jobs_are_as_many_as_cores_and_pay_for_their_start() -> None:
    three = plans("zero-shot", "simplecil", "proof")
    assert default_jobs(three) == 1
    assert default_jobs(three * 3) == min(cores(), 4)
    assert default_jobs(three * 1000) == cores()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    if not found.exists():
        pytest.skip("needs /proc of Linux")
    pids = [int(child) for child in found.read_text().split()]
    return pids if len(pids) == 2 else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
