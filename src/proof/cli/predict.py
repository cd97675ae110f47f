"""`proof predict`: what pictures show."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proof.cli import models, source
from proof.cli.progress import Bar
from proof.errors import ProofError
from proof.files import check_writable, replacing
from proof.reports import formats

if TYPE_CHECKING:
    from proof.models.results import Prediction

_DIGITS = 4  # of a probability
_Named = list[tuple[str, float]]  # classes and their probabilities, best first


def predict(
    model: models.Model,
    pictures: Annotated[
        list[str],
        typer.Argument(
            metavar="PICTURES",
            help="Files, folders with pictures in and below them, or - for paths on standard "
            "input.",
        ),
    ],
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Give no label to what looks like none of the classes. 0.95: of pictures of known "
            "classes, 95 % keep theirs.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=5, help="How many classes to name.")] = 3,
    explain: Annotated[
        bool, typer.Option("--explain", help="What each part of the method says of one picture.")
    ] = False,
    json: models.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print it as CSV.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to a .json or .csv file."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Status 1 where a picture is broken.")
    ] = False,
    encoder: models.Elsewhere = None,
    device: source.Device = "auto",
    plugin: source.Plugin = None,
) -> None:
    """Say what pictures show: the label, its probability, and the runners-up.

    Broken pictures are listed at the end, on standard error.

    Examples:

      proof predict kitchen.proof *.jpg

      proof predict kitchen.proof photos/ --reject 0.95 --csv > labels.csv

      find . -name '*.jpg' | proof predict kitchen.proof - --json

      proof predict kitchen.proof a.jpg --explain
    """
    form = _form(json, csv, output)
    models.check_name(model)
    paths = models.pictures_of(pictures)
    if not paths:
        raise ProofError(f"'{pictures[0]}': there is no picture in it")
    if explain and (len(paths) > 1 or form or reject is not None):
        raise ProofError("--explain is for one picture, without --reject, --json, --csv and -o")
    with Bar("loading the model") as bar:
        classifier = models.load_taught(model, device, encoder, plugin or [])
        if classifier.encoder is None:
            raise ProofError(
                f"'{model}' was taught with embeddings: name the encoder that they were made with, "
                f"--encoder NAME"
            )
        embedded = classifier.embed(paths, progress=bar)
        if not embedded.good:
            raise ProofError(f"none of the pictures can be read, first {embedded.broken[0]}")
        vectors = list(embedded.vectors)
        if explain:
            explanation = classifier.explain(vectors[0])
        else:
            found = classifier.predict(vectors, reject=reject)
    if explain:
        models.show(explanation)
        return
    good = [paths[index] for index in embedded.good]
    named = [_named(said, top) for said in found]
    _write(list(zip(good, named, strict=True)), top, form, output)
    source.tell_broken(embedded.broken)
    if strict and embedded.broken:
        raise typer.Exit(1)


def _form(json: bool, csv: bool, output: Path | None) -> str:
    """json, csv, or nothing: for people."""
    if json and csv:
        raise ProofError("--json and --csv: give one of the two")
    asked = "json" if json else "csv" if csv else ""
    if output is None:
        return asked
    check_writable(output)
    form = output.suffix.removeprefix(".").lower()
    if form not in ("json", "csv") or asked not in ("", form):
        raise ProofError(f"-o {output}: expected a name that ends in .{asked or 'json or .csv'}")
    return form


def _named(said: Prediction | None, top: int) -> _Named:
    """The best classes; none of a rejected picture."""
    return [(said.label, said.score), *said.runners_up][:top] if said else []


def _write(found: Sequence[tuple[str, _Named]], top: int, form: str, output: Path | None) -> None:
    if form == "json":
        text = models.json_text([_object(path, named) for path, named in found]) + "\n"
    elif form == "csv":
        text = formats.csv_text([_row(path, named, top) for path, named in found])
    else:
        text = formats.aligned([_line(path, named, top) for path, named in found]) + "\n"
    if output is None and sys.stdout.isatty():
        models.show(text.rstrip("\n"))
        return
    if output is None:  # for a program: labels as they are
        print(text, end="")
        return
    with replacing(output) as partial:
        partial.write_text(text, encoding="utf-8")
    models.show(f"{len(found):,} predictions written to {output}")


def _object(path: str, named: _Named) -> dict[str, Any]:
    """For programs; of a rejected picture the label is null."""
    first, *others = [
        {"label": label, "probability": round(score, _DIGITS)} for label, score in named
    ] or [{"label": None, "probability": None}]
    return {"file": path, **first, "runners_up": others}


def _row(path: str, named: _Named, top: int) -> dict[str, formats.Value]:
    """For tables; of a rejected picture the label is empty."""
    row: dict[str, formats.Value] = {"file": path}
    for place in range(top):
        label, score = named[place] if place < len(named) else (None, None)
        ending = f"_{place + 1}" if place else ""
        row[f"label{ending}"] = label
        row[f"probability{ending}"] = None if score is None else f"{score:.{_DIGITS}f}"
    return row


def _line(path: str, named: _Named, top: int) -> dict[str, formats.Value]:
    """For people."""
    line: dict[str, formats.Value] = {
        "file": path,
        "label": named[0][0] if named else "none of its classes",
        "probability": f"{100 * named[0][1]:5.1f} %" if named else None,
    }
    if top > 1:
        others = (f"{label} {100 * score:.1f} %" for label, score in named[1:])
        line["runners-up"] = ", ".join(others)
    return line
