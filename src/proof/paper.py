"""What was published: every cell of the paper's tables, and the curves of the authors' code.

The numbers are in `data/paper.toml`. Methods, data sets and protocols are called as everywhere in
this package, so that our value can stand beside theirs.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Any

from proof.errors import ProofError


@dataclass(frozen=True)
class Published:
    """What is known of one method on one stream, in %."""

    average: float  # the mean of the curve, where there is one
    last: float
    curve: tuple[float, ...] | None  # after each task; the paper's tables have none
    exemplars: bool | None  # None: not said
    encoder: str
    source: str


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    data: str
    protocol: str
    method: str
    exemplars: bool | None
    values: dict[str, float]  # by column


@dataclass(frozen=True)
class Table:
    """A published table."""

    key: str
    title: str
    source: str
    encoder: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def select(
        self,
        data: Collection[str] = (),
        protocol: Collection[str] = (),
        method: Collection[str] = (),
    ) -> list[Row]:
        """The rows with one of the names given; all where none is given.

        A method may also be called as in the paper.

        >>> [row.values for row in table("main").select(["cub200"], method=["ZS-CLIP"])]
        [{'average': 74.38, 'last': 63.06}, {'average': 67.96, 'last': 63.06}]
        """
        rows, chosen = list(self.rows), f"table '{self.key}'"
        for what, names in (("data", data), ("protocol", protocol), ("method", method)):
            if names:
                there = list(dict.fromkeys(getattr(row, what) for row in rows))
                wanted = [_find(name, there, f"{chosen} has no {what}") for name in names]
                rows = [row for row in rows if getattr(row, what) in wanted]
                chosen += f", {what} {' or '.join(wanted)},"
        return rows


def published(data: str, protocol: str, method: str) -> Published | None:
    """What was published of a method on a stream; None where nothing was.

    Names are as in the record of a run. The logs of the authors' code stand under
    `proof-reference`.

    >>> paper = published(data="cifar100", protocol="B0-Inc10", method="proof")
    >>> paper.average, paper.last, paper.encoder
    (86.7, 79.05, 'ViT-B-16/laion400m_e32')
    >>> published("cifar100", "B0-Inc10", "proof-reference").curve[:3]
    (97.8, 93.7, 91.53)
    >>> published("photos", "B0-Inc10", "proof") is None
    True
    """
    for key in ("main", "varied", "curves"):
        found = table(key)
        for row in found.rows:
            if (row.data, row.protocol, row.method) == (data, protocol, method):
                curve = tuple(row.values.values()) if key == "curves" else None
                average = round(fmean(curve), 2) if curve else row.values["average"]
                last = curve[-1] if curve else row.values["last"]
                return Published(average, last, curve, row.exemplars, found.encoder, found.source)
    return None


def table(key: str) -> Table:
    """A table by its key.

    >>> table("varied").source
    'paper, tab:diff-cls-order: varying the number of classes per task'
    """
    return tables()[_find(key, tables(), "the paper has no table")]


@cache
def tables() -> dict[str, Table]:
    """All tables, by key.

    >>> list(tables())
    ['main', 'oracle', 'varied', 'retrieval', 'curves']
    """
    return {key: _table(key, **values) for key, values in _file().items() if key != "methods"}


def methods() -> dict[str, str]:
    """The methods, and what the paper calls them.

    >>> methods()["zero-shot"]
    'ZS-CLIP'
    """
    return dict(_file()["methods"])


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads((files("proof") / "data" / "paper.toml").read_text(encoding="utf-8"))


def _table(
    key: str,
    title: str,
    source: str,
    encoder: str,
    columns: list[str],
    figures: dict[str, dict[str, dict[str, list[float]]]],
    with_exemplars: Collection[str] = (),
    without_exemplars: Collection[str] = (),
) -> Table:
    """A table as it stands in the file."""
    exemplars = dict.fromkeys(with_exemplars, True) | dict.fromkeys(without_exemplars, False)
    rows = tuple(
        Row(
            data,
            protocol,
            method,
            exemplars.get(method),
            dict(zip(columns[: len(values)], values, strict=True)),
        )
        for data, protocols in figures.items()
        for protocol, lines in protocols.items()
        for method, values in lines.items()
    )
    return Table(key, title, source, encoder, tuple(columns), rows)


def _find(name: str, choices: Collection[str], problem: str) -> str:
    """The one of the choices that is meant, in our spelling or the paper's."""
    spelt = {_bare(spelling): here for here, spelling in methods().items() if here in choices}
    spelt |= {_bare(choice): choice for choice in choices}
    if _bare(name) in spelt:
        return spelt[_bare(name)]
    near = difflib.get_close_matches(_bare(name), spelt, n=1)
    hint = f"did you mean '{spelt[near[0]]}'? " if near else ""
    raise ProofError(f"{problem} '{name}': {hint}expected one of {', '.join(choices)}")


def _bare(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
