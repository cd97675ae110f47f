"""The parts of the page that are words and tables; the figures are drawn in the browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from proof.reports.cells import (
    accuracy_cell,
    breakable,
    heading,
    mean_cell,
    method_row,
    number_cell,
    table,
)
from proof.reports.confusions import confusions
from proof.reports.groups import Entry, Setting
from proof.reports.html import Html, join, tag


def finding(settings: Sequence[Setting]) -> Html:
    """What the page says, in a sentence."""
    if len(settings) > 1:
        wins = Counter(setting.entries[0].label for setting in settings)
        label, count = wins.most_common(1)[0]
        streams = f"on {count} of {len(settings)} streams."
        return join(tag("b", label), f" has the highest average accuracy {streams}")
    best, *others = settings[0].entries
    told = join(
        tag("b", best.label),
        f" reaches {best.average:.1f} % on average over the tasks and {best.last:.1f} % after the "
        "last one",
    )
    if not others:
        return join(told, ".")
    above = best.average - others[0].average
    return join(told, f", {above:.1f} points of average above ", tag("b", others[0].label), ".")


def overview(settings: Sequence[Setting], labels: Sequence[str]) -> Html:
    """All methods on all settings."""
    groups = [
        tag("th", tag("a", s.title, href=f"#s{i}"), colspan=2, scope="colgroup", class_="group")
        for i, s in enumerate(settings)
    ]
    headings = [heading("method", 0, text=True)]
    for i in range(len(settings)):
        order = None if i else "descending"
        headings.append(heading("average", 2 * i + 1, starts=True, order=order))
        headings.append(heading("last", 2 * i + 2))
    rows = []
    for m, label in enumerate(labels):
        cells = []
        for setting in settings:
            entry = setting.entry(label)
            cells.append(accuracy_cell(entry, setting, "average", starts=True))
            cells.append(accuracy_cell(entry, setting, "last"))
        rows.append(method_row(m, label, cells))
    return tag(
        "section",
        tag("h2", "All streams"),
        how(
            "Accuracy in %: average over the tasks, and after the last one; the best of a column "
            "is bold. A heading sorts, the name of a stream leads to its details."
        ),
        table([tag("tr", tag("td"), groups), tag("tr", headings)], rows, "All streams"),
        class_="all",
    )


def article(setting: Setting, index: int, labels: Sequence[str], places: Mapping[str, int]) -> Html:
    """All about one setting. `places` are those of classes in the page's list of pictures."""
    first = setting.first
    about = f"{setting.tasks}; order seed {first['order_seed']}."
    if first.get("encoder"):
        about += f" Encoder: {first['encoder']}."
    return tag(
        "article",
        tag("h2", setting.title),
        tag("p", about, class_="facts"),
        _accuracy(setting, labels),
        [
            _figure(
                kind, index, title, text, _numbers(setting, labels) if kind == "curves" else None
            )
            for kind, title, text in _figures(setting)
        ],
        confusions(setting, places),
        id=f"s{index}",
    )


def runs(settings: Sequence[Setting]) -> Html:
    """Every record, with what it takes to run it again."""
    headings = (
        "method",
        "stream",
        "seed",
        "average",
        "last",
        "exemplars",
        "device",
        "proof",
        "key",
    )
    rows = [
        tag(
            "tr",
            tag("th", tag("span", breakable(entry.label), class_="label"), scope="row"),
            [
                tag("td", text)
                for text in (
                    setting.title,
                    str(record["seed"]),
                    f"{record['average']:.2f}",
                    f"{record['last']:.2f}",
                    record["exemplar_budget"],
                    record.get("device"),
                    (record.get("versions") or {}).get("proof"),
                    record.get("key"),
                )
            ],
        )
        for setting in settings
        for entry in setting.entries
        for record in entry.records
    ]
    head = tag("tr", [tag("th", name, scope="col") for name in headings])
    return tag(
        "section",
        tag("h2", "The runs"),
        how("What the page was made from; the key stands for all that decides a result."),
        tag("details", tag("summary", f"{len(rows)} runs"), table([head], rows, "The runs")),
        class_="runs",
    )


def how(text: str) -> Html:
    """How to read what follows."""
    return tag("p", text, class_="how")


