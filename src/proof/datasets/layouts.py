"""How known data sets lie on disk: each in its official layout, and all in plain class folders.

A layout is looked for in the given folder and in those a little below it, because archives are
unpacked with and without their outer folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proof.datasets.base import TEST, TRAIN, Lazy, Listing, class_names_of
from proof.datasets.folders import (
    look,
    part_folders,
    pictures_below,
    read_classes,
    read_parts,
)
from proof.datasets.known import FRACTION, OFFICIAL, Known
from proof.errors import ProofError
from proof.extras import import_extra

if TYPE_CHECKING:
    from proof.pictures.reader import Picture

_MANY = 60  # a folder with so many folders in it holds classes, not data sets
_DEEP = 2
_BORDER = 2  # pixels, of ObjectNet


@dataclass(frozen=True)
class Layout:
    """A way in which a data set lies on disk, and the place where it does."""

    title: str
    base: Path
    read: Callable[[Known, Path], Listing]
    split: str = "folders"  # where the split comes from: folders, official lists, or none


def find_layout(what: Known, root: Path) -> Layout | None:
    """The layout in which a data set lies in `root` or a little below, if it does."""
    if not root.is_dir():
        return None
    bases = list(_bases(root))
    if what.name in _OFFICIAL:
        title, is_it, read = _OFFICIAL[what.name]
        for base in bases:
            if is_it(base):
                return Layout(title, base, read, OFFICIAL)
    for base in bases:
        if what.name == "sun397" and _is_sun397(base):
            return Layout("SUN397, folders by letters", base, _read_sun397, "")
        if _has_parts(base):
            return Layout("class folders in train/ and test/", base, _read_parts)
    folder = _class_folder(what, bases)
    if folder is None:
        return None
    if what.name == "ucf101":
        lists = _ucf101_lists([folder, folder.parent, *bases])
        if lists is not None:
            return Layout(
                "class folders, trainlist01.txt and testlist01.txt",
                folder,
                lambda known, base: _read_ucf101(base, lists),
                OFFICIAL,
            )
    return Layout("class folders", folder, lambda known, base: read_classes(base), "")


def read_layout(what: Known, layout: Layout, split: str | None = None) -> Listing:
    """The pictures of a data set. `split` is `official` or `fraction`; where it is None, folders
    for training and testing are taken as they lie, and else the data set's own default is."""
    if split is None:
        split = OFFICIAL if layout.split == "folders" else what.default_split
    if split == OFFICIAL and not layout.split and what.name in _OFFICIAL:
        raise ProofError(
            f"'{layout.base}' holds class folders of {what.name} without the lists of its official "
            f"split: add them (`proof data show {what.name}`), or write "
            f"{what.name}:{layout.base}#split={FRACTION} to have a part kept for testing"
        )
    listing = layout.read(what, layout.base)
    if split == FRACTION:
        listing = replace(listing, parts=None)
    return replace(listing, layout=layout.title)


def prepare(what: Known, listing: Listing) -> Listing:
    """The pictures as they are to be encoded: those of ObjectNet without their red border."""
    if what.name != "objectnet":
        return listing
    paths = listing.pictures
    pictures = Lazy(range(len(paths)), lambda row: without_border(paths[row]))
    return replace(listing, pictures=pictures)


def class_name(what: Known, folder: str) -> str | None:
    """The official name of the class that a folder holds; None where it holds none."""
    return what.find(folder) if what.classes else folder


def folder_names(what: Known, where: str, folders: Iterable[str]) -> dict[str, str]:
    """Names for the classes of a data set whose list of classes is not known."""
    names = class_names_of(where, sorted(set(folders)))
    if what.name == "tv100":
        return {folder: name.removesuffix(" TV Series") for folder, name in names.items()}
    return names


def without_border(path: Picture) -> Picture:
    """An ObjectNet picture without the red border that its makers drew around it.

    It is decoded here, and given as pixels. Where there is no such border, or the file is no
    picture, its path is given: whoever reads it says what is wrong.
    """
    import numpy as np
    from PIL import Image

    from proof.pictures.decode import to_rgb

    assert isinstance(path, str)
    try:
        with Image.open(path) as image:
            pixels = np.asarray(to_rgb(image))
    except Exception:  # Pillow has no common error
        return path
    frame = (pixels[:_BORDER], pixels[-_BORDER:], pixels[:, :_BORDER], pixels[:, -_BORDER:])
    reds = np.concatenate([side.reshape(-1, 3) for side in frame]).mean(axis=0)
    is_red = reds[0] > 200 and reds[1] < 60 and reds[2] < 60
    if not is_red or min(pixels.shape[:2]) <= 2 * _BORDER:
        return path
    return np.ascontiguousarray(pixels[_BORDER:-_BORDER, _BORDER:-_BORDER])


