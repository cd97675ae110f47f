"""`proof report`: tables, figures and a page from the records of runs."""

from __future__ import annotations

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
    texts = {
        Format.md: written.markdown,
        Format.tex: written.latex,
        Format.csv: written.csv,
        Format.html: page.page,
    }
    if output:
        _write(settings, {_FILES[kind]: make(settings) for kind, make in texts.items()}, output)
    elif format:
        typer.echo(texts[format](settings), nl=False)
    else:
        tables.print_settings(settings)


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
