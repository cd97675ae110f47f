"""How figures look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proof.errors import ProofError
from proof.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito: told apart by the colour-blind, and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS = "osD^vP*"
_DASHES = ("-", "--", ":")
_LONGEST = 36  # letters of a name
_FORMATS = (".png", ".svg", ".pdf")


def check_format(path: Path) -> None:
    """Refuse a name that does not end in a format that can be drawn."""
    if path.suffix.lower() not in _FORMATS:
        raise ProofError(f"cannot draw '{path}': expected a name that ends in .png, .svg or .pdf")


def line(index: int) -> dict[str, Any]:
    """The line of method number `index`; colours come again with other dashes."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": _MARKS[index % len(_MARKS)],
        "linestyle": _DASHES[index // len(COLOURS) % len(_DASHES)],
    }


def plain(text: str, longest: int = _LONGEST) -> str:
    r"""Text on one short line, which matplotlib does not take for mathematics.

    >>> plain("$1 shop")
    '\\$1 shop'
    """
    line = " ".join(text.split())
    return (line if len(line) <= longest else f"{line[:longest]}…").replace("$", r"\$")


def legend(figure: Figure, labels: Sequence[str], present: Collection[str]) -> None:
    """Name the methods that are there below the panels, where all of them have one legend."""
    from matplotlib.lines import Line2D

    shown = [label for label in labels if label in present]
    lines = [Line2D([], [], **line(labels.index(label)), label=plain(label)) for label in shown]
    columns = max(1, min(len(lines), int(figure.get_figwidth() // 2.2)))
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, frameon=False)


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same file."""
    import matplotlib as mpl

    check_format(path)
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with replacing(path) as partial, mpl.rc_context({"svg.hashsalt": "proof"}):
        figure.savefig(partial, metadata=dates.get(path.suffix.lower()))
