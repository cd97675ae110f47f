"""Tables of the page: cells that know what they sort by, rows that know their method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proof.reports.groups import Entry, Setting
from proof.reports.html import Content, Html, join, tag


def table(head: Content, rows: Sequence[Html], label: str) -> Html:
    """A table that scrolls by itself where it is wider than the page."""
    inside = tag("table", tag("thead", head), tag("tbody", rows))
    return tag("div", inside, class_="wide", role="region", aria_label=label, tabindex=0)


def heading(
    name: str, column: int, *, text: bool = False, starts: bool = False, order: str | None = None
) -> Html:
    """A heading that sorts by its column; `order` is that of the rows already."""
    return tag(
        "th",
        tag("button", name, type="button"),
        scope="col",
        class_=" ".join(["text"] * text + ["starts"] * starts) or None,
        data_column=column,
        aria_sort=order,
    )


def method_row(m: int, label: str, cells: Iterable[Html]) -> Html:
    """The row of method number `m`, which lights up with it in the figures."""
    shown = tag("span", breakable(label), class_="label")
    name = tag("th", shown, scope="row", data_v=label, data_swatch=m)
    return tag("tr", name, cells, data_m=m)


def breakable(label: str) -> Html:
    """The name of a method, which may be broken before an option.

    >>> breakable("proof:epochs=2")
    'proof<wbr>:epochs=2'
    """
    first, *options = label.split(":")
    return join(first, [join(Html("<wbr>"), f":{option}") for option in options])


def accuracy_cell(
    entry: Entry | None,
    setting: Setting,
    key: str,
    *,
    starts: bool = False,
    deviation: bool = False,
) -> Html:
    """The `average` or `last` of a method, bold where it is the best."""
    if entry is None:
        return number_cell(None, starts=starts)
    best = entry.is_best(key, setting)
    if deviation:
        return mean_cell(entry, key, starts=starts, best=best)
    return number_cell(getattr(entry, key), starts=starts, best=best)


def mean_cell(
    entry: Entry, key: str, *, digits: int = 2, starts: bool = False, best: bool = False
) -> Html:
    """A mean, with its deviation where there are several seeds."""
    mean, deviation = entry.value(key) or (None, None)
    spread = None
    if deviation is not None and len(entry.records) > 1:
        spread = tag("span", f" ± {deviation:.{digits}f}", class_="minor")
    return number_cell(mean, digits=digits, starts=starts, best=best, more=spread)


def number_cell(
    value: float | None,
    *,
    digits: int = 2,
    signed: bool = False,
    starts: bool = False,
    best: bool = False,
    more: Html | None = None,
) -> Html:
    """A number: a fraction with its digits, a count with commas, nothing for None."""
    text = ""
    if value is not None:
        kind = f",.{digits}f" if isinstance(value, float) else ","
        text = f"{value:{'+' if signed else ''}{kind}}".replace("-", "\N{MINUS SIGN}")
    return tag(
        "td",
        text,
        more,
        class_=" ".join(["starts"] * starts + ["best"] * best) or None,
        data_v="" if value is None else f"{value:.10g}",
    )
