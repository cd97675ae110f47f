"""What an ablation found: a table, and one figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from proof.ablations import Ablation
from proof.paper import published
from proof.reports.curves import End, name_ends
from proof.reports.formats import Value, csv_text
from proof.reports.formats import markdown as markdown_table
from proof.reports.groups import Entry, Setting
from proof.reports.style import COLOURS, line, new_figure, plain, save
from proof.reports.tables import cells, console, headings
from proof.reports.written import csv_row, markdown_row, plain_markdown
from proof.runs import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEYS = ("average", "last")
Values = list[tuple[float, float]]  # mean and deviation at each place of the axis


@dataclass(frozen=True)
class Result:
    """An ablation with its runs: one setting where methods are varied, else one for each place on
    the axis, which it bears as its title."""

    name: str
    ablation: Ablation
    settings: list[Setting]

    @classmethod
    def of(
        cls, name: str, ablation: Ablation, places: Sequence[str], records: Sequence[Record]
    ) -> Result:
        """`records` come in the order of their runs: for each place each method, for that each
        seed."""
        methods = ablation.methods
        seeds = len(records) // (len(places) * len(methods))
        coming = iter(records)
        settings = []
        for place in places:
            entries = []
            for label, method in methods.items():
                runs = [next(coming) for _ in range(seeds)]
                paper = published(runs[0]["data"], runs[0]["protocol"], method)
                entries.append(Entry(label, runs, paper))
            settings.append(Setting(place, entries))
        return cls(name, ablation, settings)

    def lines(self) -> Iterator[tuple[str, str, Entry, Setting]]:
        """The place on the axis, the method, and what it reached there."""
        for setting in self.settings:
            for entry in setting.entries:
                method = self.ablation.methods[entry.label]
                varied = self.ablation.varies == "method"
                yield entry.label if varied else setting.title, method, entry, setting

    @property
    def where(self) -> str:
        """What all its runs have in common."""
        first = self.settings[0].first
        parts = {"data": first["data"], "protocol": first["protocol"]}
        parts.pop(self.ablation.varies, None)
        note = f"order seed {first['order_seed']}{self.settings[0].mean_of}"
        return f"{', '.join(parts.values())}, {note}"

    @property
    def published(self) -> bool:
        """Whether the paper has numbers of any of it."""
        return any(entry.published for _, _, entry, _ in self.lines())


def print_result(result: Result) -> None:
    """Print the table in the terminal."""
    title = Text(f"{result.ablation.asks}\n{result.where}")
    table = Table(title=title, title_justify="left")
    table.add_column(result.ablation.axis)
    table.add_column("method")
    for heading in headings(result.published):
        table.add_column(heading, justify="right")
    before = result.settings[0]
    for place, method, entry, setting in result.lines():
        if setting is not before:
            table.add_section()
        table.add_row(Text(place), Text(method), *cells(entry, result.published))
        before = setting
    console().print(table)


def markdown(result: Result) -> str:
    """The table as Markdown; the best of each stream is bold."""
    rows: list[dict[str, Value]] = []
    for place, method, entry, setting in result.lines():
        told = {result.ablation.axis: plain_markdown(place), "method": plain_markdown(method)}
        rows.append({**told, **markdown_row(entry, setting, result.published), **told})
    about = f"{plain_markdown(result.where)}. `proof ablate {result.name}`."
    return f"## {result.ablation.asks}\n\n{about}\n\n{markdown_table(rows)}"


def csv(result: Result) -> str:
    """A line for each method at each place, with all there is to compute with."""
    return csv_text(
        [
            {
                "ablation": result.name,
                "varied": place,
                **csv_row(entry, setting),
                "method": method,
            }
            for place, method, entry, setting in result.lines()
        ]
    )


def draw(result: Result, path: Path) -> None:
    """Draw average and last: over numbers as lines, else as bars."""
    panels, places = _panels(result)
    bars = len(places) * max(map(len, panels.values()))
    width = 8.0 if result.ablation.numbers else max(7.0, 1 + 0.42 * bars)
    figure = new_figure(width, 1.8 + 2.8 * len(panels))
    for row, (title, series) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(len(panels), 1, row)
        if result.ablation.numbers:
            _draw_lines(axes, [float(place) for place in places], series)
        else:
            _draw_bars(axes, places, series)
        axes.set_ylabel(f"{title} accuracy (%)".strip())
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(result.ablation.axis)
    if not result.ablation.numbers:
        _legend(figure)
    title = f"{result.ablation.asks}\n{plain(result.where, 100)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    save(figure, path)


def _panels(result: Result) -> tuple[dict[str, dict[str, Values]], list[str]]:
    """By panel the lines or bars, and the places on the axis. A single method has one panel for
    average and last, several methods have a panel for each."""

    def values(entries: Sequence[Entry | None], key: str) -> Values:
        return [found for entry in entries if entry and (found := entry.value(key))]

    settings = result.settings
    if result.ablation.varies == "method":
        entries = settings[0].entries
        return (
            {"": {key: values(entries, key) for key in _KEYS}},
            [entry.label for entry in entries],
        )
    methods = {
        label: [setting.entry(label) for setting in settings] for label in result.ablation.methods
    }
    panels = {
        key: {label: values(entries, key) for label, entries in methods.items()} for key in _KEYS
    }
    return panels, [setting.title for setting in settings]


def _draw_lines(axes: Any, places: Sequence[float], series: dict[str, Values]) -> None:
    ends = []
    for index, (label, values) in enumerate(series.items()):
        means, look = [mean for mean, _ in values], line(index)
        axes.plot(places, means, **look, markersize=4.5, linewidth=1.8)
        low, high = ([mean + sign * spread for mean, spread in values] for sign in (-1, 1))
        axes.fill_between(places, low, high, color=look["color"], alpha=0.2, linewidth=0)
        ends.append(End(places[-1], means[-1], label, look["color"]))
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{place:g}" for place in places], fontsize=9)
    axes.minorticks_off()
    name_ends(axes, sorted(ends, key=lambda end: end.y))


def _draw_bars(axes: Any, places: Sequence[str], series: dict[str, Values]) -> None:
    width = 0.84 / len(series)
    for index, (label, values) in enumerate(series.items()):
        means, spreads = zip(*values, strict=True)
        left = [place - 0.42 + width * (index + 0.5) for place in range(len(places))]
        error = spreads if any(spreads) else None
        bars = axes.bar(left, means, width, yerr=error, color=COLOURS[index], label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
    axes.set_xticks(range(len(places)), [textwrap.fill(plain(place), 14) for place in places])
    axes.set_ylim(0, 105)  # from nothing to all, so that a bar is as long as its value


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
