"""`proof evaluate`: how good a model is on pictures with labels."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from proof.cli import models, source
from proof.cli.progress import Bar


def evaluate(
    model: models.Model,
    data: source.Data,
    at_least: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", min=0, max=100, help="Status 1 where the accuracy is lower."
        ),
    ] = None,
    json: models.Json = False,
    encoder: models.Elsewhere = None,
    device: source.Device = "auto",
    plugin: source.Plugin = None,
) -> None:
    """Measure a model: accuracy, the worst classes, what is taken for what, calibration.

    Of data with a part for testing that part is taken, else all.

    Examples:

      proof evaluate kitchen.proof test_photos/

      proof evaluate kitchen.proof test.csv --at-least 80 --json > result.json
    """
    with Bar("loading the model") as bar:
        classifier = models.load_taught(model, device, encoder, plugin or [])
        found = classifier.evaluate(data, progress=bar)
    if json:
        print(models.json_text({"pictures": found.pictures, **dataclasses.asdict(found)}))
    else:
        models.show(found)
    source.tell_broken([f"{path}: {reason}" for path, reason in found.broken])
    if at_least is not None and found.accuracy < at_least:
        print(f"accuracy {found.accuracy:.2f} %: below {at_least:g} %", file=sys.stderr)
        raise typer.Exit(1)
