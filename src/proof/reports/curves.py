"""Curves: accuracy over the number of classes seen."""

from __future__ import annotations

from pathlib import Path

from proof.errors import ProofError
from proof.files import replacing
from proof.reports.tables import classes_seen, group, mean_curve
from proof.runs import Record

# Okabe and Ito: told apart by the colour-blind, and in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS = "osD^vP*"
_FORMATS = (".png", ".svg", ".pdf")


def check_format(path: Path) -> None:
    """Refuse a name that does not end in a format that can be drawn."""
    if path.suffix.lower() not in _FORMATS:
        raise ProofError(f"cannot draw '{path}': expected a name that ends in .png, .svg or .pdf")


def draw(records: list[Record], path: Path) -> None:
    """Draw one line a method, named at its end, to a picture file."""
    check_format(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    first = records[0]
    seen = classes_seen(first)
    ends: list[tuple[float, str, str]] = []
    for index, (method, group_) in enumerate(group(records).items()):
        curve = mean_curve(group_)
        colour = _COLOURS[index % len(_COLOURS)]
        mark = _MARKS[index % len(_MARKS)]
        axes.plot(seen, curve, color=colour, marker=mark, markersize=4.5, linewidth=1.8)
        ends.append((curve[-1], f"{method}  {curve[-1]:.1f}", colour))
    low, high = axes.get_ylim()
    for height, (_, label, colour) in zip(
        _spread(ends, (high - low) / 18), sorted(ends), strict=True
    ):
        axes.annotate(
            label,
            (seen[-1], height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )
    axes.set_xlabel("classes learned")
    axes.set_ylabel("accuracy on all of them (%)")
    axes.set_title(f"{first['data']}, {first['protocol']}", loc="left", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xticks(seen if len(seen) <= 12 else seen[:: len(seen) // 10])
    with replacing(path) as partial:
        figure.savefig(partial)


def _spread(ends: list[tuple[float, str, str]], gap: float) -> list[float]:
    """Heights for the labels, in rising order, at least `gap` apart."""
    heights: list[float] = []
    for value, _, _ in sorted(ends):
        heights.append(max(value, heights[-1] + gap) if heights else value)
    return heights
