"""`proof show` and `proof log`: what a model knows, and what happened to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proof.cli import models
from proof.errors import ProofError


def show(
    model: models.Model,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it as a page that needs nothing else."),
    ] = None,
    json: models.Json = False,
) -> None:
    """Print what a model knows and what it is made of. Its encoder is not needed.

    Examples:

      proof show kitchen.proof

      proof show kitchen.proof --html card.html

      proof show kitchen.proof --json | jq '.classes[].name'
    """
    models.check_name(model)
    from proof.reports.card import class_row, facts, read_card

    if html:
        _write_page(model, html)
        return
    card = read_card(model)
    if json:
        print(models.json_text(card))
        return
    for title, text in facts(card).items():
        models.show(f"{title:<11}{text}")
    rows = [class_row(entry) for entry in card["classes"]]
    if rows:
        from proof.reports.formats import aligned

        print()
        print(aligned(rows))


def log(model: models.Model, json: models.Json = False) -> None:
    """Print what happened to a model, and how far it can be taken back.

    Example:

      proof log kitchen.proof
    """
    models.check_name(model)
    from proof.reports.card import facts, local, read_card, said

    card = read_card(model)
    if json:
        print(models.json_text(card["log"]))
        return
    for step in card["log"]:
        models.show(f"{local(step['when'])}  {said(step)}")
    models.show(f"earlier: {facts(card)['earlier']}")


def _write_page(model: Path, html: Path) -> None:
    from proof.files import check_writable, replacing
    from proof.reports.card import read_card
    from proof.reports.card_page import page

    if html.suffix.lower() not in (".html", ".htm"):
        raise ProofError(f"--html {html}: expected a name that ends in .html")
    check_writable(html)
    with replacing(html) as partial:
        partial.write_text(page(read_card(model)), encoding="utf-8")
    models.show(f"written to {html}")
