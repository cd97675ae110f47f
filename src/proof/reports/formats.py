"""A table as text: Markdown, CSV or JSON. A value is a text, a number, yes or no, or nothing."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

Value = str | float | bool | None


def cell(value: Value) -> str:
    """A value as a person reads it.

    >>> [cell(value) for value in (79.1, 3, True, None, "proof")]
    ['79.10', '3', 'yes', '', 'proof']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def number_columns(rows: Sequence[Mapping[str, Value]]) -> dict[str, bool]:
    """The headings, and whether numbers stand below them.

    >>> number_columns([{"method": "proof", "last": 79.05, "exemplars": True}])
    {'method': False, 'last': True, 'exemplars': False}
    """
    return {
        heading: any(
            isinstance(row[heading], int | float) and not isinstance(row[heading], bool)
            for row in rows
        )
        for heading in rows[0]
    }


def markdown(rows: Sequence[Mapping[str, Value]]) -> str:
    """Rows as a Markdown table; numbers to the right.

    >>> print(markdown([{"method": "proof", "last": 79.05}]), end="")
    | method | last |
    |---|---:|
    | proof | 79.05 |
    """
    columns = number_columns(rows)
    rule = f"|{'|'.join('---:' if numbers else '---' for numbers in columns.values())}|"
    first, *rest = (
        f"| {' | '.join(line)} |" for line in (columns, *(map(cell, row.values()) for row in rows))
    )
    return "".join(f"{line}\n" for line in (first, rule, *rest))


def csv_text(rows: Sequence[Mapping[str, Value]]) -> str:
    """Rows as CSV with a heading.

    >>> print(csv_text([{"method": "proof", "last": 79.05}]), end="")
    method,last
    proof,79.05
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def json_text(rows: Sequence[Mapping[str, Value]]) -> str:
    """Rows as a JSON list of objects.

    >>> print(json_text([{"method": "proof", "last": 79.05}]), end="")
    [
     {
      "method": "proof",
      "last": 79.05
     }
    ]
    """
    return json.dumps(rows, indent=1) + "\n"
