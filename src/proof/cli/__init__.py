"""The command `proof`. Each verb is a module; heavy imports wait until a verb runs."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

import proof
from proof.cli import (
    ablate,
    bench,
    cache,
    change,
    data,
    demo,
    embed,
    encoders,
    evaluate,
    learn,
    methods,
    paper,
    predict,
    report,
    show,
)
from proof.errors import ProofError
from proof.reports.formats import printable

app = typer.Typer(
    name="proof",
    help="Keep teaching a vision-language model: class-incremental learning on a frozen CLIP.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

_TEACH = "Teach and use"
app.command(rich_help_panel=_TEACH)(learn.learn)
app.command(rich_help_panel=_TEACH)(predict.predict)
app.command(rich_help_panel=_TEACH)(show.show)
app.command(rich_help_panel=_TEACH)(change.forget)
app.command(rich_help_panel=_TEACH)(change.rename)
app.command(rich_help_panel=_TEACH)(change.merge)
app.command(rich_help_panel=_TEACH)(show.log)
app.command(rich_help_panel=_TEACH)(change.undo)

_MEASURE = "Measure"
app.command(rich_help_panel=_MEASURE)(evaluate.evaluate)
app.command(rich_help_panel=_MEASURE)(bench.bench)
app.command(rich_help_panel=_MEASURE)(ablate.ablate)
app.command(rich_help_panel=_MEASURE)(report.report)
app.command(rich_help_panel=_MEASURE)(demo.demo)
app.command(rich_help_panel=_MEASURE)(paper.paper)

_DATA = "Data and encoders"
app.command(rich_help_panel=_DATA)(embed.embed)
app.add_typer(data.app, name="data", rich_help_panel=_DATA)
app.add_typer(encoders.app, name="encoders", rich_help_panel=_DATA)
app.command(rich_help_panel=_DATA)(methods.methods)
app.add_typer(cache.app, name="cache", rich_help_panel=_DATA)


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
    """Run the command line. The exit status is 0 where all went well, 1 where a check failed, 2
    where what was given is wrong, 3 where the machine or this program is, 130 after Ctrl-C."""
    try:
        app(prog_name="proof")
    except ProofError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that went away
        print(f"error: {printable(str(error))}", file=sys.stderr)
        sys.exit(3)
    except Exception:
        traceback.print_exc()
        sys.exit(3)
