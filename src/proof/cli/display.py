"""Progress of runs: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import (
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from proof.cli.progress import Live

if TYPE_CHECKING:
    from proof.runs import Record, Run


class Display(Live):
    """Shows each run's tasks, its accuracy so far and the time left."""

    def __init__(self, runs: list[Run]) -> None:
        self.several = len({run.seed for run in runs}) > 1
        self.total = sum(len(run.stream) for run in runs)
        self.before = 0  # tasks of the runs that came before this one
        super().__init__(
            TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
        )
        self._task = self._bar.add_task("starting", total=self.total)

    def progress(self, run: Run, share: float) -> None:
        """A share of the task under way is done."""
        tasks = run.learner.tasks
        self._bar.update(
            self._task,
            completed=self.before + tasks + share,
            description=f"{self._name(run)}  task {tasks + 1}/{len(run.stream)}",
        )

    def task_done(self, run: Run) -> None:
        self.console.print(
            f"{self._name(run)}  task {run.learner.tasks}/{len(run.stream)}  "
            f"{len(run.learner.classes)} classes  accuracy {run.curve[-1]:.2f} %",
            highlight=False,
        )
        self._bar.update(self._task, completed=self.before + run.learner.tasks)

    def finished(self, run: Run, record: Record) -> None:
        self.before += len(run.stream)
        self._bar.update(self._task, completed=self.before)
        kept = "" if run.done else "  (kept from before)"
        self.console.print(
            f"{self._name(run)}  average {record['average']:.2f}  last {record['last']:.2f}  "
            f"{record['seconds']:.1f} s{kept}",
            style="bold",
            highlight=False,
        )

    def _name(self, run: Run) -> str:
        return f"{run.method} (seed {run.seed})" if self.several else run.method
