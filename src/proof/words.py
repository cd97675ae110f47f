"""Counts and names in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 5  # names that a line holds


def some(names: Sequence[str]) -> str:
    """The first few of many names.

    >>> some(list("abcdefg"))
    'a, b, c, d, e and 2 more'
    """
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def quoted(names: Sequence[str]) -> str:
    """The same, each in quotes, for a message.

    >>> quoted(["cup", "moka pot"])
    "'cup', 'moka pot'"
    """
    return some([f"'{name}'" for name in names]) or "none yet"


def many(count: int, what: str) -> str:
    """
    >>> many(1, "picture"), many(2000, "class")
    ('1 picture', '2,000 classes')
    """
    ending = "es" if what.endswith("s") else "s"
    return f"{count:,} {what}{'' if count == 1 else ending}"