def _accuracy(setting: Setting, labels: Sequence[str]) -> Html:
    paper = any(entry.published for entry in setting.entries)
    beside = ["published", "difference"] if paper else []
    names = ["average", *beside, "last", *beside, "forgetting", "exemplars", "trained", "seconds"]
    headings = [heading("method", 0, text=True)]
    headings += [
        heading(
            name,
            column,
            starts=name in ("average", "last", "forgetting"),
            order="descending" if column == 1 else None,
        )
        for column, name in enumerate(names, 1)
    ]
    rows = [
        method_row(labels.index(entry.label), entry.label, _accuracy_cells(entry, setting, paper))
        for entry in setting.entries
    ]
    over = f" with the standard deviation over {setting.seeds} seeds" if setting.seeds > 1 else ""
    return tag(
        "section",
        tag("h3", "Accuracy"),
        how(
            f"In %{over}: average over the tasks, and after the last; the best is bold. "
            + ("Difference is ours minus what was published. " if paper else "")
            + "Trained are the numbers that change while a task is learned. A heading sorts."
        ),
        table([tag("tr", headings)], rows, f"Accuracy on {setting.title}"),
        [tag("p", f"Published: {source}.", class_="note") for source in setting.sources()],
    )


def _accuracy_cells(entry: Entry, setting: Setting, paper: bool) -> Iterable[Html]:
    for key in ("average", "last"):
        yield accuracy_cell(entry, setting, key, starts=True, deviation=True)
        if paper:
            theirs, difference = entry.paper(key) or (None, None)
            yield number_cell(theirs)
            yield number_cell(difference, signed=True)
    yield mean_cell(entry, "forgetting", starts=True)
    for key in ("exemplars", "trainable_parameters"):
        yield number_cell(entry.number(key))
    yield mean_cell(entry, "seconds", digits=1)


def _numbers(setting: Setting, labels: Sequence[str]) -> Html:
    """The curves as a table, for those who read numbers or hear them."""
    seen = [tag("th", str(count), scope="col") for count in setting.classes_seen]
    rows = [
        method_row(
            labels.index(entry.label),
            entry.label,
            [number_cell(value, digits=1) for value in entry.curve("curve")],
        )
        for entry in setting.entries
    ]
    label = f"Accuracy after each task on {setting.title}"
    head = tag("tr", tag("th", "classes", scope="col"), seen)
    return tag("details", tag("summary", "The numbers"), table([head], rows, label))


def _figures(setting: Setting) -> Iterable[tuple[str, str, str]]:
    """Which figures there are, with a title and how to read them."""
    bands = " Bands are one standard deviation." if setting.seeds > 1 else ""
    yield (
        "curves",
        "Accuracy while classes arrive",
        "Higher is better: accuracy in % on all classes seen so far, after each task. The number "
        f"in brackets is how far the best ends above the second.{bands}",
    )
    if setting.has("accuracy_matrix"):
        if len(setting.classes_seen) > 1:
            yield (
                "forgetting",
                "Forgetting",
                "Lower is better: how many points the tasks learned before have lost since their "
                "best.",
            )
        yield (
            "matrices",
            "Each task after each task",
            "A row is the state after a task, a column the classes of one task: reading down a "
            "column shows how a task fares as others follow.",
        )
    if setting.zero_shot:
        score = (
            " The matching score is the mean cosine, times 100, of pictures and texts from outside "
            "the stream that belong together; CLIP's own is that of zero-shot."
        )
        yield (
            "zero_shot",
            "Zero-shot ability",
            "After each task every test picture is sorted among all classes of the stream, those "
            "to come by name alone; higher is better."
            + (score if "matching" in setting.zero_shot else ""),
        )
    if setting.has("total_parameters"):
        yield (
            "parameters",
            "What is kept",
            "Numbers that a method holds beside the frozen encoder after the last task: solid is "
            "needed to predict, shaded only while learning goes on. Bytes a class count the "
            "exemplars." + (" The scale is logarithmic." if setting.kept_from else ""),
        )
    devices = dict.fromkeys(
        str(record.get("device") or "an unknown device")
        for entry in setting.entries
        for record in entry.records
    )
    yield (
        "seconds",
        "Accuracy against time",
        "Up and to the left is better: average accuracy in % over the seconds of a whole run with "
        f"its measuring, on {' and '.join(devices)}.",
    )


def _figure(kind: str, index: int, title: str, text: str, more: Html | None) -> Html:
    plot = tag("div", class_="plot", data_figure=kind, data_setting=index)
    return tag("section", tag("h3", title), how(text), tag("figure", plot), more)
