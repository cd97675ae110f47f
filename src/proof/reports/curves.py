"""Curves: accuracy over the number of classes seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proof.reports.groups import Curve, Setting, labels_of, settings_of
from proof.reports.style import check_format, line, new_figure, plain, save
from proof.runs import Record

__all__ = ["check_format", "draw", "draw_lines"]

_PANELS = 3  # side by side


def draw(records: Iterable[Record], path: Path) -> None:
    """Draw one line a method, named at its end, to a picture file; a panel for each setting.

    The best method at the end of the stream also tells how far it is above the second.
    """
    check_format(path)
    settings = settings_of(records)
    rows, columns = -(-len(settings) // _PANELS), min(len(settings), _PANELS)
    figure = new_figure(7, 4.2) if len(settings) == 1 else new_figure(5.6 * columns, 3.6 * rows)
    for place, setting in enumerate(settings, 1):
        axes = figure.add_subplot(rows, columns, place)
        curves = {entry.label: entry.curve("curve") for entry in setting.entries}
        draw_lines(axes, setting, curves, labels_of(settings), gap=True)
        axes.set_ylabel("accuracy on all of them (%)")
    save(figure, path)


def draw_lines(
    axes: Any, setting: Setting, curves: dict[str, Curve], labels: Sequence[str], gap: bool = False
) -> None:
    """Draw curves over the classes learned, each named at its end with its last value.

    `labels` are those of the whole report, so that a method looks the same in all its figures.
    """
    seen = setting.classes_seen
    ends: list[tuple[float, str, str]] = []
    last_seen = 0
    for label, curve in curves.items():
        points = [(x, y) for x, y in zip(seen, curve, strict=True) if y is not None]
        if not points:
            continue
        look = line(labels.index(label))
        axes.plot(*zip(*points, strict=True), **look, markersize=4.5, linewidth=1.8)
        last_seen, last = points[-1]
        ends.append((last, f"{plain(label)}  {last:.1f}", look["color"]))
    ends.sort()
    if gap and len(ends) > 1:
        (second, _, _), (best, name, colour) = ends[-2:]
        ends[-1] = best, f"{name}  (+{best - second:.1f})", colour
    low, high = axes.get_ylim()
    heights = _spread([value for value, _, _ in ends], (high - low) / 18)
    for height, (_, text, colour) in zip(heights, ends, strict=True):
        axes.annotate(
            text,
            (last_seen, height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )
    axes.set_xlabel("classes learned")
    axes.set_title(plain(setting.title), loc="left", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xticks(seen if len(seen) <= 12 else seen[:: len(seen) // 10])


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Heights for labels at rising values, at least `gap` apart."""
    heights: list[float] = []
    for value in values:
        heights.append(max(value, heights[-1] + gap) if heights else value)
    return heights
