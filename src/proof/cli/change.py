"""`proof forget`, `rename`, `merge` and `undo`: what else changes a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proof.cli import models, source
from proof.cli.progress import Bar
from proof.errors import ProofError
from proof.reports.formats import printable

_LABEL = typer.Argument(
    metavar="LABEL", help="A class of the model.", autocompletion=models.complete_label
)
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def forget(
    model: models.Model,
    label: Annotated[str | None, _LABEL] = None,
    pictures: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER",
            help="All pictures that it was taught with, to forget exactly where the model does not "
            "keep them; may be repeated.",
        ),
    ] = None,
    exemplars: Annotated[
        bool,
        typer.Option(
            "--exemplars", help="Forget no class, but every picture that is kept; keep none again."
        ),
    ] = False,
    yes: _Yes = False,
    encoder: models.Elsewhere = None,
    device: source.Device = "auto",
    plugin: source.Plugin = None,
) -> None:
    """Forget a class, or all pictures that are kept. The earlier versions are removed too.

    Examples:

      proof forget kitchen.proof "moka pot"

      proof forget kitchen.proof "moka pot" --pictures photos/moka_pot/

      proof forget kitchen.proof --exemplars
    """
    from proof.reports.card import read_card
    from proof.words import many

    if exemplars == (label is not None):
        raise ProofError("forget what? Give the LABEL of a class, or --exemplars")
    if exemplars and pictures:
        raise ProofError("--pictures goes with the LABEL of a class")
    if label is not None:
        models.check_label(model, label)
        what = f"'{label}'"
    else:
        models.check_name(model)
        what = f"{many(read_card(model)['kept']['pictures'], 'picture')} that it keeps"
    question = f"forget {what} for good, and the earlier versions of {model}?"
    if not yes:
        typer.confirm(printable(question), abort=True, err=True)
    with models.changing(model), Bar("loading the model") as bar:
        classifier = models.load(model, device, encoder, plugin or [])
        if label is None:
            classifier.drop_exemplars()
            said = "it keeps no pictures any more"
        else:
            given = models.pictures_of(pictures) if pictures else None
            said = str(classifier.forget(label, given, progress=bar))
        models.save(classifier, model, bar)
    models.show(f"{model}: {said}")


def rename(
    model: models.Model,
    old: Annotated[str, _LABEL],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its name from now on.")],
    plugin: source.Plugin = None,
) -> None:
    """Give a class another name. What it was taught stays.

    Example:

      proof rename kitchen.proof "moka pot" "mocha pot"
    """
    models.check_label(model, old)
    with models.changing(model), Bar("loading the model") as bar:
        classifier = models.load(model, "cpu", None, plugin or [])
        classifier.rename(old, new)
        models.save(classifier, model, bar)
    models.show(f"{model}: '{old}' is called '{new}' now")


def merge(
    into: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODELS",
            help="Two models or more, of one encoder and one method.",
            autocompletion=models.complete_model,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="MODEL", help="What to write; may be the first."),
    ],
    device: source.Device = "auto",
    plugin: source.Plugin = None,
) -> None:
    """Make one model of several: it knows what each of them was taught.

    Examples:

      proof merge kitchen.proof bath.proof -o house.proof

      proof merge kitchen.proof from_a_colleague.proof -o kitchen.proof
    """
    first, *others = into
    if not others:
        raise ProofError(f"'{first}' alone: expected two models or more to merge")
    if len({path.resolve() for path in into}) < len(into):
        raise ProofError("a model stands there twice: expected different ones to merge")
    models.check_name(output)
    if output.exists() and not output.samefile(first):
        raise ProofError(f"'{output}' is there already: choose another name, or remove it")
    with models.changing(output), Bar("loading the models") as bar:
        classifier = models.load(first, device, None, plugin or [])
        lessons = [classifier.merge(models.load(other, device), progress=bar) for other in others]
        models.save(classifier, output, bar)
    for other, lesson in zip(others, lessons, strict=True):
        models.show(f"{other}: {lesson}")
    models.tell_what_it_knows(output)


def undo(model: models.Model) -> None:
    """Take the last change back. `proof log` says what that was.

    Example:

      proof undo kitchen.proof
    """
    from proof.models import undo as undo_change
    from proof.reports.card import read_card, said

    with models.changing(model):
        before = read_card(model)["log"]
        undo_change(model)
    after = read_card(model)
    gone = before[len(after["log"]) :]
    models.show(f"{model}: took back: " + "; ".join(map(said, gone)))
    models.tell_what_it_knows(model)
