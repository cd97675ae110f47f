"""Tables in the terminal."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from rich.console import Console
from rich.table import Table

from proof.runs import Record, mean_and_deviation


def group(records: list[Record]) -> dict[str, list[Record]]:
    """Records by method, in the order in which the methods first stand there."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["method"], []).append(record)
    return groups


def classes_seen(record: Record) -> list[int]:
    """How many classes were known after each task."""
    return list(accumulate(record["sizes"]))


def mean_curve(records: list[Record]) -> list[float]:
    """The curve of a method, averaged over seeds."""
    columns = zip(*(record["curve"] for record in records), strict=True)
    return [sum(column) / len(column) for column in columns]


def print_results(records: list[Record]) -> None:
    """Print the summary of each method, and its accuracy after each task."""
    console = _console()
    first = records[0]
    seeds = len({record["seed"] for record in records})
    note = f", mean and standard deviation of {seeds} seeds" if seeds > 1 else ""
    summary = Table(
        title=f"{first['data']}, {first['protocol']}, order seed {first['order_seed']}{note}",
        title_justify="left",
    )
    summary.add_column("method")
    headings = ("average", "last", "forgetting", "exemplars", "trained", "seconds")
    for heading in headings:
        summary.add_column(heading, justify="right")
    for method, group_ in group(records).items():
        summary.add_row(
            method,
            *(_cell(group_, key) for key in ("average", "last", "forgetting")),
            f"{group_[0]['exemplars']:,}",
            f"{group_[0]['trainable_parameters']:,}",
            _cell(group_, "seconds", digits=1),
        )
    console.print(summary)

    curves = Table(title="accuracy in % on all classes seen, after each task", title_justify="left")
    curves.add_column("classes")
    for count in classes_seen(first):
        curves.add_column(str(count), justify="right")
    for method, group_ in group(records).items():
        curves.add_row(method, *(f"{value:.1f}" for value in mean_curve(group_)))
    console.print(curves)


def _cell(records: list[Record], key: str, digits: int = 2) -> str:
    mean, deviation = mean_and_deviation([float(record[key]) for record in records])
    spread = f" ± {deviation:.{digits}f}" if len(records) > 1 else ""
    return f"{mean:.{digits}f}{spread}"


def _console() -> Console:
    """Standard output; wide enough for the table where it is not a terminal."""
    options: dict[str, Any] = {} if Console().is_terminal else {"width": 160}
    return Console(highlight=False, **options)
