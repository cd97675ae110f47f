"""What the DATA of a command may be, and its way to embeddings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proof.errors import ProofError
from proof.reports.formats import printable

if TYPE_CHECKING:
    from proof.cli.progress import Bar
    from proof.datasets.tables import Captions
    from proof.embeddings import Embeddings
    from proof.encoders import Encoder
    from proof.pairs import Pairs

DATA_HELP = (
    "An embeddings file, built-in data (cifar100-small), a folder of class folders, a CSV or "
    "Parquet file of path,label[,split], hf:NAME, or a known data set (`proof data list`)."
)

Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="For pictures: ARCHITECTURE/TAG of open_clip, ARCHITECTURE/FILE, hf-hub:..., "
        "local-dir:..., onnx:FOLDER.",
        show_default="ViT-B-16/laion400m_e32",
    ),
]
Preprocess = Annotated[
    str | None,
    typer.Option(
        help="squash: all of the picture, as the paper does; model: the model's own, which cuts "
        "the edges off.",
        show_default="squash",
    ),
]
TestFraction = Annotated[
    float | None,
    typer.Option(
        help="Part of each class to test on, where DATA has no split.", show_default="0.2"
    ),
]
SplitSeed = Annotated[int | None, typer.Option(help="Chooses that part.", show_default="1993")]
Classes = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Only these classes, in this order; one on a line."),
]
Templates = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Prompts for class names, one on a line, with {} in each."),
]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A Python file with your own method or encoder."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at a picture that is broken.")]


Check = Callable[[int, str | None], None]  # classes, the protocol of a known data set


@dataclass(frozen=True)
class PictureOptions:
    """How pictures become embeddings. None: not given."""

    encoder: str | None = None
    preprocess: str | None = None
    device: str = "auto"
    test_fraction: float | None = None
    split_seed: int | None = None
    classes: Path | None = None
    templates: Path | None = None
    strict: bool = False

    def given(self) -> list[str]:
        """Those that mean nothing for embeddings."""
        names = ("encoder", "preprocess", "test_fraction", "split_seed", "classes", "templates")
        found = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]
        return [*found, "--strict"] if self.strict else found


def load_plugins(paths: Sequence[Path] | None) -> None:
    """Run the user's own files, so that their methods and encoders are known."""
    from proof.plugins import load_plugin

    for path in paths or []:
        load_plugin(path)


def load(data: str, options: PictureOptions, check: Check | None = None) -> Embeddings:
    """Embeddings of DATA: read where it is an embeddings file, else encoded. `check` is called
    before that takes its time."""
    from proof.embeddings import Embeddings, holds_embeddings

    if holds_embeddings(data):
        if given := options.given():
            raise ProofError(f"{given[0]} is for pictures: '{data}' holds embeddings already")
        return Embeddings.load(data)
    return _encode(data, options, check)


def _encode(data: str, options: PictureOptions, check: Check | None) -> Embeddings:
    from proof.datasets import open_dataset
    from proof.datasets.base import read_list
    from proof.embed import embed
    from proof.encoders import DEFAULT, load_encoder
    from proof.pictures.preprocessing import CHOICES

    preprocess = "squash" if options.preprocess is None else options.preprocess
    if preprocess not in CHOICES:
        raise ProofError(f"--preprocess '{preprocess}': expected {' or '.join(CHOICES)}")
    more: dict[str, Any] = {}
    if options.test_fraction is not None:
        more["test_fraction"] = options.test_fraction
    if options.split_seed is not None:
        more["split_seed"] = options.split_seed
    templates = read_list(options.templates, "prompts", "a prompt") if options.templates else None
    dataset = open_dataset(data, classes=options.classes, templates=templates, **more)
    if check:
        check(len(dataset.class_names), dataset.metadata.get("protocol"))
    encoder = load_encoder(
        DEFAULT if options.encoder is None else options.encoder,
        preprocess=preprocess,
        device=options.device,
    )
    with _encoding() as bar:
        embeddings, broken = embed(dataset, encoder, progress=bar, strict=options.strict)
    if dataset.ignored:
        print(f"{dataset.ignored:,} files that are no pictures were left out", file=sys.stderr)
    tell_broken(broken)
    counts = embeddings.train.codes.bincount(minlength=len(embeddings.class_names)).tolist()
    empty = [name for name, count in zip(embeddings.class_names, counts, strict=True) if not count]
    if empty:
        raise ProofError(
            f"{data}: {len(empty)} of {len(counts)} classes have no training picture that can be "
            f"read, first '{empty[0]}': mend the pictures, or leave the class out (--classes FILE)"
        )
    return embeddings


def open_pairs(path: Path) -> Pairs | Captions:
    """What FILE of --pairs holds: embeddings, or pictures with texts that are to be encoded."""
    from proof.datasets.tables import read_captions
    from proof.pairs import Pairs

    return read_captions(path) if path.suffix.lower() in (".csv", ".tsv") else Pairs.load(path)


def pairs_behind(data: Embeddings, opened: Pairs | Captions, options: PictureOptions) -> Pairs:
    """The pairs as embeddings of the encoder that `data` are behind."""
    from proof.embed import embed_pairs
    from proof.pairs import Pairs

    if isinstance(opened, Pairs):
        pairs = opened
    else:
        encoder = _encoder_of(data, opened.name, options)
        with _encoding() as bar:
            pairs, broken = embed_pairs(opened, encoder, progress=bar, strict=options.strict)
        tell_broken(broken)
    pairs.check_fit(data)
    return pairs


def _encoder_of(data: Embeddings, pairs: str, options: PictureOptions) -> Encoder:
    """The encoder that embeddings were made with, as they say themselves."""
    from proof.encoders import load_encoder
    from proof.pictures.preprocessing import CHOICES

    if "fingerprint" not in data.metadata:
        raise ProofError(
            f"--pairs {pairs}: '{data.name}' does not say which encoder it is behind, which these "
            "pictures need: give the pairs as embeddings, a .safetensors file with 'image' and "
            "'text'"
        )
    name = options.encoder or data.metadata["encoder"]
    prepared = data.metadata.get("preprocess")
    for preprocess in CHOICES:
        encoder = load_encoder(name, preprocess=preprocess, device=options.device)
        if str(encoder.preprocessing) == prepared:
            return encoder
    raise ProofError(
        f"--pairs {pairs}: '{data.name}' prepared its pictures as '{prepared}', which is neither "
        f"{' nor '.join(CHOICES)} of {name}: give the pairs as embeddings"
    )


@contextmanager
def _encoding() -> Iterator[Bar]:
    """A bar while pictures are encoded, and the way out where that is interrupted."""
    from proof.cli.progress import Bar

    try:
        with Bar() as bar:
            yield bar
    except KeyboardInterrupt:
        typer.echo(
            "\ninterrupted; what is encoded is in the cache: the same command goes on from there",
            err=True,
        )
        raise typer.Exit(130) from None


def tell_broken(broken: Sequence[object]) -> None:
    """List pictures that could not be read."""
    if broken:
        were = "picture was" if len(broken) == 1 else "pictures were"
        print(f"{len(broken):,} broken {were} left out:", file=sys.stderr)
    for picture in broken:
        print(f"  {printable(str(picture))}", file=sys.stderr)
