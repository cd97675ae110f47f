"""Records in order: which of them compare, and which are the same but for the seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any

from proof.paper import Published, published
from proof.runs import Record, mean_and_deviation

Curve = list[float | None]


@dataclass(frozen=True)
class Entry:
    """A method in a setting: its runs, which differ in the seed alone."""

    label: str  # the method, and what tells it from others of that name
    records: list[Record]
    published: Published | None  # what the paper has of it

    @property
    def average(self) -> float:
        """The paper's A-bar, as a mean over the seeds."""
        return fmean(record["average"] for record in self.records)

    @property
    def last(self) -> float:
        """The accuracy after the last task, as a mean over the seeds."""
        return fmean(record["last"] for record in self.records)

    def value(self, key: str) -> tuple[float, float] | None:
        """Mean and deviation over the seeds; None where a record does not have it."""
        values = [record.get(key) for record in self.records]
        known = [float(value) for value in values if value is not None]
        return mean_and_deviation(known) if len(known) == len(values) else None

    def number(self, key: str) -> int | None:
        """A count that no seed changes."""
        value: int | None = self.records[0].get(key)
        return value

    def curve(self, *path: str) -> Curve:
        """A list of one number a task, as a mean over the seeds; empty where there is none."""
        return mean_curve([_at(record, path) for record in self.records])


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
    def seeds(self) -> int:
        """The most seeds that a method was run with."""
        return max(len(entry.records) for entry in self.entries)

    def ranked(self) -> list[Entry]:
        """Best first, by the average accuracy."""
        return sorted(self.entries, key=lambda entry: -entry.average)


def settings_of(records: Iterable[Record]) -> list[Setting]:
    """Records by the stream that they were made on, in the order in which they come."""
    streams: dict[str, list[Record]] = {}
    for record in records:
        streams.setdefault(json.dumps(_stream(record)), []).append(record)
    titles = _titles([runs[0] for runs in streams.values()])
    return [
        Setting(title, _entries(runs)) for title, runs in zip(titles, streams.values(), strict=True)
    ]


def labels_of(settings: Iterable[Setting]) -> list[str]:
    """All methods of a report, each once."""
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


def _at(record: Record, path: Sequence[str]) -> Any:
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _stream(record: Record) -> dict[str, Any]:
    names = ("data", "fingerprint", "encoder", "protocol", "sizes", "order_seed")
    return {name: record.get(name) for name in names}


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
    }


def _differing(facts: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """Those of the facts in which the others are not all alike."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in facts.items()
        if any(other.get(name) != value for other in others)
    )
