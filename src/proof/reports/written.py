"""The tables of a report as text: Markdown, LaTeX like the paper's, and CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence

from proof.reports.formats import Value, csv_text
from proof.reports.formats import markdown as markdown_table
from proof.reports.groups import Entry, Setting, labels_of
from proof.reports.tables import with_deviation

_ACROSS = 3  # settings side by side in LaTeX, as in the paper


def markdown(settings: Sequence[Setting]) -> str:
    """A table of all settings where there are several, then one for each of them."""
    parts = []
    if len(settings) > 1:
        parts.append("## All streams\n\nAverage / last accuracy in %.\n\n" + _overview(settings))
    for setting in settings:
        first = setting.first
        about = f"{len(first['sizes'])} tasks, order seed {first['order_seed']}"
        if setting.seeds > 1:
            about += f", mean ± standard deviation of {setting.seeds} seeds"
        if first.get("encoder"):
            about += f", encoder {_plain_markdown(first['encoder'])}"
        table = markdown_table([_markdown_row(entry, setting) for entry in ordered(setting)])
        notes = "".join(f"\nPaper: {_plain_markdown(source)}.\n" for source in setting.sources())
        parts.append(f"## {_plain_markdown(setting.title)}\n\n{about}.\n\n{table}{notes}")
    return "\n".join(parts)


def latex(settings: Sequence[Setting]) -> str:
    """A table as in the paper: a line for each method, two columns for each setting, below it what
    was published with the difference."""
    return "% Needs the packages booktabs and amssymb.\n" + "\n".join(
        _latex_block(settings[start : start + _ACROSS])
        for start in range(0, len(settings), _ACROSS)
    )


def csv(settings: Sequence[Setting]) -> str:
    """A line for each method of each setting, with all there is to compute with."""
    return csv_text(
        [_csv_row(entry, setting) for setting in settings for entry in ordered(setting)]
    )


def ordered(setting: Setting) -> list[Entry]:
    """As in the paper: those without exemplars, then those with; the best last."""
    return sorted(
        setting.entries, key=lambda entry: (bool(entry.number("exemplars")), entry.average)
    )


def _overview(settings: Sequence[Setting]) -> str:
    rows: list[dict[str, Value]] = []
    for label in labels_of(settings):
        row: dict[str, Value] = {"method": _plain_markdown(label)}
        for setting in settings:
            found = [entry for entry in setting.entries if entry.label == label]
            values = [_bold(found[0], setting, key) for key in ("average", "last") if found]
            row[_plain_markdown(setting.title)] = " / ".join(values)
        rows.append(row)
    return markdown_table(rows)


def _bold(entry: Entry, setting: Setting, key: str) -> str:
    text = f"{getattr(entry, key):.2f}"
    return f"**{text}**" if getattr(entry, key) == setting.best(key) else text


def _markdown_row(entry: Entry, setting: Setting) -> dict[str, Value]:
    paper = any(entry.published for entry in setting.entries)
    seeds = len(entry.records)
    row: dict[str, Value] = {
        "method": _plain_markdown(entry.label),
        "exemplars": entry.number("exemplars"),
    }
    for key in ("average", "last"):
        text = with_deviation(entry.value(key), seeds)
        row[key] = f"**{text}**" if getattr(entry, key) == setting.best(key) else text
        if paper:
            theirs = entry.paper(key)
            row[f"{key}, paper"] = f"{theirs[0]:.2f} ({theirs[1]:+.2f})" if theirs else ""
    row["forgetting"] = with_deviation(entry.value("forgetting"), seeds)
    row["seconds"] = with_deviation(entry.value("seconds"), seeds, digits=1)
    return row


def _plain_markdown(text: str) -> str:
    """Text that Markdown shows as it is.

    >>> _plain_markdown("a|b <i>")
    'a\\|b \\<i\\>'
    """
    return re.sub(r"([\\`*_{}\[\]<>|#&~!])", r"\\\1", " ".join(text.split()))


def _latex_block(settings: Sequence[Setting]) -> str:
    titles = [_plain_latex(setting.title) for setting in settings]
    lines = [
        r"\begin{tabular}{@{}lc" + "rr" * len(settings) + "@{}}",
        r"\toprule",
        " & ".join(["", "", *(rf"\multicolumn{{2}}{{c}}{{{title}}}" for title in titles)]) + r" \\",
        " & ".join(
            ["Method", "Exemplars", *[r"$\bar{\mathcal{A}}$", r"$\mathcal{A}_B$"] * len(settings)]
        )
        + r" \\",
        r"\midrule",
    ]
    for label in _ordered_labels(settings):
        found = [
            next((entry for entry in setting.entries if entry.label == label), None)
            for setting in settings
        ]
        kept = any(entry.number("exemplars") for entry in found if entry)
        cells = [
            _latex_cell(entry, setting, key)
            for entry, setting in zip(found, settings, strict=True)
            for key in ("average", "last")
        ]
        lines.append(
            " & ".join([_plain_latex(label), r"$\checkmark$" if kept else "", *cells]) + r" \\"
        )
        theirs = [
            entry.paper(key) if entry else None for entry in found for key in ("average", "last")
        ]
        if any(theirs):
            below = [rf"\small {pair[0]:.2f} (${pair[1]:+.2f}$)" if pair else "" for pair in theirs]
            lines.append(" & ".join([r"\quad\small published", "", *below]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _ordered_labels(settings: Sequence[Setting]) -> list[str]:
    return list(dict.fromkeys(entry.label for setting in settings for entry in ordered(setting)))


def _latex_cell(entry: Entry | None, setting: Setting, key: str) -> str:
    if entry is None:
        return "--"
    text = with_deviation(entry.value(key), len(entry.records)).replace(" ± ", r"\,$\pm$\,")
    return rf"\textbf{{{text}}}" if getattr(entry, key) == setting.best(key) else text


def _plain_latex(text: str) -> str:
    r"""Text that LaTeX shows as it is.

    >>> _plain_latex("50% a_b")
    '50\\% a\\_b'
    """
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(
        r"[\\~^&%$#_{}]", lambda found: words.get(found[0], "\\" + found[0]), " ".join(text.split())
    )


def _csv_row(entry: Entry, setting: Setting) -> dict[str, Value]:
    first = setting.first
    row: dict[str, Value] = {
        name: first.get(name) for name in ("data", "encoder", "protocol", "order_seed")
    }
    row |= {"method": entry.label, "seeds": len(entry.records)}
    for key in ("average", "last", "forgetting", "backward_transfer", "seconds"):
        row[key], row[f"{key}_deviation"] = entry.value(key) or (None, None)
    for key in ("average", "last"):
        row[f"{key}_published"], row[f"{key}_difference"] = entry.paper(key) or (None, None)
    for key in ("exemplars", "trainable_parameters", "total_parameters", "inference_parameters"):
        row[key] = entry.number(key)
    row["bytes_per_class"] = entry.bytes_per_class
    row["source"] = entry.published.source if entry.published else None
    return row
