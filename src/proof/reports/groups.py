"""Records in order: which of them compare, and which are the same but for the seed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any

from proof.metrics import forgetting
from proof.paper import Published, published
from proof.runs import Record, mean_and_deviation

Curve = list[float | None]
_ZERO_SHOT = {
    "seen": "Seen classes",
    "unseen": "Unseen classes",
    "harmonic": "Harmonic mean of both",
    "matching": "Matching score",
}


@dataclass(frozen=True)
class Entry:
    """A method in a setting: its runs, which differ in the seed alone."""

    label: str  # the method, and what tells it from others of that name
    records: list[Record]
    published: Published | None  # what the paper has of it

    @property
    def average(self) -> float:
        """The paper's A-bar, as a mean over the seeds."""
        return self._mean("average")

    @property
    def last(self) -> float:
        """The accuracy after the last task, as a mean over the seeds."""
        return self._mean("last")

    def _mean(self, key: str) -> float:
        return fmean(record[key] for record in self.records)

    def value(self, key: str) -> tuple[float, float] | None:
        """Mean and deviation over the seeds; None where a record does not have it."""
        if any(record.get(key) is None for record in self.records):
            return None
        return self._mean(key), mean_and_deviation([record[key] for record in self.records])[1]

    def paper(self, key: str) -> tuple[float, float] | None:
        """The published `average` or `last`, and how far ours is above it."""
        if self.published is None:
            return None
        theirs: float = getattr(self.published, key)
        return theirs, self._mean(key) - theirs

    def is_best(self, key: str, setting: Setting) -> bool:
        """Whether no method of the setting has a higher mean of `average` or `last`."""
        return self._mean(key) == max(entry._mean(key) for entry in setting.entries)

    def number(self, key: str) -> int | None:
        """A count that no seed changes."""
        value: int | None = self.records[0].get(key)
        return value

    @property
    def bytes_per_class(self) -> int | None:
        """What is kept for each class: all that was learned, and the exemplars."""
        kept = self.number("kept_bytes")
        return None if kept is None else round(kept / sum(self.records[0]["sizes"]))

    def curve(self, *path: str) -> Curve:
        """A list of one number a task, as a mean over the seeds; empty where there is none."""
        return mean_curve([_at(record, path) for record in self.records])

    def deviations(self, key: str) -> list[float]:
        """The standard deviation of a curve over the seeds, after each task."""
        columns = zip(*(record[key] for record in self.records), strict=True)
        return [mean_and_deviation(column)[1] for column in columns]

    def matrix(self) -> list[list[float]]:
        """The accuracy on each task after each task, as a mean over the seeds."""
        matrices = [record.get("accuracy_matrix") or [] for record in self.records]
        return [
            [fmean(column) for column in zip(*rows, strict=True)]
            for rows in zip(*matrices, strict=True)
        ]

    def forgetting(self) -> Curve:
        """Forgetting after each task; there is none after the first."""
        matrices = [record.get("accuracy_matrix") or [] for record in self.records]
        after = range(2, len(matrices[0]) + 1)
        return [None, *(fmean(forgetting(matrix[:b]) for matrix in matrices) for b in after)]

    def class_accuracy(self) -> dict[str, float]:
        """The accuracy on each class that has test pictures, after the last task."""
        first: dict[str, float | None] = self.records[0].get("class_accuracy") or {}
        values = {name: [run["class_accuracy"][name] for run in self.records] for name in first}
        return {name: fmean(known) for name, known in values.items() if None not in known}

    def task_of(self) -> dict[str, int]:
        """The task that brought each class, counted from 1."""
        record = self.records[0]
        tasks = (task for task, size in enumerate(record["sizes"], 1) for _ in range(size))
        return dict(zip(record["class_accuracy"], tasks, strict=True))

    def pairs(self, key: str) -> list[tuple[str, str, float]]:
        """The pairs of classes of `confusions` or `taken`, with their pictures as a mean over the
        seeds, most first."""
        counts: Counter[tuple[str, str]] = Counter()
        for record in self.records:
            for shown, instead, pictures in record.get(key) or []:
                counts[shown, instead] += pictures
        return [(a, b, count / len(self.records)) for (a, b), count in counts.most_common()]


