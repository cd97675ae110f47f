"""Live bars; where there is no terminal, lines now and then."""

from __future__ import annotations

import time
from collections import deque
from datetime import timedelta
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn

_EVERY = 10.0  # seconds between lines where there is no terminal
_WINDOW = 15.0  # seconds that the rate is taken over: what was in the cache does not count


class Live:
    """A bar on stderr while something is under way, where that is a terminal."""

    def __init__(self, *columns: ProgressColumn) -> None:
        self.console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._bar.stop()


class Bar(Live):
    """Shows how far work with pictures is, and that other work is under way."""

    def __init__(self, work: str = "") -> None:
        super().__init__(
            TextColumn("{task.fields[count]}  {task.fields[rate]}"),
            TextColumn("{task.fields[left]}"),
        )
        self._tasks: dict[str, TaskID] = {}
        self._work: TaskID | None = None
        if work:
            self.begin(work)
        self._seen: deque[tuple[float, int]] = deque()  # of late: when, pictures done
        self._spoke = time.monotonic()

    def begin(self, work: str) -> None:
        """Show work whose end is not known, until more is told."""
        self._end()
        self._work = self._add(work, None)

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        self._end()
        if what not in self._tasks:
            self._tasks[what] = self._add(what, total)
            self._seen.clear()
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()
        speed = (done - self._seen[0][1]) / max(now - self._seen[0][0], 0.5)
        rate = left = ""
        if speed:
            rate = f"{speed:,.1f}/s" if speed < 10 else f"{speed:,.0f}/s"
            left = f"{timedelta(seconds=round((total - done) / speed))} left"
        self._bar.update(
            self._tasks[what],
            completed=done,
            total=total,
            count=f"{done:,}/{total:,}",
            rate=rate,
            left=left,
        )
        if not self.console.is_terminal and now - self._spoke > _EVERY and speed:
            self._spoke = now
            self.console.print(f"{what} {done:,}/{total:,}  {rate}  {left}", highlight=False)

    def _end(self) -> None:
        if self._work is not None:
            self._bar.remove_task(self._work)
            self._work = None

    def _add(self, what: str, total: int | None) -> TaskID:
        return self._bar.add_task(what, total=total, count="", rate="", left="")
