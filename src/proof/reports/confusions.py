"""Which classes are mixed up, in words: a part of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proof.reports.cells import breakable
from proof.reports.groups import Entry, Setting
from proof.reports.html import Content, Html, join, tag

_MOST = 10  # lines of a list
_PAIRS = {
    "confusions": ("Mixed up most", ("shown", "taken for", "pictures")),
    "taken": ("Taken by a later class", ("old class", "later class", "pictures")),
}


def shown_classes(setting: Setting) -> list[str]:
    """The classes that the lists name, in order."""
    names = (
        name
        for entry in _entries(setting)
        for names in (*(pair[:2] for pair in _pairs(entry)), [name for name, _ in _worst(entry)])
        for name in names
    )
    return sorted(set(names))


def confusions(setting: Setting, places: Mapping[str, int]) -> Html | None:
    """For each method the pairs mixed up most, what later classes took, and the worst classes.
    `places` are those of classes in the page's list of pictures."""
    entries = _entries(setting)
    if not entries:
        return None
    return tag(
        "section",
        tag("h3", "What is mixed up"),
        tag(
            "p",
            "After the last task, in test pictures (a mean over the seeds). A later class took a "
            "picture if without the later classes it would be right.",
            class_="how",
        ),
        [
            tag(
                "details",
                tag("summary", breakable(entry.label), class_="method"),
                tag("div", _lists(entry, places), class_="lists"),
                open="" if entry is entries[0] else None,
            )
            for entry in entries
        ],
    )


def _entries(setting: Setting) -> list[Entry]:
    return [entry for entry in setting.entries if entry.records[0].get("class_accuracy")]


def _worst(entry: Entry) -> list[tuple[str, float]]:
    return sorted(entry.class_accuracy().items(), key=lambda item: item[1])[:_MOST]


def _pairs(entry: Entry) -> list[tuple[str, str, float]]:
    return [pair for key in _PAIRS for pair in entry.pairs(key)[:_MOST]]


def _lists(entry: Entry, places: Mapping[str, int]) -> list[Html]:
    task = entry.task_of()

    def named(name: str) -> Html:
        words = join(name, " ", tag("span", f"task {task[name]}", class_="minor"))
        if name not in places:
            return words
        picture = tag("img", data_p=places[name], alt="", width=40, height=40)
        return tag("span", picture, tag("span", words), class_="pictured")

    digits = 1 if len(entry.records) > 1 else 0
    lists = []
    for key, (title, headings) in _PAIRS.items():
        pairs = entry.pairs(key)[:_MOST]
        rows = [[named(a), named(b), f"{count:.{digits}f}"] for a, b, count in pairs]
        if rows:
            lists.append(_list(title, headings, rows))
    rows = [[named(name), f"{value:.1f}"] for name, value in _worst(entry)]
    return [*lists, _list("Worst classes", ("class", "accuracy in %"), rows)]


def _list(title: str, headings: Sequence[str], rows: Sequence[Sequence[Content]]) -> Html:
    def line(name: str, cells: Sequence[Content], **more: str) -> Html:
        last = len(cells) - 1  # a number; the others are names
        return tag(
            "tr",
            [
                tag(name, content, class_="text" if place < last else None, **more)
                for place, content in enumerate(cells)
            ],
        )

    head, body = line("th", headings, scope="col"), [line("td", row) for row in rows]
    return tag("div", tag("h4", title), tag("table", tag("thead", head), tag("tbody", body)))
