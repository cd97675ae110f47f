"""`proof cache`: what is kept, how large it is, and how to be rid of it."""

from __future__ import annotations

import math
import re
import time
from typing import Annotated

import typer

from proof.errors import ProofError
from proof.reports.formats import size_text

app = typer.Typer()  # its help is that of `show`, with the examples
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@app.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """Show the cache of embeddings, and remove from it.

    Examples:

      proof cache

      proof cache prune --unused-for 90

      proof cache prune --max-size 10GB

      proof cache clear
    """
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table

    from proof.cache import Cache

    cache = Cache()
    spaces = cache.spaces()
    table = Table(title=f"{cache.root}, {size_text(cache.size())}", title_justify="left")
    for name in ("encoder", "weights", "content"):
        table.add_column(name)
    for name in ("embeddings", "size", "used"):
        table.add_column(name, justify="right")
    for space in reversed(spaces):
        table.add_row(
            space.encoder,
            space.fingerprint[:8],
            space.content,
            f"{space.rows:,}",
            size_text(space.bytes),
            _ago(space.used),
        )
    if spaces:
        Console().print(table)
    else:
        print(f"{cache.root} holds no embeddings, {size_text(cache.size())}")


@app.command()
def prune(
    unused_for: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Remove what was not used for so long."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(help="Remove the longest unused until so much is left: 500MB, 10GB."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Remove what this encoder made (name or weights).")
    ] = None,
) -> None:
    """Remove a part of the cache. What is removed is encoded anew when it is needed.

    Example:

      proof cache prune --unused-for 90
    """
    from proof.cache import Cache

    if unused_for is None and max_size is None and encoder is None:
        raise ProofError("prune what? Give --unused-for DAYS, --max-size SIZE or --encoder NAME")
    if unused_for is not None and math.isnan(unused_for):
        raise ProofError("--unused-for nan: expected a number of days")
    limit = _bytes(max_size) if max_size is not None else None
    cache = Cache()
    spaces = cache.spaces()
    gone = []
    if encoder is not None:
        gone = [
            space
            for space in spaces
            if space.encoder == encoder
            or (len(encoder) >= 8 and space.fingerprint.startswith(encoder))
        ]
        if not gone:
            known = ", ".join(sorted({space.encoder for space in spaces})) or "none"
            raise ProofError(f"--encoder '{encoder}': not in the cache, which has {known}")
    if unused_for is not None:
        gone += [space for space in spaces if time.time() - space.used > unused_for * 86400]
    if limit is not None:
        left = sum(space.bytes for space in spaces if space not in gone)
        for space in (space for space in spaces if space not in gone):
            if left <= limit:
                break
            gone.append(space)
            left -= space.bytes
    gone = list(dict.fromkeys(gone))
    cache.remove(gone)
    cache.sweep()
    rows = sum(space.rows for space in gone)
    print(f"removed {rows:,} embeddings, {size_text(sum(space.bytes for space in gone))}")


@app.command()
def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove all of the cache.

    Example:

      proof cache clear --yes
    """
    from proof.cache import Cache

    cache = Cache()
    size = size_text(cache.size())
    if not yes:
        typer.confirm(f"remove {size} from {cache.root}?", abort=True)
    cache.clear()
    print(f"removed {size}")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not match:
        raise ProofError(f"--max-size {text}: expected a size such as 500MB or 10GB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _ago(when: float) -> str:
    seconds = max(0.0, time.time() - when)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "now"
