"""Folders of class folders: `photos/cup/1.jpg`, or `photos/train/cup/1.jpg` beside `test`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from proof.datasets.base import PARTS, TEST, TRAIN, VALIDATION, Listing
from proof.errors import ProofError

EXTENSIONS = frozenset((
    "jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif", "bmp", "dib", "tif", "tiff", "avif", "heic",
    "heif", "jp2", "j2k", "jpx", "ppm", "pgm", "pbm", "pnm", "tga", "ico", "pcx", "qoi",
))  # fmt: skip
_NOT_OURS = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir"))


@dataclass(frozen=True)
class Folder:
    """What lies directly in a folder. Hidden things are left out."""

    folders: list[str]
    pictures: int
    others: int  # files that are no pictures


def look(path: str | os.PathLike[str]) -> Folder:
    """What lies directly in a folder."""
    folders: list[str] = []
    pictures = others = 0
    for entry in _entries(os.fspath(path)):
        if _is_folder(entry):
            folders.append(entry.name)
        elif is_picture(entry.name):
            pictures += 1
        else:
            others += 1
    return Folder(sorted(folders), pictures, others)


def pictures_below(path: str | os.PathLike[str]) -> tuple[list[str], int]:
    """The pictures in a folder and in all folders below it, as sorted relative paths with `/`, and
    the number of files that are no pictures.

    Nothing is opened, and only links are looked at (`stat`). Links to folders are followed, but
    never into a folder that they lie in.
    """
    found: list[str] = []
    others = 0
    stack: list[tuple[str, str, tuple[str, ...]]] = [(os.fspath(path), "", ())]
    while stack:
        here, prefix, crossed = stack.pop()
        for entry in _entries(here):
            if not _is_folder(entry):
                if is_picture(entry.name):
                    found.append(prefix + entry.name)
                else:
                    others += 1
                continue
            come_from = crossed
            if entry.is_symlink():
                come_from = (*crossed, os.path.realpath(here))
                target = os.path.realpath(entry.path)
                if any(f"{place}{os.sep}".startswith(f"{target}{os.sep}") for place in come_from):
                    continue  # a circle
            stack.append((entry.path, f"{prefix}{entry.name}/", come_from))
    return sorted(found), others


def is_picture(name: str) -> bool:
    """Whether a file's name ends as that of a picture.

    >>> is_picture("moka.JPG"), is_picture("notes.txt"), is_picture("jpg")
    (True, False, False)
    """
    stem, _, extension = name.rpartition(".")
    return bool(stem) and extension.lower() in EXTENSIONS


def read_folders(root: Path) -> Listing:
    """Class folders, or `train` and `test` with class folders in each."""
    parts = part_folders(root)
    if parts is not None:
        return read_parts(root, *parts)
    return read_classes(root)


def part_folders(root: Path) -> tuple[str, str] | None:
    """The names of the folders for training and testing, where there are both."""
    found = look(root)
    parts: dict[str, str] = {}
    for name in found.folders:
        part = PARTS.get(name.casefold())
        if part in parts:
            raise ProofError(
                f"'{root}' has the folders '{parts[part]}' and '{name}': expected one for each of "
                f"train, test and val"
            )
        if part is not None:
            parts[part] = name
    testing = parts.get(TEST) or parts.get(VALIDATION)
    if TRAIN in parts and testing:
        return parts[TRAIN], testing
    # A class may be called `train`; then it has pictures and stands among other classes.
    for name in parts.values():
        alone = len(found.folders) == len(parts)
        if alone or (look(root / name).folders and not look(root / name).pictures):
            wanted = "test (or val)" if TRAIN in parts else "train"
            raise ProofError(
                f"'{root}' has the folder '{name}' but none called {wanted}: add it, or give "
                f"'{root / name}' to have a part of its pictures kept for testing"
            )
    return None


def read_parts(root: Path, training: str, testing: str) -> Listing:
    """Class folders below a folder for training and below one for testing."""
    pictures: list[str] = []
    labels: list[str] = []
    names: list[str] = []
    parts: list[str] = []
    ignored = 0
    for part, name in ((TRAIN, training), (TEST, testing)):
        listing = read_classes(root / name, allow_empty=part == TEST)
        pictures += listing.pictures  # type: ignore[arg-type]  # strings all
        labels += listing.labels
        names += listing.names
        parts += [part] * len(listing.labels)
        ignored += listing.ignored
    layout = f"class folders in {training}/ and {testing}/"
    return Listing(str(root), layout, pictures, labels, names, parts, ignored=ignored)


def read_classes(root: Path, allow_empty: bool = False) -> Listing:
    """The folders in `root` as classes, each with all pictures below it."""
    found = look(root)
    if not found.folders:
        raise ProofError(_no_classes(root, found))
    pictures: list[str] = []
    labels: list[str] = []
    names: list[str] = []
    ignored = found.pictures
    empty: list[str] = []
    for label in found.folders:
        inside, others = pictures_below(root / label)
        ignored += others
        if not inside:
            empty.append(f"{label} ({others} other files)" if others else label)
        pictures += [f"{root}{os.sep}{label}{os.sep}{name}" for name in inside]
        labels += [label] * len(inside)
        names += inside
    if not pictures:
        raise ProofError(
            f"'{root}' has {len(found.folders)} folders, first '{found.folders[0]}', and no "
            f"picture in them (by the endings of the names: .jpg, .png, .webp, ...)"
        )
    if empty and not allow_empty:
        raise ProofError(
            f"'{root}': {len(empty)} of {len(found.folders)} class folders have no picture, first "
            f"{empty[0]}: put some in, or remove the folder"
        )
    if len(found.folders) == 1:
        _check_depth(root, found.folders[0])
    return Listing(str(root), "class folders", pictures, labels, names, ignored=ignored)


def _check_depth(root: Path, only: str) -> None:
    inside = look(root / only)
    if len(inside.folders) > 1 and not inside.pictures:
        raise ProofError(
            f"'{root}' has one folder, '{only}', with {len(inside.folders)} folders in it: if "
            f"these are the classes, give '{root / only}'"
        )


def _no_classes(root: Path, found: Folder) -> str:
    wanted = f"expected a folder for each class, such as '{root / 'cup' / '1.jpg'}'"
    if found.pictures:
        return (
            f"'{root}' has {found.pictures} pictures and no folders: {wanted}; or list the "
            f"pictures in a CSV file with the columns path,label"
        )
    if found.others:
        return f"'{root}' has {found.others} files that are no pictures, and no folders: {wanted}"
    return f"'{root}' is empty: {wanted}"


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if not _hidden(entry.name)]
    except OSError as error:
        raise ProofError(f"the folder '{path}' cannot be read: {error.strerror}") from None


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.casefold() in _NOT_OURS


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
