"""The tables of a report as text: Markdown, LaTeX like the paper's, and CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proof.reports.formats import Value, csv_text
from proof.reports.formats import markdown as markdown_table
from proof.reports.groups import Entry, Setting, labels_of
from proof.reports.tables import with_deviation

_ACROSS = 3  # settings side by side in LaTeX, as in the paper
_KEYS = ("average", "last")


def markdown(settings: Sequence[Setting]) -> str:
    """A table of all settings where there are several, then one for each of them."""
    parts = []
    if len(settings) > 1:
        parts.append("## All streams\n\nAverage / last accuracy in %.\n\n" + _overview(settings))
    for setting in settings:
        about = f"{setting.tasks}, order seed {setting.first['order_seed']}"
        if setting.seeds > 1:
            about += f", mean ± standard deviation of {setting.seeds} seeds"
        if setting.first.get("encoder"):
            about += f", encoder {plain_markdown(setting.first['encoder'])}"
        paper = any(entry.published for entry in setting.entries)
        table = markdown_table([markdown_row(entry, setting, paper) for entry in _ordered(setting)])
        notes = "".join(f"\nPublished: {plain_markdown(source)}.\n" for source in setting.sources())
        parts.append(f"## {plain_markdown(setting.title)}\n\n{about}.\n\n{table}{notes}")
    return "\n".join(parts)


def latex(settings: Sequence[Setting]) -> str:
    """A table as in the paper: a line for each method, two columns for each setting, below it what
    was published with the difference."""
    blocks = (settings[at : at + _ACROSS] for at in range(0, len(settings), _ACROSS))
    lines = (line for block in blocks for line in _latex_block(block))
    return "".join(f"{line}\n" for line in ("% Needs the packages booktabs and amssymb.", *lines))


def csv(settings: Sequence[Setting]) -> str:
    """A line for each method of each setting, with all there is to compute with."""
    return csv_text(
        [csv_row(entry, setting) for setting in settings for entry in _ordered(setting)]
    )


def _ordered(setting: Setting) -> list[Entry]:
    """As in the paper: those without exemplars, then those with; the best last."""
    return sorted(
        setting.entries, key=lambda entry: (bool(entry.number("exemplars")), entry.average)
    )


def _overview(settings: Sequence[Setting]) -> str:
    rows: list[dict[str, Value]] = []
    for label in labels_of(settings):
        row: dict[str, Value] = {"method": plain_markdown(label)}
        for setting in settings:
            values = []
            if entry := setting.entry(label):
                means = {key: f"{getattr(entry, key):.2f}" for key in _KEYS}
                values = [_bold(text, entry, setting, key) for key, text in means.items()]
            row[plain_markdown(setting.title)] = " / ".join(values)
        rows.append(row)
    return markdown_table(rows)


def markdown_row(entry: Entry, setting: Setting, paper: bool) -> dict[str, Value]:
    """What a method reached; the best of the setting is bold, `paper` also tells what was
    published."""
    seeds = len(entry.records)
    row: dict[str, Value] = {
        "method": plain_markdown(entry.label),
        "exemplars": entry.number("exemplars"),
    }
    for key in _KEYS:
        row[key] = _bold(with_deviation(entry.value(key), seeds), entry, setting, key)
        if paper:
            theirs = entry.paper(key)
            row[f"{key}, published"] = f"{theirs[0]:.2f} ({theirs[1]:+.2f})" if theirs else ""
    row["forgetting"] = with_deviation(entry.value("forgetting"), seeds)
    row["seconds"] = with_deviation(entry.value("seconds"), seeds, digits=1)
    return row


def _bold(text: str, entry: Entry, setting: Setting, key: str) -> str:
    return f"**{text}**" if entry.is_best(key, setting) else text


def plain_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(plain_markdown("a|b <i>"))
    a\|b \<i\>
    """
    return re.sub(r"([\\`*_{}\[\]<>|#&~!])", r"\\\1", " ".join(text.split()))


def _latex_block(settings: Sequence[Setting]) -> Iterator[str]:
    """Up to three settings side by side."""
    titles = (rf"\multicolumn{{2}}{{c}}{{{_plain_latex(setting.title)}}}" for setting in settings)
    symbols = [r"$\bar{\mathcal{A}}$", r"$\mathcal{A}_B$"] * len(settings)
    yield rf"\begin{{tabular}}{{@{{}}lc{'rr' * len(settings)}@{{}}}}"
    yield r"\toprule"
    yield _latex_line("", "", *titles)
    yield _latex_line("Method", "Exemplars", *symbols)
    yield r"\midrule"
    ordered = (entry.label for setting in settings for entry in _ordered(setting))
    for label in dict.fromkeys(ordered):
        entries = [setting.entry(label) for setting in settings]
        kept = any(entry.number("exemplars") for entry in entries if entry)
        pairs = [(place, key) for place in range(len(settings)) for key in _KEYS]
        ours = (_latex_cell(entries[place], settings[place], key) for place, key in pairs)
        yield _latex_line(_plain_latex(label), r"$\checkmark$" if kept else "", *ours)
        theirs = [e.paper(key) if (e := entries[place]) else None for place, key in pairs]
        if any(theirs):
            below = (rf"\small {pair[0]:.2f} (${pair[1]:+.2f}$)" if pair else "" for pair in theirs)
            yield _latex_line(r"\quad\small published", "", *below)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _latex_line(*cells: str) -> str:
    return f"{' & '.join(cells)} \\\\"


def _latex_cell(entry: Entry | None, setting: Setting, key: str) -> str:
    if entry is None:
        return "--"
    text = with_deviation(entry.value(key), len(entry.records)).replace(" ± ", r"\,$\pm$\,")
    return rf"\textbf{{{text}}}" if entry.is_best(key, setting) else text


def _plain_latex(text: str) -> str:
    r"""Text that LaTeX shows as it is.

    >>> print(_plain_latex("50% a_b"))
    50\% a\_b
    """
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(
        r"[\\~^&%$#_{}]", lambda found: words.get(found[0], "\\" + found[0]), " ".join(text.split())
    )


def csv_row(entry: Entry, setting: Setting) -> dict[str, Value]:
    """What a method reached, with all there is to compute with."""
    first = setting.first
    row: dict[str, Value] = {
        name: first.get(name) for name in ("data", "encoder", "protocol", "order_seed")
    }
    row |= {"method": entry.label, "seeds": len(entry.records)}
    for key in (*_KEYS, "forgetting", "backward_transfer", "seconds"):
        row[key], row[f"{key}_deviation"] = entry.value(key) or (None, None)
    for key in _KEYS:
        row[f"{key}_published"], row[f"{key}_difference"] = entry.paper(key) or (None, None)
    for key in ("exemplars", "trainable_parameters", "total_parameters", "inference_parameters"):
        row[key] = entry.number(key)
    row["bytes_per_class"] = entry.bytes_per_class
    row["source"] = entry.published.source if entry.published else None
    return row
