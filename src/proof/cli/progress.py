"""A bar with rate and time left, for work that is counted in pictures; lines where there is no
terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_EVERY = 10.0  # seconds between lines where there is no terminal


class Bar:
    """Shows how far `proof embed` is."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}  {task.fields[rate]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}
        self._spoke = time.monotonic()

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total, rate="")
            self._began[what] = time.monotonic()
        seconds = time.monotonic() - self._began[what]
        rate = f"{done / seconds:,.0f}/s" if seconds > 1 else ""
        self._bar.update(self._tasks[what], completed=done, total=total, rate=rate)
        if not self.console.is_terminal and time.monotonic() - self._spoke > _EVERY and rate:
            self._spoke = time.monotonic()
            left = (total - done) * seconds / max(done, 1)
            self.console.print(
                f"{what} {done:,}/{total:,}  {rate}  {left:,.0f} s left", highlight=False
            )
