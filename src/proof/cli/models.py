"""What the commands on a model share: its file, its labels, its encoder, and the lock."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proof.cli.progress import Bar
from proof.cli.source import load_plugins
from proof.errors import ProofError
from proof.reports.formats import printable

if TYPE_CHECKING:
    from proof.models.classifier import Classifier


def complete_model(incomplete: str) -> list[str]:
    """Models, and folders on the way to them."""
    start, stroke, _ = incomplete.rpartition("/")
    with contextlib.suppress(OSError):
        found = [path for path in Path(start + stroke or ".").iterdir() if path.name[0] != "."]
        names = [path.name + "/" * path.is_dir() for path in sorted(found)]
        wanted = [name for name in names if name.endswith((".proof", "/"))]
        return _offered((start + stroke + name for name in wanted), incomplete)
    return []


def complete_label(context: typer.Context, incomplete: str) -> list[str]:
    """The classes of the model that stands before."""
    from proof.reports.card import labels_of

    with contextlib.suppress(ProofError, KeyError):
        return _offered(labels_of(context.params["model"]), incomplete)
    return []


def _offered(values: Iterable[str], incomplete: str) -> list[str]:
    """Those that go on from what was typed. Shells evaluate what they are offered, and a model may
    come from anyone: only plain text is."""
    found = [
        value
        for value in values
        if value.startswith(incomplete) and all(c.isalnum() or c in " ._-/" for c in value)
    ]
    if os.environ.get("_PROOF_COMPLETE") == "complete_bash":  # it takes a blank for an end
        typed = os.environ["COMP_WORDS"].split("\n")[int(os.environ["COMP_CWORD"])]
        if not typed.startswith(("'", '"')):
            return [value.replace(" ", "\\ ") for value in found]
    return found


Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="The file of a model, such as kitchen.proof.",
        autocompletion=complete_model,
    ),
]
Elsewhere = Annotated[
    str | None,
    typer.Option(
        "--encoder", metavar="NAME", help="Where the model's encoder is to be found now, if moved."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def check_name(model: Path) -> None:
    """Find out early that this cannot be the file of a model."""
    if model.suffix != ".proof":
        raise ProofError(
            f"'{model}' cannot be a model: the name of one ends in .proof, and it comes before all "
            f"else, such as kitchen.proof"
        )


def check_label(model: Path, label: str) -> None:
    """Find out before anything is loaded or asked that a model has no such class."""
    check_name(model)
    from proof.reports.card import labels_of
    from proof.words import some

    labels = labels_of(model)
    if label in labels:
        return
    near = difflib.get_close_matches(label, labels, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"it knows {some(labels) or 'none'}"
    raise ProofError(f"no class '{label}' in '{model}': {hint}")


def load(
    model: Path, device: str = "auto", encoder: str | None = None, plugins: Sequence[Path] = ()
) -> Classifier:
    """The model in a file; `encoder` is its own, where that is called otherwise here."""
    check_name(model)
    from proof.models.classifier import load as load_model

    load_plugins(plugins)
    if encoder is None:
        return load_model(model, device=device)
    from proof.encoders import load_encoder
    from proof.reports.card import read_card

    preprocess = read_card(model)["source"]["preprocess"]
    found = load_encoder(encoder, preprocess=preprocess, device=device)
    return load_model(model, device=device, encoder=found)


def load_taught(
    model: Path, device: str, encoder: str | None, plugins: Sequence[Path]
) -> Classifier:
    """A model that can be asked."""
    classifier = load(model, device, encoder, plugins)
    if not classifier.classes:
        raise ProofError(f"'{model}' knows no class: teach it with `proof learn {model} DATA`")
    return classifier


@contextmanager
def changing(model: Path) -> Iterator[None]:
    """Keep others from changing a model meanwhile. After Ctrl-C say what became of it."""
    check_name(model)
    from proof.models import locked

    with locked(model, waiting=lambda text: print(printable(text), file=sys.stderr)):
        before = _revision(model)
        try:
            yield
        except KeyboardInterrupt:
            left = "is as it was" if before else "was not made"
            became = left if _revision(model) == before else "is changed already"
            print(f"\ninterrupted; {printable(str(model))} {became}", file=sys.stderr)
            raise typer.Exit(130) from None


def save(classifier: Classifier, model: Path, bar: Bar) -> None:
    """Write a model, with how good it is."""
    bar.begin("measuring")
    classifier.calibrate()
    classifier.save(model)


def _revision(model: Path) -> str | None:
    from proof.models import read_header

    return read_header(model).revision if model.exists() else None


def pictures_of(paths: Sequence[str]) -> list[str]:
    """Files as they are, of folders all pictures below them, of `-` the paths on standard input."""
    from proof.datasets.folders import pictures_below

    found: list[str] = []
    for path in paths:
        if path == "-":
            lines = (line.rstrip("\r\n") for line in sys.stdin)
            found += pictures_of([line for line in lines if line and line != "-"])
        elif Path(path).is_dir():
            found += [str(Path(path) / name) for name in pictures_below(path)[0]]
        else:
            found.append(path)
    return found


def show(text: object) -> None:
    """Print text that may hold anything: no label is obeyed by the terminal."""
    print("\n".join(map(printable, str(text).split("\n"))))


def json_text(value: object) -> str:
    """What a program reads; control characters are escaped in it."""
    return json.dumps(value, indent=1)


def tell_what_it_knows(model: Path, seconds: float | None = None) -> None:
    """The last line of a change."""
    from proof.reports.card import accuracy_text, read_card
    from proof.reports.formats import size_text
    from proof.words import many

    card = read_card(model)
    took = "" if seconds is None else f", {seconds:.1f} s"
    show(
        f"{model} knows {many(len(card['classes']), 'class')}, accuracy {accuracy_text(card)}; "
        f"{size_text(card['bytes'])}{took}"
    )
