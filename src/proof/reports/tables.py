"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proof.reports.groups import Entry, Setting, settings_of
from proof.runs import Record


def print_results(records: Iterable[Record]) -> None:
    """Print for each setting the summary of each method, and its accuracy after each task."""
    print_settings(settings_of(records))


def print_settings(settings: Iterable[Setting]) -> None:
    """As `print_results`, of records that are in order already."""
    terminal = console()
    for setting in settings:
        terminal.print(_summary(setting))
        terminal.print(_curves(setting))


def with_deviation(value: tuple[float, float] | None, seeds: int, digits: int = 2) -> str:
    """A mean, and the deviation where there are several seeds.

    >>> with_deviation((79.93, 0.1), 3), with_deviation((79.93, 0.0), 1), with_deviation(None, 1)
    ('79.93 ± 0.10', '79.93', '')
    """
    if value is None:
        return ""
    spread = f" ± {value[1]:.{digits}f}" if seeds > 1 else ""
    return f"{value[0]:.{digits}f}{spread}"


def _summary(setting: Setting) -> Table:
    title = f"{setting.title}, order seed {setting.first['order_seed']}{setting.mean_of}"
    table = Table(title=Text(title), title_justify="left")
    table.add_column("method", overflow="fold")
    paper = any(entry.published for entry in setting.entries)
    for heading in headings(paper):
        table.add_column(heading, justify="right")
    for entry in setting.entries:
        table.add_row(Text(entry.label), *cells(entry, paper))
    return table


def headings(paper: bool) -> list[str]:
    """What stands above `cells`."""
    beside = ["published"] if paper else []
    return ["average", *beside, "last", *beside, "forgetting", "exemplars", "trained", "seconds"]


def cells(entry: Entry, paper: bool) -> list[str]:
    """What a method reached; `paper` also tells what was published."""
    seeds = len(entry.records)
    reached = []
    for key in ("average", "last"):
        reached.append(with_deviation(entry.value(key), seeds))
        if paper:
            reached.append(f"{getattr(entry.published, key):.2f}" if entry.published else "")
    return [
        *reached,
        with_deviation(entry.value("forgetting"), seeds),
        f"{entry.number('exemplars'):,}",
        f"{entry.number('trainable_parameters'):,}",
        with_deviation(entry.value("seconds"), seeds, digits=1),
    ]


def _curves(setting: Setting) -> Table:
    title = "accuracy in % on all classes seen, after each task"
    table = Table(title=title, title_justify="left")
    table.add_column("classes", overflow="fold")
    for count in setting.classes_seen:
        table.add_column(str(count), justify="right")
    for entry in setting.entries:
        table.add_row(Text(entry.label), *(f"{value:.1f}" for value in entry.curve("curve")))
    return table


def console() -> Console:
    """Standard output; wide enough for the table where it is not a terminal."""
    options: dict[str, Any] = {} if Console().is_terminal else {"width": 160}
    return Console(highlight=False, **options)
