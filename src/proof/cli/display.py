"""Progress of runs: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.progress import (
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from proof.cli.progress import Live

if TYPE_CHECKING:
    from proof.grid import Plan
    from proof.runs import Record


class Display(Live):
    """Shows each run's tasks, its accuracy so far and the time left."""

    def __init__(self, plans: list[Plan], track: Callable[[Record], None] | None = None) -> None:
        """`track` is given the record of each run that is done now."""
        self._track = track
        self._names = _names(plans)
        self._tasks = [len(plan.stream) for plan in plans]
        self._done = [0.0] * len(plans)
        super().__init__(
            TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
        )
        self._task = self._bar.add_task("starting", total=sum(self._tasks))

    def progress(self, index: int, tasks: float) -> None:
        self._done[index] = tasks
        self._bar.update(
            self._task,
            completed=sum(self._done),
            description=f"{self._names[index]}  task {int(tasks) + 1}/{self._tasks[index]}",
        )

    def task_done(self, index: int, tasks: int, classes: int, accuracy: float) -> None:
        self._done[index] = tasks
        self.console.print(
            f"{self._names[index]}  task {tasks}/{self._tasks[index]}  {classes} classes  "
            f"accuracy {accuracy:.2f} %",
            highlight=False,
            markup=False,
        )
        self._bar.update(self._task, completed=sum(self._done))

    def finished(self, index: int, record: Record, *, kept: bool) -> None:
        self._done[index] = self._tasks[index]
        self._bar.update(self._task, completed=sum(self._done))
        before = "  (kept from before)" if kept else ""
        self.console.print(
            f"{self._names[index]}  average {record['average']:.2f}  last {record['last']:.2f}  "
            f"{record['seconds']:.1f} s{before}",
            style="bold",
            highlight=False,
            markup=False,
        )
        if self._track and not kept:
            self._track(record)


def _names(plans: list[Plan]) -> list[str]:
    """What each run is called: its method, and what else tells it from the others."""
    data = len({plan.stream.data.name for plan in plans}) > 1
    protocols = len({plan.stream.protocol for plan in plans}) > 1
    seeds = len({plan.seed for plan in plans}) > 1
    return [
        plan.method
        + (f"  {plan.stream.data.name}" if data else "")
        + (f"  {plan.stream.protocol}" if protocols else "")
        + (f" (seed {plan.seed})" if seeds else "")
        for plan in plans
    ]
