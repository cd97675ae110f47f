"""What the verbs that do runs share: options, how they are read, and the way through the grid."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proof.cli.display import Display
from proof.errors import ProofError

if TYPE_CHECKING:
    from proof.grid import Plan
    from proof.records import RecordStore
    from proof.runs import Record

Exemplars = Annotated[
    str, typer.Option(help="Pictures kept for rehearsal: 20/class, or 2000 in all.")
]
OrderSeed = Annotated[int, typer.Option(help="Shuffles the order of the classes.")]
Seeds = Annotated[str, typer.Option(help="Training seeds: 0,1,2 gives mean and deviation.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Runs at a time, each in a process of its own.",
        show_default="one for each core; one on a GPU, or where there are few runs",
    ),
]


def run_plans(
    plans: list[Plan],
    store: RecordStore | None,
    jobs: int | None,
    plugins: Sequence[Path],
    kept: str,
    track: Callable[[Record], None] | None = None,
) -> list[Record]:
    """Do all runs and show how they go on. What the store has is not run again. `kept` tells a user
    who interrupts them what there is."""
    from proof.grid import default_jobs, run_all

    for plan in plans:
        plan.run()  # a mistake in the last of them is told before the first
    with Display(plans, track) as display:
        try:
            return run_all(plans, display, store, jobs or default_jobs(plans), plugins)
        except KeyboardInterrupt:
            display.close()
            typer.echo(f"\ninterrupted; {kept}", err=True)
            raise typer.Exit(130) from None


def read_protocols(text: str | None) -> list[str | list[int]]:
    """One protocol or several; a comma may also stand inside of one: Base-0, Inc-10."""
    found = re.split(r"\s*,\s*(?=b)", text.strip(), flags=re.IGNORECASE) if text else []
    check_once(found, f"--protocol {text}")
    return list(found)


def read_list(text: str, option: str, kind: type[Any]) -> list[Any]:
    """What is separated by commas."""
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ProofError(f"{option} {text}: expected whole numbers separated by commas") from None
    if not values:
        raise ProofError(f"{option} '{text}': expected at least one value")
    if option != "--sizes":
        check_once(values, f"{option} {text}")
    return values


def check_once(values: Sequence[Any], given: str) -> None:
    """Refuse a value that was given twice."""
    if len(set(values)) != len(values):
        raise ProofError(f"{given}: the same value stands there twice")
