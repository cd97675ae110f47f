"""The card of a model as one page of HTML, which needs nothing from outside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from proof.models.results import CHANGES
from proof.reports.card import Card, facts, local, said
from proof.reports.formats import printable, size_text
from proof.words import many

_TEMPLATE = files("proof") / "reports" / "card.html"
_STEPS = (1, 2, 5, 10, 20)  # percent between two lines of the chart
_LEAST = 5.0  # percent from its lowest line to its highest


def chart(points: Sequence[tuple[str, float, str]]) -> str:
    """A curve of percentages: under each point its name, and what is said of it when it is touched.

    >>> "86.0 %" in chart([("10", 91.5, "first lesson"), ("20", 86.0, "second lesson")])
    True
    """
    low, high, step = _scale([value for _, value, _ in points])
    across = [100 * place / max(len(points) - 1, 1) for place in range(len(points))]
    down = [100 * (high - value) / (high - low) for _, value, _ in points]
    line = " ".join(f"{x:.2f},{y:.2f}" for x, y in zip(across, down, strict=True))
    drawn = [f'<polygon class="area" points="0,100 {line} 100,100"/>']
    texts = ['<i class="axis">classes known</i>']
    for mark in range(low, high + 1, step):
        y = 100 * (high - mark) / (high - low)
        drawn.append(f'<path class="grid" d="M0 {y:.2f}H100"/>')
        texts.append(f'<i class="y" style="top:{y:.2f}%">{mark} %</i>')
    drawn.append(f'<polyline class="curve" points="{line}"/>')
    every = -(-len(points) // 8)  # not more names than fit on a narrow screen
    for place, (x, y, (name, _, about)) in enumerate(zip(across, down, points, strict=True)):
        # A line of no length with round ends is a dot that keeps its shape when stretched.
        drawn.append(
            f'<path class="dot" d="M{x:.2f} {y:.2f}h0"><title>{escape(about)}</title></path>'
        )
        if (len(points) - 1 - place) % every == 0:
            texts.append(f'<i class="x" style="left:{x:.2f}%">{escape(name)}</i>')
    texts.append(f'<i class="last" style="top:{down[-1]:.2f}%">{points[-1][1]:.1f} %</i>')
    return (
        '<div class="chart"><svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        f'aria-label="Accuracy after each lesson">{"".join(drawn)}</svg>{"".join(texts)}</div>'
    )


def _scale(values: Iterable[float]) -> tuple[int, int, int]:
    """Lowest and highest mark of an axis around some percentages, and the step between marks.

    >>> _scale([91.5, 86.0]), _scale([100.0])
    ((86, 92, 2), (95, 100, 1))
    """
    given = list(values)
    low = max(0.0, min(*given, max(given) - _LEAST))
    high = max(*given, low + _LEAST)
    step = next(step for step in _STEPS if (high - low) / step <= 5)
    return int(low // step * step), int(-(-high // step) * step), step


def page(card: Card) -> str:
    """All that a card says, as HTML.

    The text of a card may be anyone's: all of it is escaped.
    """
    classes, log = card["classes"], card["log"]
    pictures = sum(entry["pictures"] for entry in classes)
    right = card["calibration"]["accuracy"]
    tiles = {
        "classes": f"{len(classes):,}",
        "pictures": f"{pictures:,}",
        "accuracy": "?" if right is None else f"{right:.1f} %",
        "in one file": size_text(card["bytes"]),
    }
    encoder = card["source"]["encoder"] or "embeddings"
    options = ", ".join(f"{name} {value}" for name, value in card["method"]["options"].items())
    about = facts(card)
    about["method"] += f"; {options}" if options else ""
    curve = _curve(log)
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        name=_text(Path(card["file"]).stem),
        summary=f"Tells {many(len(classes), 'class')} apart, by {_text(encoder)} and the method "
        f"{_text(card['method']['name'])}.",
        tiles=_lines(f"<li><b>{_text(t)}</b><span>{name}</span></li>" for name, t in tiles.items()),
        chart=_section(curve) if len(curve) > 1 else "",
        classes=_classes(classes),
        facts=_lines(f"<dt>{name}</dt><dd>{_code(text)}</dd>" for name, text in about.items()),
        log=_lines(
            f"<li><time>{_text(local(step['when']))}</time><span>{_text(said(step))}</span></li>"
            for step in reversed(log)
        ),
        footer=f"{_text(card['file'])}, revision {_text(card['revision'])}",
    )


def _curve(log: list[Card]) -> list[tuple[str, float, str]]:
    """The accuracy after each step that may change it, and how many classes there were then."""
    known: set[str] = set()
    points = []
    for step in log:
        if step["what"] in ("learn", "merge"):
            known |= set(step["classes"])
        elif step["what"] == "forget":
            known -= set(step["classes"])
        if step["accuracy"] is not None and step["what"] in CHANGES:
            points.append((f"{len(known):,}", step["accuracy"], printable(said(step))))
    return points


def _section(curve: list[tuple[str, float, str]]) -> str:
    return (
        "<section><h2>Accuracy after each lesson</h2>"
        '<p class="note">On pictures as if it had not learned them, all classes known by then.</p>'
        f"{chart(curve)}</section>"
    )


def _classes(classes: list[Card]) -> str:
    most = max((entry["pictures"] for entry in classes), default=0)
    return _lines(
        f'<li title="taught {_text(local(entry["first"]))} to {_text(local(entry["last"]))}">'
        f"<bdi>{_text(entry['name'])}</bdi>"
        f'<div class="bar"><div style="width:{100 * entry["pictures"] / max(most, 1):.1f}%"></div>'
        f"</div><span>{entry['pictures']:,}</span></li>"
        for entry in classes
    )


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _code(text: str) -> str:
    return re.sub("`(.*?)`", r"<code>\1</code>", _text(text))


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)
