"""`proof report`: tables, figures and a page from the records of runs."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proof.errors import ProofError

if TYPE_CHECKING:
    from proof.reports.groups import Setting


class Format(StrEnum):
    """What can be printed."""

    md = "md"
    tex = "tex"
    csv = "csv"
    html = "html"


_FILES = {
    Format.html: "index.html",
    Format.md: "table.md",
    Format.tex: "table.tex",
    Format.csv: "table.csv",
}


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...", help="Records: .json files, or folders of them (`--out` of bench)."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write the page, tables and figures here."
        ),
    ] = None,
    pictures: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="What was run on, to show pictures of classes that are mixed up in the page: a "
            "folder of class folders, a table, a known data set. May be given more than once.",
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", help="Print only the table, or the page, to standard output."),
    ] = None,
) -> None:
    """Make tables, figures and a page from the records of runs.

    Records of different data or protocols are kept apart; seeds are averaged; what the paper has
    of it stands beside.

    Examples:

      proof report runs

      proof report runs -o report

      proof report runs --format tex > table.tex

      proof report runs -o report --pictures photos/
    """
    from proof.records import read_records
    from proof.reports import page, tables, written
    from proof.reports.groups import in_order, settings_of

    if output and format:
        raise ProofError(
            f"--output {output} and --format {format}: the first writes all, the second prints "
            "one: give one of the two"
        )
    if output and output.exists() and not output.is_dir():
        raise ProofError(f"--output {output}: this is a file: expected a folder, new or old")
    settings = in_order(settings_of(read_records(runs)))
    if pictures and not output and format != Format.html:
        raise ProofError(f"--pictures {pictures[0]} are for the page: add -o DIR, or --format html")
    texts: dict[Format, Callable[[list[Setting]], str]] = {
        Format.md: written.markdown,
        Format.tex: written.latex,
        Format.csv: written.csv,
        Format.html: lambda settings: page.page(settings, _thumbnails(settings, pictures)),
    }
    if output:
        _write(settings, {_FILES[kind]: make(settings) for kind, make in texts.items()}, output)
    elif format:
        typer.echo(texts[format](settings), nl=False)
    else:
        tables.print_settings(settings)


def _thumbnails(settings: list[Setting], sources: list[str] | None) -> list[dict[str, str]]:
    if not sources:
        return []
    from proof.datasets import open_dataset
    from proof.reports.thumbnails import thumbnails

    return thumbnails(settings, [open_dataset(source, download=False) for source in sources])


def _write(settings: list[Setting], texts: dict[str, str], folder: Path) -> None:
    from rich.console import Console

    from proof.files import check_writable, replacing
    from proof.reports.figures import draw_figures

    for name, text in texts.items():
        check_writable(folder / name)
        with replacing(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
    with Console(stderr=True).status("drawing figures"):
        figures = draw_figures(settings, folder / "figures")
    print(f"{', '.join(texts)} and {len(figures)} figures written to {folder}")
