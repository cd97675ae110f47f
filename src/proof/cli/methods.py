"""`proof methods`: what there is to choose from."""

from __future__ import annotations

import dataclasses


def methods() -> None:
    """List the methods and their options.

    Example:

      proof methods
    """
    from rich.console import Console

    from proof.methods import list_methods, method_class

    console = Console(highlight=False, soft_wrap=True)
    for name in list_methods():
        learner = method_class(name)
        console.print(f"[bold]{name}[/bold]  {(learner.__doc__ or '').splitlines()[0]}")
        for field in dataclasses.fields(learner.Options):
            console.print(f"    {field.name}={field.default}", style="dim")
