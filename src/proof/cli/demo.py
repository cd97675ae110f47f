"""`proof demo`: the main job in under a minute, on data inside the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_METHODS = ("zero-shot", "simplecil", "proof", "analytic:features=1024")


def demo(
    plot: Annotated[Path, typer.Option(metavar="FILE", help="Where to draw the curves.")] = Path(
        "proof-demo.png"
    ),
    seed: Annotated[int, typer.Option(help="Training seed.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
) -> None:
    """Learn 100 classes of real pictures, ten at a time, and compare four methods.

    The data are part of CIFAR-100 behind a frozen CLIP ViT-B/16; nothing is downloaded.

    Example:

      proof demo --plot curves.png
    """
    from rich.console import Console

    from proof.embeddings import Embeddings
    from proof.exemplars import Budget
    from proof.files import check_writable
    from proof.reports import curves, style, tables
    from proof.runs import Run
    from proof.streams import Stream

    style.check_format(plot)
    check_writable(plot)
    console = Console(highlight=False, soft_wrap=True)
    data = Embeddings.load("cifar100-small")
    stream = Stream.of(data, "B0-Inc10")
    budget = Budget(per_class=20)
    runs = [Run(name, stream, seed=seed, budget=budget, device=device) for name in _METHODS]
    console.print(
        f"{len(data.train)} pictures of {len(data.class_names)} classes arrive in {len(stream)} "
        "tasks; after each one, test pictures of all classes so far are sorted.\n"
        f"proof keeps {budget.per_class} pictures of each class; the others keep none.\n"
    )
    for index in range(len(stream)):
        new = ", ".join(stream.classes(index))
        console.print(f"[bold]task {index + 1}/{len(stream)}[/bold] brings {new}")
        with console.status("learning"):
            for run in runs:
                run.step()
        accuracies = "   ".join(f"{run.method} {run.curve[-1]:.1f} %" for run in runs)
        console.print(f"  {len(runs[0].learner.classes)} classes:   {accuracies}\n")
    records = [run.record() for run in runs]
    tables.print_results(records)
    curves.draw(records, plot)
    console.print(f"\ncurves drawn to {plot}")
