"""`proof learn`: teach a model, or make one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proof.cli import models, source
from proof.cli.progress import Bar
from proof.errors import ProofError
from proof.files import check_writable

if TYPE_CHECKING:
    from proof.models.classifier import Classifier
    from proof.models.results import Lesson


def learn(
    model: models.Model,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="A folder of class folders, a CSV or Parquet file of path,label[,split], hf:NAME, "
            "a known data set or an embeddings file; with --class, pictures or folders of them.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="LABEL",
            help="All pictures given show this class.",
            autocompletion=models.complete_label,
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="A class to know by its name alone; may be repeated."),
    ] = None,
    encoder: source.EncoderName = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="`proof methods` lists them; options stand behind colons.",
            show_default="analytic:features=4096",
        ),
    ] = None,
    exemplars: Annotated[
        str | None,
        typer.Option(
            help="Pictures to keep, as embeddings: 20/class, or 2000 in all.",
            show_default="50/class",
        ),
    ] = None,
    no_exemplars: Annotated[
        bool, typer.Option("--no-exemplars", help="Keep no pictures at all.")
    ] = False,
    template: Annotated[
        str | None,
        typer.Option(help="What is said of a class.", show_default="a photo of a {}."),
    ] = None,
    preprocess: source.Preprocess = None,
    seed: Annotated[int | None, typer.Option(help="Training seed.", show_default="0")] = None,
    device: source.Device = "auto",
    plugin: source.Plugin = None,
) -> None:
    """Teach new classes, or more pictures of known ones. Makes the model where there is none.

    What a model is made with (--encoder to --seed) is chosen when it is made.

    Examples:

      proof learn kitchen.proof new_products/

      proof learn kitchen.proof --class "moka pot" a.jpg b.jpg more_of_them/

      proof learn kitchen.proof --name teapot --name "French press"
    """
    start = time.perf_counter()
    models.check_name(model)
    check_writable(model)
    lessons = _lessons(what or [], label, name or [])
    if no_exemplars:
        if exemplars is not None:
            raise ProofError(f"--exemplars {exemplars} and --no-exemplars: give one of the two")
        exemplars = "0"
    choices = {
        "method": method,
        "exemplars": exemplars,
        "template": template,
        "preprocess": preprocess,
        "seed": seed,
    }
    given = {key: value for key, value in choices.items() if value is not None}
    source.load_plugins(plugin)
    with models.changing(model):
        new = not model.exists()
        if new:
            classifier = _make(lessons, encoder, given, device)
        else:
            classifier = models.load(model, device, encoder)
            _check_same(model, classifier, given)
        with Bar("loading the encoder") as bar:
            taught = [classifier.learn(lesson, progress=bar) for lesson in lessons]
            models.save(classifier, model, bar)
    _report(model, new, taught, time.perf_counter() - start)


def _lessons(what: list[str], label: str | None, names: list[str]) -> list[Any]:
    """What is to be learned, one thing after the other."""
    classes: dict[str, list[str]] = {name: [] for name in names}
    if len(classes) < len(names) or label in classes:
        raise ProofError(f"--name '{names[-1]}': a class stands there twice")
    if label is not None:
        pictures = models.pictures_of(what)
        if not pictures:
            raise ProofError(
                f"--class '{label}': no pictures are given; --name '{label}' is for a class known "
                f"by its name alone"
            )
        return [{label: pictures, **classes}]
    if len(what) > 1:
        raise ProofError(
            f"'{what[0]}' and '{what[1]}': expected one folder, file or data set; if all show one "
            f"class, --class LABEL"
        )
    if what and _only_pictures(what[0]):
        raise ProofError(
            f"'{what[0]}' has pictures and no class folders: to teach them as one class, add "
            f"--class LABEL"
        )
    if not what and not names:
        raise ProofError("learn what? Give DATA, --class LABEL with pictures, or --name LABEL")
    return [*what, *([classes] if classes else [])]


def _only_pictures(data: str) -> bool:
    from proof.datasets.folders import look

    if not Path(data).is_dir():
        return False
    found = look(data)
    return found.pictures > 0 and not found.folders


def _make(
    lessons: list[Any], encoder: str | None, given: dict[str, Any], device: str
) -> Classifier:
    """A new model. One that begins with embeddings has the encoder that they were made with, where
    they say which."""
    from proof.embeddings import Embeddings, holds_embeddings
    from proof.encoders import DEFAULT
    from proof.models.classifier import Classifier

    first = lessons[0]
    if not isinstance(first, str) or not holds_embeddings(first):
        return Classifier(encoder or DEFAULT, device=device, **given)
    if encoder is not None or "preprocess" in given:
        raise ProofError(
            f"--encoder and --preprocess are for pictures: '{first}' holds embeddings already"
        )
    lessons[0] = data = Embeddings.load(first)
    facts = data.metadata
    if not {"encoder", "fingerprint", "preprocess"} <= facts.keys():
        return Classifier(None, device=device, **given)
    preprocess = "squash" if facts["preprocess"].startswith("squash") else "model"
    return Classifier(facts["encoder"], preprocess=preprocess, device=device, **given)


def _check_same(model: Path, classifier: Classifier, given: dict[str, Any]) -> None:
    """An option that chooses what a model is made with must choose what this one is."""
    from proof.exemplars import Budget
    from proof.methods import create
    from proof.models.manifest import spec_of

    for option, value in given.items():
        wanted = value
        if option == "method":
            wanted = spec_of(create(value))
        elif option == "exemplars":
            wanted = str(Budget.parse(value))
        has = getattr(classifier, option)
        if wanted == has:
            continue
        if (option, wanted) == ("exemplars", "0"):
            raise ProofError(
                f"--no-exemplars: '{model}' keeps {has}; `proof forget {model} --exemplars` "
                f"removes them, and none will be kept from then on"
            )
        raise ProofError(
            f"--{option} {value}: '{model}' was made with {has}: leave the option out, or teach a "
            f"model of another name"
        )


def _report(model: Path, new: bool, lessons: list[Lesson], seconds: float) -> None:
    from proof.reports.card import read_card

    if new:
        card = read_card(model)
        encoder = card["source"]["encoder"] or "embeddings"
        models.show(f"made {model} with {encoder} and the method {card['method']['name']}")
    for lesson in lessons:
        learned = lesson.new or lesson.refined or lesson.named
        models.show(f"learned {lesson}" if learned else "nothing new: it was known already")
    models.tell_what_it_knows(model, seconds)
    broken = [picture for lesson in lessons for picture in lesson.broken]
    source.tell_broken([f"{path}: {reason}" for path, reason in broken])