def _bases(root: Path) -> Iterator[Path]:
    """The folder and those below it where a data set may begin, the nearest first."""
    level = [root]
    for _ in range(_DEEP):
        yield from level
        below = {base: look(base).folders for base in level}
        level = [base / name for base in level for name in below[base] if len(below[base]) < _MANY]
    yield from level


def _has_parts(base: Path) -> bool:
    try:
        return part_folders(base) is not None
    except ProofError:
        return False


def _read_parts(what: Known, base: Path) -> Listing:
    parts = part_folders(base)
    assert parts is not None
    return read_parts(base, *parts)


def _class_folder(what: Known, bases: list[Path]) -> Path | None:
    """The folder with the most folders that are named as classes and have pictures in them."""
    best: tuple[int, Path] | None = None
    for base in bases:
        folders = look(base).folders
        if what.classes:
            count = sum(what.find(name) is not None for name in folders)
        else:
            count = min(1, len(folders) - 1)  # the nearest with several
        # UCF101 has the same folders with videos in them.
        if count > 0 and (best is None or count > best[0]) and _any_picture(what, base, folders):
            best = count, base
    return best[1] if best else None


def _any_picture(what: Known, base: Path, folders: list[str]) -> bool:
    named = [name for name in folders if not what.classes or what.find(name)]
    return any(pictures_below(base / name)[0] for name in named)


def _listing(where: Path, rows: Iterable[tuple[str, str, str, str]]) -> Listing:
    """From rows of picture, label, name and part."""
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    if not columns[0]:
        raise ProofError(f"'{where}': its lists name no picture")
    pictures, labels, names, parts = map(list, columns)
    return Listing(str(where), "", pictures, labels, names, parts)


