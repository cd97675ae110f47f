"""Curves: accuracy over the number of classes seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proof.reports.groups import Curve, Setting, labels_of, settings_of
from proof.reports.style import check_format, legend, line, new_figure, plain, save
from proof.runs import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PANELS = 3  # side by side


class End(NamedTuple):
    """Where a line ends."""

    x: float
    y: float
    label: str
    colour: str


def draw(records: Iterable[Record], path: Path) -> None:
    """Draw one line a method, named at its end, to a picture file; a panel for each setting."""
    check_format(path)
    settings = settings_of(records)
    save(draw_curves(settings, labels_of(settings)), path)


def draw_curves(settings: Sequence[Setting], labels: Sequence[str]) -> Figure:
    """A panel for each setting. The best at the end also tells how far it is above the second.

    `labels` are those of the whole report, so that a method looks the same in all its figures.
    """
    if len(settings) == 1:
        figure = new_figure(7, 4.2)
        axes = figure.add_subplot()
        name_ends(axes, draw_lines(axes, settings[0], _curves(settings[0]), labels), gap=True)
        _describe(axes, settings[0])
        return figure
    rows, columns = -(-len(settings) // _PANELS), min(len(settings), _PANELS)
    figure = new_figure(4.2 * columns, 3.3 * rows + 0.6)
    for place, setting in enumerate(settings, 1):
        axes = figure.add_subplot(rows, columns, place)
        ends = draw_lines(axes, setting, _curves(setting), labels)
        _name_gap(axes, ends)
        _describe(axes, setting)
    legend(figure, labels, labels)
    return figure


def draw_lines(
    axes: Any, setting: Setting, curves: dict[str, Curve], labels: Sequence[str]
) -> list[End]:
    """Draw curves over the classes learned; where each of them ends, from low to high."""
    seen = setting.classes_seen
    ends = []
    for label, curve in curves.items():
        points = [(x, y) for x, y in zip(seen, curve, strict=True) if y is not None]
        if points:
            look = line(labels.index(label))
            axes.plot(*zip(*points, strict=True), **look, markersize=4.5, linewidth=1.8)
            ends.append(End(*points[-1], label, look["color"]))
    axes.set_xlabel("classes learned")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xticks(seen if len(seen) <= 12 else seen[:: len(seen) // 10])
    return sorted(ends, key=lambda end: end.y)


def name_ends(axes: Any, ends: Sequence[End], gap: bool = False) -> None:
    """Name each line at its end, with its last value and the gap of the best."""
    low, high = axes.get_ylim()
    heights = _spread([end.y for end in ends], (high - low) / 18, low, high)
    for height, end in zip(heights, ends, strict=True):
        text = f"{plain(end.label)}  {end.y:.1f}"
        if gap and end is ends[-1] and len(ends) > 1:
            text += f"  (+{end.y - ends[-2].y:.1f})"
        _annotate(axes, end, height, text)


def _name_gap(axes: Any, ends: Sequence[End]) -> None:
    if len(ends) > 1:
        _annotate(axes, ends[-1], ends[-1].y, f"+{ends[-1].y - ends[-2].y:.1f}")


def _annotate(axes: Any, end: End, height: float, text: str) -> None:
    axes.annotate(
        text,
        (end.x, height),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=end.colour,
        annotation_clip=False,
    )


def _describe(axes: Any, setting: Setting) -> None:
    axes.set_ylabel("accuracy on all of them (%)")
    axes.set_title(plain(setting.title), loc="left", fontsize=11)


def _curves(setting: Setting) -> dict[str, Curve]:
    return {entry.label: entry.curve("curve") for entry in setting.entries}


def _spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights for labels at rising values, at least `gap` apart and not above `high`.

    >>> _spread([1.0, 1.1, 5.0], 1.0, 0.0, 5.0)
    [1.0, 2.0, 5.0]
    """
    heights: list[float] = []
    for value in values:
        heights.append(max(value, heights[-1] + gap) if heights else max(value, low))
    most = high
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], most)
        most = heights[place] - gap
    return heights
