"""Data sets of the package `datasets`: by name from the Hugging Face Hub, or from a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proof.datasets.base import PARTS, TEST, TRAIN, VALIDATION, Lazy, Listing
from proof.datasets.tables import content_name
from proof.errors import ProofError
from proof.extras import import_extra

if TYPE_CHECKING:
    from proof.pictures.reader import Picture

_OPTIONS = ("image", "label", "train", "test")
_LABELS = ("label", "labels", "class", "category")  # text columns that are taken without asking
_TEXTS = ("string", "large_string")
_SAVED = ("dataset_dict.json", "state.json")  # what `save_to_disk` leaves


@dataclass(frozen=True)
class Source:
    """What stands behind `hf:`.

    >>> Source.parse("cifar100#image=img,label=fine_label").options
    {'image': 'img', 'label': 'fine_label'}
    >>> Source.parse("org/flowers:small").config
    'small'
    """

    name: str
    config: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Source:
        rest, _, tail = text.partition("#")
        options: dict[str, str] = {}
        for assignment in tail.split(",") if tail else []:
            key, equals, value = assignment.partition("=")
            if not equals or not value or key not in _OPTIONS or key in options:
                raise ProofError(
                    f"hf:{text}: '{assignment}' behind the #: expected some of image=COLUMN, "
                    f"label=COLUMN, train=SPLIT, test=SPLIT, separated by commas"
                )
            options[key] = value
        if rest and Path(rest).expanduser().is_dir():
            return cls(str(Path(rest).expanduser()), None, options)
        name, _, config = rest.rpartition(":") if ":" in rest else (rest, "", "")
        if not name:
            raise ProofError(f"hf:{text}: expected hf:NAME, hf:NAME:CONFIG or hf:FOLDER")
        folder = Path(name).expanduser()
        return cls(str(folder) if folder.is_dir() else name, config or None, options)

    def __str__(self) -> str:
        return f"hf:{self.name}" + (f":{self.config}" if self.config else "")


def read_hugging_face(source: Source, *, download: bool) -> Listing:
    """The pictures of a data set, as encoded bytes or paths, fetched when they are asked for."""
    datasets = import_extra("datasets", "data", f"{source}")
    loaded = _load(datasets, source, download)
    splits: dict[str, Any] = dict(loaded) if isinstance(loaded, dict) else {TRAIN: loaded}
    training, testing = _choose_splits(source, splits)
    features = splits[training].features
    image = _image_column(datasets, source, features)
    label = _label_column(datasets, source, features)
    tables = [splits[training]] + ([splits[testing]] if testing else [])
    for name, table in zip((training, testing), tables, strict=False):
        if {image, label} - set(table.column_names):
            raise ProofError(f"{source}: the split '{name}' has no columns '{image}' and '{label}'")
    labels: list[str] = []
    for name, table in zip((training, testing), tables, strict=False):
        labels += _labels(source, name or "", table, label)
    undecoded = [
        table.select_columns([image]).cast_column(image, datasets.Image(decode=False))
        for table in tables
    ]
    first = len(tables[0])

    def fetch(row: int) -> Picture:
        table, place = (undecoded[0], row) if row < first else (undecoded[1], row - first)
        value = table[place][image]
        data, path = value["bytes"], value["path"]
        return data if data is not None else path or b""  # what is empty counts as broken

    pictures = Lazy(range(len(labels)), fetch)
    folder = str(Path(source.name).absolute())
    names_of_classes = getattr(features[label], "names", None)
    return Listing(
        str(source),
        "Hugging Face data set",
        pictures,
        labels,
        [] if testing else [content_name(picture, folder) for picture in pictures],
        [TRAIN] * first + [TEST] * (len(labels) - first) if testing else None,
        order=names_of_classes,
    )


def _load(datasets: Any, source: Source, download: bool) -> Any:
    folder = Path(source.name)
    try:
        if any((folder / name).is_file() for name in _SAVED):
            return datasets.load_from_disk(source.name)
        with _offline(datasets) if not download else contextlib.nullcontext():
            return datasets.load_dataset(source.name, source.config)
    except Exception as error:  # the package has no common error
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise ProofError(f"{source} cannot be loaded: {reason}") from None


@contextlib.contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def _choose_splits(source: Source, splits: dict[str, Any]) -> tuple[str, str | None]:
    """The names of the splits for training and testing; None where a part is to be cut off."""
    for key in ("train", "test"):
        if source.options.get(key, next(iter(splits))) not in splits:
            raise ProofError(
                f"{source}: no split '{source.options[key]}': it has {', '.join(splits)}"
            )
    by_part: dict[str, str] = {}
    for name in splits:
        by_part.setdefault(PARTS.get(name.casefold(), name), name)
    training = source.options.get("train") or by_part.get(TRAIN)
    others = [by_part.get(part) for part in (TEST, VALIDATION) if by_part.get(part) != training]
    testing = source.options.get("test") or next((name for name in others if name), None)
    if training is None and len(splits) == 1:
        return next(iter(splits)), None
    if training is None or training == testing:
        raise ProofError(
            f"{source} has the splits {', '.join(splits)}: say which are for training and for "
            f"testing, such as {source}#train={next(iter(splits))},test={list(splits)[-1]}"
        )
    return training, testing


def _image_column(datasets: Any, source: Source, features: dict[str, Any]) -> str:
    found = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
    given = source.options.get("image")
    if given is not None:
        if given not in found:
            raise ProofError(
                f"{source}: '{given}' is no column of pictures: {_shown(features, found)}"
            )
        return given
    if len(found) != 1:
        raise ProofError(
            f"{source}: {len(found)} columns of pictures: {_shown(features, found)}; "
            f"say which, such as {source}#image={found[0] if found else 'COLUMN'}"
        )
    return found[0]


def _label_column(datasets: Any, source: Source, features: dict[str, Any]) -> str:
    named = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    texts = [name for name, kind in features.items() if getattr(kind, "dtype", "") in _TEXTS]
    given = source.options.get("label")
    if given is not None:
        if given not in named + texts:
            raise ProofError(
                f"{source}: '{given}' is no column of class names: "
                f"{_shown(features, named + texts)}"
            )
        return given
    found = named or [name for name in texts if name.casefold() in _LABELS]
    if len(found) != 1:
        every = named + texts
        raise ProofError(
            f"{source}: {len(found)} columns could be the label: {_shown(features, every)}; say "
            f"which, such as {source}#label={every[0] if every else 'COLUMN'}"
        )
    return found[0]


def _shown(features: dict[str, Any], possible: list[str]) -> str:
    could = f"possible are {', '.join(possible)}" if possible else "none is possible"
    return f"{could} (all columns: {', '.join(features)})"


def _labels(source: Source, split: str, table: Any, column: str) -> list[str]:
    names = getattr(table.features[column], "names", None)
    values = list(table.select_columns([column])[:][column])
    labels: list[str] = []
    for row, value in enumerate(values):
        if names is not None and isinstance(value, int) and 0 <= value < len(names):
            labels.append(names[value])
        elif names is None and isinstance(value, str) and value.strip():
            labels.append(value.strip())
        else:
            raise ProofError(
                f"{source}, split '{split}', row {row}: the {column} is {value!r}: expected the "
                f"name of a class; a split without labels cannot be used (#test=OTHER)"
            )
    return labels