def _lines(path: Path) -> list[list[str]]:
    """The lines of a list, each cut at its first space."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ProofError(f"'{path}' cannot be read: {error}") from None
    rows = [line.strip().split(" ", 1) for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise ProofError(f"'{path}', line {number}: '{row[0]}': expected two words")
    return rows


def _read_cub200(what: Known, base: Path) -> Listing:
    training = dict(_lines(base / "train_test_split.txt"))
    rows = []
    for number, path in _lines(base / "images.txt"):
        if training.get(number) not in ("0", "1"):
            raise ProofError(
                f"'{base / 'train_test_split.txt'}': picture {number}: expected a line with 0 or 1"
            )
        label, _, name = path.partition("/")
        part = TRAIN if training[number] == "1" else TEST
        rows.append((str(base / "images" / path), label, name, part))
    return _listing(base, rows)


def _read_aircraft(what: Known, base: Path) -> Listing:
    return _listing(
        base,
        [
            (str(base / "images" / f"{number}.jpg"), variant, number, part)
            for part, name in ((TRAIN, "trainval"), (TEST, "test"))
            for number, variant in _lines(base / f"images_variant_{name}.txt")
        ],
    )


def _read_food101(what: Known, base: Path) -> Listing:
    rows = []
    for part in (TRAIN, TEST):
        path = base / "meta" / f"{part}.json"
        try:
            lists = json.loads(path.read_text(encoding="utf-8"))
            for label, pictures in lists.items():
                for picture in pictures:
                    file = str(base / "images" / f"{picture}.jpg")
                    rows.append((file, label, picture, part))
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ProofError(f"'{path}' is not a list of pictures by class: {error}") from None
    return _listing(base, rows)


def _read_cars(what: Known, base: Path) -> Listing:
    loadmat = import_extra("scipy.io", "data", f"reading the lists of {what.name}").loadmat

    def read(path: Path, key: str) -> Any:
        try:
            return loadmat(path, squeeze_me=True)[key]
        except Exception as error:  # scipy has no common error
            raise ProofError(f"'{path}' is not the official file: {error}") from None

    classes = [str(name) for name in read(base / "devkit" / "cars_meta.mat", "class_names")]
    lists = {
        TRAIN: ("cars_train", base / "devkit" / "cars_train_annos.mat"),
        TEST: ("cars_test", base / "cars_test_annos_withlabels.mat"),
    }
    rows = []
    for part, (folder, path) in lists.items():
        if not path.is_file():
            raise ProofError(f"no '{path}': the labels of the pictures in {folder}/ are in it")
        for row in read(path, "annotations"):
            number, name = int(row["class"]), str(row["fname"])
            if not 1 <= number <= len(classes):
                raise ProofError(f"'{path}': class {number}: expected 1 to {len(classes)}")
            file = str(base / folder / name)
            rows.append((file, classes[number - 1], f"{folder}/{name}", part))
    return _listing(base, rows)


def _is_cifar100(base: Path) -> bool:
    files = ("train", "test", "meta")
    return base.name == "cifar-100-python" and all((base / name).is_file() for name in files)


def _read_cifar100(what: Known, base: Path) -> Listing:
    torchvision = import_extra("torchvision.datasets", "data", f"reading the files of {what.name}")
    pictures: list[Picture] = []
    labels: list[str] = []
    names: list[str] = []
    parts: list[str] = []
    for part in (TRAIN, TEST):
        try:  # the files are pickles: torchvision opens them only if their checksums are right
            data = torchvision.CIFAR100(base.parent, train=part == TRAIN)
        except RuntimeError as error:
            raise ProofError(f"'{base}': {error}: remove the folder to download it anew") from None
        pictures += list(data.data)
        labels += [data.classes[code] for code in data.targets]
        names += [f"{part}/{row}" for row in range(len(data.targets))]
        parts += [part] * len(data.targets)
    return Listing(str(base), "", pictures, labels, names, parts)


def _is_sun397(base: Path) -> bool:
    folders = look(base).folders
    return bool(folders) and all(len(name) == 1 for name in folders)


def _read_sun397(what: Known, base: Path) -> Listing:
    paths, others = pictures_below(base)
    labels, names = zip(*(path.rsplit("/", 1) for path in paths if "/" in path), strict=True)
    pictures = [str(base / path) for path in paths if "/" in path]
    return Listing(str(base), "", pictures, labels, names, ignored=others)


def _ucf101_lists(places: Iterable[Path]) -> tuple[Path, Path] | None:
    for place in places:
        pair = place / "trainlist01.txt", place / "testlist01.txt"
        if all(path.is_file() for path in pair):
            return pair
    return None


def _read_ucf101(base: Path, lists: tuple[Path, Path]) -> Listing:
    """A picture's split is that of the video it is taken from, which has its name."""
    part_of: dict[str, str] = {}
    for part, path in zip((TRAIN, TEST), lists, strict=True):
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ProofError(f"'{path}' cannot be read: {error}") from None
        for line in lines:
            video = line.split(" ")[0].strip().rpartition("/")[2]
            part_of[_stem(video)] = part
    listing = read_classes(base)
    kept, parts = [], []
    for row, name in enumerate(listing.names):
        video = _stem(name.rpartition("/")[2])
        if video in part_of:
            kept.append(row)
            parts.append(part_of[video])
    if not kept:
        raise ProofError(
            f"'{base}': none of its pictures is called as a video of '{lists[0]}', such as "
            f"v_ApplyEyeMakeup_g08_c01.jpg"
        )
    return replace(
        listing,
        pictures=[listing.pictures[row] for row in kept],
        labels=[listing.labels[row] for row in kept],
        names=[listing.names[row] for row in kept],
        parts=parts,
        ignored=listing.ignored + len(listing.labels) - len(kept),
    )


def _stem(name: str) -> str:
    return name.rpartition(".")[0].casefold()  # HandstandPushups is spelt in two ways


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda base: all((base / name).is_file() for name in names)


# Data sets with a split of their own: the layout, how it is known, and how it is read.
_OFFICIAL: dict[str, tuple[str, Callable[[Path], bool], Callable[[Known, Path], Listing]]] = {
    "cifar100": ("cifar-100-python", _is_cifar100, _read_cifar100),
    "cub200": (
        "CUB_200_2011 with images.txt and train_test_split.txt",
        _has("images.txt", "train_test_split.txt"),
        _read_cub200,
    ),
    "aircraft": (
        "fgvc-aircraft with images_variant_trainval.txt and images_variant_test.txt",
        _has("images_variant_trainval.txt", "images_variant_test.txt"),
        _read_aircraft,
    ),
    "cars": ("stanford_cars with devkit", _has("devkit/cars_meta.mat"), _read_cars),
    "food101": (
        "food-101 with meta/train.json and meta/test.json",
        _has("meta/train.json", "meta/test.json"),
        _read_food101,
    ),
}
