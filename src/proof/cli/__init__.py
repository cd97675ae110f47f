"""The command `proof`. Each verb is a module; heavy imports wait until a verb runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import proof
from proof.cli import (
    ablate,
    bench,
    cache,
    data,
    demo,
    embed,
    encoders,
    methods,
    paper,
    report,
    source,
)
from proof.errors import ProofError

app = typer.Typer(
    name="proof",
    help="Keep teaching a vision-language model: class-incremental learning on a frozen CLIP.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(bench.bench)
app.command()(demo.demo)
app.command()(report.report)
app.command()(ablate.ablate)
app.command()(embed.embed)
app.command("methods")(methods.methods)
app.command()(paper.paper)
app.add_typer(encoders.app, name="encoders")
app.add_typer(data.app, name="data")
app.add_typer(cache.app, name="cache")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"proof {proof.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. A user's mistake is one line on stderr and exit status 2, and what
    the machine refuses is one line and status 1."""
    try:
        app()
    except ProofError as error:
        print(f"error: {source.printable(str(error))}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that went away
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