@dataclass(frozen=True)
class Setting:
    """A stream of classes, and what was run on it."""

    title: str
    entries: list[Entry]

    @property
    def first(self) -> Record:
        """One of its records, for what they all have in common."""
        return self.entries[0].records[0]

    @property
    def classes_seen(self) -> list[int]:
        """How many classes were known after each task."""
        return list(accumulate(self.first["sizes"]))

    @property
    def kept_from(self) -> float:
        """Where the scale of what methods keep begins: at 0, or at a power of ten, from where it is
        logarithmic, because some keep a hundred times as much as others."""
        keys = ("inference_parameters", "total_parameters")
        least, most = ([entry.number(key) or 1 for entry in self.entries] for key in keys)
        return 0.0 if max(most) <= 100 * min(least) else 10.0 ** math.floor(math.log10(min(least)))

    @property
    def mean_of(self) -> str:
        """What a title adds where numbers are means."""
        return f", mean and standard deviation of {self.seeds} seeds" if self.seeds > 1 else ""

    @property
    def seeds(self) -> int:
        """The most seeds that a method was run with."""
        return max(len(entry.records) for entry in self.entries)

    @property
    def zero_shot(self) -> dict[str, str]:
        """What its records have after each task in the zero-shot protocol, by key: its title."""
        found = dict.fromkeys(
            key
            for entry in self.entries
            for key in entry.records[0].get("zero_shot") or {}
            if any(value is not None for value in entry.curve("zero_shot", key))
        )
        return {key: _ZERO_SHOT.get(key, key.replace("_", " ").capitalize()) for key in found}

    def has(self, key: str) -> bool:
        """Whether all its records have something; old ones have less."""
        return all(key in record for entry in self.entries for record in entry.records)

    def entry(self, label: str) -> Entry | None:
        """A method by its label, if it was run here."""
        return next((entry for entry in self.entries if entry.label == label), None)

    def sources(self) -> list[str]:
        """Where the published values are from; said too where they stand behind other pictures."""
        ours = self.first.get("encoder")
        found = dict.fromkeys(entry.published for entry in self.entries if entry.published)
        return list(
            dict.fromkeys(
                f"{paper.source}; encoder {paper.encoder}"
                + ("" if paper.encoder == ours else f", where these runs have {ours or 'another'}")
                for paper in found
            )
        )

    @property
    def tasks(self) -> str:
        """Its tasks in words."""
        sizes = self.first["sizes"]
        whole = f"{sum(sizes)} classes in {len(sizes)} tasks"
        if len(set(sizes)) == 1:
            return f"{whole} of {sizes[0]}"
        if len(set(sizes[1:])) == 1:
            return f"{whole}: {sizes[0]}, then {sizes[1]} each"
        return f"{whole}: {', '.join(map(str, sizes))}"


def settings_of(records: Iterable[Record]) -> list[Setting]:
    """Records by the stream that they were made on, in the order in which they come."""
    streams: dict[str, list[Record]] = {}
    for record in records:
        streams.setdefault(json.dumps(_stream(record)), []).append(record)
    titles = _titles([runs[0] for runs in streams.values()])
    return [
        Setting(title, _entries(runs)) for title, runs in zip(titles, streams.values(), strict=True)
    ]


def in_order(settings: Iterable[Setting]) -> list[Setting]:
    """The same settings by their titles, their methods by average accuracy, best first."""
    return [
        Setting(setting.title, sorted(setting.entries, key=lambda entry: -entry.average))
        for setting in sorted(settings, key=lambda setting: _natural(setting.title))
    ]


def labels_of(settings: Iterable[Setting]) -> list[str]:
    """All methods, each once, in the order in which they come."""
    return list(dict.fromkeys(entry.label for setting in settings for entry in setting.entries))


def mean_curve(curves: Sequence[Sequence[float | None] | None]) -> Curve:
    """The mean after each task of several curves; None where one of them has no value.

    >>> mean_curve([[90.0, 80.0, None], [92.0, 81.0, None]])
    [91.0, 80.5, None]
    """
    if not all(curves):
        return []
    columns = zip(*(curve for curve in curves if curve), strict=True)
    means: Curve = []
    for column in columns:
        known = [value for value in column if value is not None]
        means.append(sum(known) / len(known) if len(known) == len(column) else None)
    return means


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts B0, B50, B100."""
    return [(int(part or 0), rest) for part, rest in re.findall(r"(\d*)(\D*)", text)]


def _at(record: Record, path: Sequence[str]) -> Any:
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _stream(record: Record) -> dict[str, Any]:
    names = ("data", "fingerprint", "encoder", "protocol", "sizes", "order_seed")
    return {name: record.get(name, "unknown") for name in names}


def _titles(records: Sequence[Record]) -> list[str]:
    """Data and protocol; where that is not enough, also what else differs."""
    short = [f"{record['data']}, {record['protocol']}" for record in records]
    titles = []
    for title, record in zip(short, records, strict=True):
        same = [_stream(other) for other, name in zip(records, short, strict=True) if name == title]
        more = _differing(_stream(record), same)
        titles.append(f"{title} ({more})" if more else title)
    return titles


def _entries(records: Sequence[Record]) -> list[Entry]:
    """The methods of one setting, in the order in which they come."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        variant = json.dumps(_variant(record), sort_keys=True)
        groups.setdefault((record["method"], variant), []).append(record)
    entries = []
    for (method, _), runs in groups.items():
        variants = [_variant(other[0]) for (name, _), other in groups.items() if name == method]
        more = _differing(_variant(runs[0]), variants)
        paper = published(runs[0]["data"], runs[0]["protocol"], method)
        runs.sort(key=lambda run: run["seed"])
        entries.append(Entry(f"{method} ({more})" if more else method, runs, paper))
    return entries


def _variant(record: Record) -> dict[str, Any]:
    """What makes two runs of a method more than two seeds of the same."""
    return {
        **record["options"],
        "exemplars": record["exemplar_budget"],
        "device": str(record.get("device")).partition(",")[0],
        "proof": (record.get("versions") or {}).get("proof"),
        "pairs": record.get("pairs"),
    }


def _differing(facts: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """Those of the facts in which the others are not all alike."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in facts.items()
        if any(other.get(name) != value for other in others)
    )
