"""`proof paper`: what was published, table by table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proof.errors import ProofError

if TYPE_CHECKING:
    from proof.paper import Table
    from proof.reports.formats import Value

_Names = list[str] | None
_STANDARD_OUTPUT = Path("-")


def paper(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="A key of the list.")] = None,
    data: Annotated[
        _Names, typer.Option(metavar="NAME", help="Only this data set; may be repeated.")
    ] = None,
    protocol: Annotated[
        _Names, typer.Option(metavar="NAME", help="Only this protocol; may be repeated.")
    ] = None,
    method: Annotated[
        _Names, typer.Option(metavar="NAME", help="Only this method; may be repeated.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it as Markdown; - is standard output."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as CSV.")] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same as a JSON list.")
    ] = None,
) -> None:
    """Print what the paper published: its tables, and the curves of the authors' code.

    Examples:

      proof paper

      proof paper main --data cifar100

      proof paper main --method proof --method simplecil --markdown -
    """
    from proof.files import check_writable
    from proof.paper import table as find_table
    from proof.reports import formats

    asked = [target for target in (markdown, csv, json) if target]
    for target in asked:
        if target != _STANDARD_OUTPUT:
            check_writable(target)
    if table is None:
        if given := [*(data or ()), *(protocol or ()), *(method or ())]:
            raise ProofError(
                f"'{given[0]}' chooses from a table: name one that `proof paper` lists"
            )
        shown = full = _listing()
        caption = "Published tables"
    else:
        found = find_table(table)
        shown = _rows(found, data, protocol, method)
        about: dict[str, Value] = {"encoder": found.encoder, "source": found.source}
        full = [{"table": found.key, **row, **about} for row in shown]
        caption = f"{found.title}. Encoder: {found.encoder}. Source: {found.source}."
    if markdown:
        _write(f"{caption}\n\n{formats.markdown(shown)}", markdown)
    if csv:
        _write(formats.csv_text(full), csv)
    if json:
        _write(formats.json_text(full), json)
    if asked:
        return
    if table is None:
        _print_list(shown)
    else:
        _print_table(shown, caption)


def _listing() -> list[dict[str, Value]]:
    from proof.paper import tables

    return [
        {
            "table": table.key,
            "holds": table.title,
            "figures": sum(len(row.values) for row in table.rows),
            "encoder": table.encoder,
            "source": table.source,
        }
        for table in tables().values()
    ]


def _rows(table: Table, data: _Names, protocol: _Names, method: _Names) -> list[dict[str, Value]]:
    rows = table.select(data or (), protocol or (), method or ())
    told = any(row.exemplars is not None for row in table.rows)
    columns = [column for column in table.columns if any(column in row.values for row in rows)]
    return [
        {
            "data": row.data,
            "protocol": row.protocol,
            "method": row.method,
            **({"exemplars": row.exemplars} if told else {}),
            **{column: row.values.get(column) for column in columns},
        }
        for row in rows
    ]


def _print_list(rows: list[dict[str, Value]]) -> None:
    from rich.console import Console

    from proof.paper import methods

    console = Console(highlight=False, soft_wrap=True)
    for row in rows:
        console.print(f"[bold]{row['table']}[/bold]  {row['holds']}")
        console.print(
            f"    {row['figures']} figures, {row['encoder']}; {row['source']}", style="dim"
        )
    names = ", ".join(f"{name} ({paper})" for name, paper in methods().items())
    console.print(f"methods, and the paper's names for them: {names}")


def _print_table(rows: list[dict[str, Value]], caption: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from proof.reports.formats import cell, number_columns

    shown = Table(title=caption, title_justify="left")
    for heading, numbers in number_columns(rows).items():
        shown.add_column(heading, justify="right" if numbers else "left", no_wrap=True)
    several = len({row["method"] for row in rows}) > 1
    before = rows[0]
    for row in rows:
        if several and (row["data"], row["protocol"]) != (before["data"], before["protocol"]):
            shown.add_section()
        shown.add_row(*map(cell, row.values()))
        before = row
    Console(highlight=False, width=200).print(shown)  # wide, so that no number is cut off


def _write(text: str, target: Path) -> None:
    from proof.files import replacing

    if target == _STANDARD_OUTPUT:
        print(text, end="")
        return
    with replacing(target) as partial:
        partial.write_text(text, encoding="utf-8")
    print(f"written to {target}")
