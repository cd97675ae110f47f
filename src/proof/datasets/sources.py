"""What `proof` takes as pictures: one grammar for all commands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from proof.datasets.base import (
    DEFAULT_TEMPLATES,
    Dataset,
    Listing,
    choose_classes,
    class_names_of,
    find_label,
    finish,
)
from proof.datasets.folders import look, read_folders
from proof.datasets.known import (
    FRACTION,
    OFFICIAL,
    Known,
    data_home,
    fetch,
    known,
    known_names,
    not_found,
)
from proof.datasets.layouts import class_name, find_layout, folder_names, prepare, read_layout
from proof.datasets.splits import DEFAULT_SPLIT_SEED, DEFAULT_TEST_FRACTION
from proof.datasets.tables import SUFFIXES, read_table
from proof.errors import ProofError

_FORMS = (
    "a folder of class folders, a .csv, .tsv or .parquet file, hf:NAME, or the name of a known "
    "data set"
)


def open_dataset(
    source: str,
    *,
    test_fraction: float = DEFAULT_TEST_FRACTION,
    split_seed: int = DEFAULT_SPLIT_SEED,
    classes: Path | None = None,
    templates: Sequence[str] | None = None,
    download: bool = True,
) -> Dataset:
    """Open pictures with labels. No picture is read yet.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("moka_pot", "cup"):
    ...     (root / name).mkdir()
    ...     for number in range(20):
    ...         (root / name / f"{number}.jpg").touch()
    >>> data = open_dataset(str(root))
    >>> data.class_names, len(data.train), len(data.test)
    (('cup', 'moka pot'), 29, 11)

    `source` is a folder of class folders, a table (`.csv`, `.tsv`, `.parquet`), `hf:NAME`, the
    name of a known data set (`cub200`) or `NAME:FOLDER` for one that lies elsewhere. Where there
    is no split, `test_fraction` of each class is kept for testing, chosen by the names of the
    pictures and `split_seed`. `classes` is a file with a class on each line; it selects and
    orders them.
    """
    if source.startswith("hf:"):
        from proof.datasets.huggingface import Source, read_hugging_face

        wanted = Source.parse(source[3:])
        listing = read_hugging_face(wanted, download=download)
        name = Path(wanted.name).name
    elif (match := _known_source(source)) is not None:
        return _open_known(source, *match, test_fraction, split_seed, classes, templates, download)
    else:
        path = _path(source)
        listing = read_folders(path) if path.is_dir() else read_table(path)
        name = path.resolve().name if path.is_dir() else path.stem
    names = class_names_of(listing.where, listing.labels)
    return finish(
        listing,
        name,
        names=names,
        chosen=choose_classes(classes, names, find_label(names)) if classes else None,
        test_fraction=test_fraction,
        split_seed=split_seed,
        templates=templates or DEFAULT_TEMPLATES,
        metadata={"source": source},
    )


def known_listing(what: Known, root: Path, split: str | None = None) -> tuple[Listing, list[str]]:
    """The pictures of a known data set in `root`, labelled with official names, and the folders
    or labels there that are none of its classes."""
    layout = find_layout(what, root)
    if layout is None:
        raise not_found(what, root)
    listing = read_layout(what, layout, split)
    official = {label: class_name(what, label) for label in dict.fromkeys(listing.labels)}
    strange = sorted(label for label, name in official.items() if name is None)
    labels = [official[label] or label for label in listing.labels]
    return replace(listing, labels=labels), strange


def _known_source(source: str) -> tuple[Known, Path | None, str | None] | None:
    """The known data set that is meant, where it lies if that is said, and the split."""
    body, split = source, None
    if match := re.search(r"#split=(\w*)$", source):
        body, split = source[: match.start()], match[1]
    name, colon, folder = body.partition(":")
    if name not in known_names():
        return None
    if split not in (None, OFFICIAL, FRACTION):
        raise ProofError(f"{source}: split '{split}': expected {OFFICIAL} or {FRACTION}")
    if colon:
        root = Path(folder).expanduser().absolute()
        if not folder or not root.is_dir():
            raise ProofError(f"{source}: no folder '{folder}': expected the folder of {name}")
        return known(name), root, split
    if Path(name).exists():
        raise ProofError(
            f"'{name}' is a known data set and also lies in this folder: write ./{name} for what "
            f"lies here, {name}:{name} for the data set {name} in it, or call it from elsewhere"
        )
    return known(name), None, split


def _open_known(
    source: str,
    what: Known,
    folder: Path | None,
    split: str | None,
    test_fraction: float,
    split_seed: int,
    classes: Path | None,
    templates: Sequence[str] | None,
    download: bool,
) -> Dataset:
    root = folder or data_home() / what.name
    if download and what.downloads and _is_empty(root):
        fetch(what, root)
    listing, strange = known_listing(what, root, split)
    if strange:
        raise ProofError(
            f"'{listing.where}': '{strange[0]}' is no class of {what.name}"
            f"{f', nor are {len(strange) - 1} others' if len(strange) > 1 else ''}: remove it, or "
            f"give the folder itself to take its own names"
        )
    names = what.classes or folder_names(what, listing.where, listing.labels)
    if classes:
        chosen = choose_classes(classes, names, lambda line: class_name(what, line))
    else:
        chosen = what.used or list(names)
    there = set(listing.labels)
    missing = [names[label] for label in chosen if label not in there]
    if missing:
        raise ProofError(
            f"'{listing.where}': {len(missing)} of {len(chosen)} classes of {what.name} are not "
            f"there, first '{missing[0]}': `proof data check {what.name} '{root}'` lists them; "
            f"--classes FILE takes those that a file names"
        )
    facts = {"source": source, "title": what.title}
    if what.protocols:
        facts["protocol"] = what.protocols[0]
    return finish(
        prepare(what, listing),
        what.name,
        names=names,
        chosen=chosen,
        test_fraction=test_fraction,
        split_seed=split_seed,
        templates=templates or what.templates,
        metadata=facts,
    )


def _is_empty(root: Path) -> bool:
    if not root.is_dir():
        return not root.exists()
    found = look(root)
    return not (found.folders or found.pictures or found.others)


def _path(source: str) -> Path:
    """A folder or a table that is there."""
    path = Path(source).expanduser().absolute()
    if not source or not path.exists():
        near = difflib.get_close_matches(source, known_names(), n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise ProofError(
            f"'{source}' is neither a file or folder nor a known data set{hint}: expected {_FORMS} "
            f"({', '.join(known_names())})"
        )
    if path.is_dir():
        return path
    if path.suffix == ".safetensors":
        raise ProofError(f"'{source}' is an embeddings file: expected pictures, {_FORMS}")
    if path.suffix.lower() in (".zip", ".tar", ".gz", ".tgz", ".rar", ".7z"):
        raise ProofError(f"'{source}' is an archive: unpack it, and give the folder")
    if path.suffix.lower() not in SUFFIXES:
        raise ProofError(f"'{source}' is a {path.suffix or 'plain'} file: expected {_FORMS}")
    return path
