"""A table as text: columns, Markdown, CSV, JSON. A value is text, a number, a truth or nothing."""

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


def aligned(rows: Sequence[Mapping[str, Value]]) -> str:
    """Rows as columns below their headings; numbers to the right.

    >>> print(aligned([{"method": "proof", "last": 79.05}, {"method": "simplecil", "last": 3}]))
    method      last
    proof      79.05
    simplecil      3
    """
    from rich.cells import cell_len  # some letters are two columns wide

    columns = number_columns(rows)
    cells = ([printable(cell(value)) for value in row.values()] for row in rows)
    lines = [list(columns), *cells]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    texts = []
    for line in lines:
        blanks = [" " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True)]
        padded = [
            blank + text if numbers else text + blank
            for text, blank, numbers in zip(line, blanks, columns.values(), strict=True)
        ]
        texts.append("  ".join(padded).rstrip())
    return "\n".join(texts)


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


def printable(text: str) -> str:
    """Control characters as their escapes: the name of a file or a class may hold any.

    >>> print(printable("cup\\x1b[31m"))
    cup\\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def size_text(count: float) -> str:
    """A number of bytes as a person reads it.

    >>> size_text(0), size_text(1_500), size_text(2_000_000_000)
    ('0 B', '1.5 kB', '2.0 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
