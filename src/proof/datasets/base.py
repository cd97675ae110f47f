"""What a data set is, and the one way that every source becomes one.

A source (folders, a table, ...) gives a `Listing`: pictures with the labels that it uses itself.
`finish` gives the classes their names and their order, and cuts training from testing.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

from proof.datasets.splits import cut
from proof.errors import ProofError
from proof.words import quoted

if TYPE_CHECKING:
    from proof.pictures.reader import Picture

DEFAULT_TEMPLATES = ("a photo of a {}.",)
TRAIN, TEST, VALIDATION = "train", "test", "validation"
PARTS = {
    "train": TRAIN, "training": TRAIN,
    "test": TEST, "testing": TEST,
    "val": VALIDATION, "valid": VALIDATION, "validation": VALIDATION,
}  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    """Pictures, and the name of the class that each shows."""

    pictures: Sequence[Picture]
    labels: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.pictures) != len(self.labels):
            raise ProofError(f"{len(self.pictures)} pictures with {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """Pictures for training and testing, and the names of the classes.

    >>> cups = Labelled(["cups/1.jpg", "cups/2.jpg"], ["cup", "cup"])
    >>> Dataset("kitchen", cups, Labelled([], []), ("cup",)).templates
    ('a photo of a {}.',)
    """

    name: str
    train: Labelled
    test: Labelled
    class_names: tuple[str, ...]
    templates: tuple[str, ...] = DEFAULT_TEMPLATES
    metadata: dict[str, str] = field(default_factory=dict)
    ignored: int = 0  # files among the pictures that are none

    def __post_init__(self) -> None:
        if not self.class_names:
            raise ProofError(f"{self.name}: there is no class in it")
        if len(set(self.class_names)) != len(self.class_names):
            twice = [name for name, count in Counter(self.class_names).items() if count > 1]
            raise ProofError(f"{self.name}: class name '{twice[0]}' stands there twice")
        strange = set(self.train.labels).union(self.test.labels).difference(self.class_names)
        if strange:
            raise ProofError(f"{self.name}: label '{min(strange)}' is none of the class names")
        if not self.templates:
            raise ProofError("no template: expected at least one, such as 'a photo of a {}.'")
        for template in self.templates:
            check_template(template)


@dataclass(frozen=True)
class Listing:
    """What a source holds, with labels as the source spells them."""

    where: str  # for messages
    layout: str  # what kind of source it is, for people
    pictures: Sequence[Picture]
    labels: Sequence[str]
    names: Sequence[str]  # what each picture is called inside its class; empty: parts are given
    parts: Sequence[str] | None = None  # TRAIN, TEST or VALIDATION for each; None: not given
    order: Sequence[str] | None = None  # of the labels; None: sorted by the classes' names
    ignored: int = 0


class Lazy(Sequence["Picture"]):
    """Pictures that are made when they are asked for.

    >>> pictures = Lazy(range(3), lambda number: f"{number}.jpg")
    >>> len(pictures), pictures[-1], pictures[:2]
    (3, '2.jpg', ['0.jpg', '1.jpg'])
    """

    def __init__(self, rows: Sequence[int], fetch: Callable[[int], Picture]) -> None:
        self._rows, self._fetch = rows, fetch

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> list[Picture]: ...
    def __getitem__(self, index: int | slice) -> Picture | list[Picture]:
        if isinstance(index, slice):
            return [self._fetch(row) for row in self._rows[index]]
        return self._fetch(self._rows[index])

    def choose(self, places: Sequence[int]) -> Lazy:
        """Some of the pictures; none of them is fetched."""
        return Lazy([self._rows[place] for place in places], self._fetch)


def check_template(template: str) -> None:
    """A prompt has one place for a name."""
    if template.count("{}") != 1 or set("{}") & set(template.replace("{}", "")):
        raise ProofError(f"template '{template}' needs one {{}} where the name goes")


def readable(label: str) -> str:
    """A folder's name as a person would write it.

    >>> readable("moka_pot")
    'moka pot'
    """
    return " ".join(label.replace("_", " ").split())


def class_names_of(where: str, labels: Iterable[str]) -> dict[str, str]:
    """Labels to readable names. Two labels with one name are a mistake."""
    names: dict[str, str] = {}
    owner: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        name = readable(label)
        if not name:
            raise ProofError(f"{where}: the label '{label}' holds no name: rename it")
        if name in owner:
            raise ProofError(
                f"{where}: '{owner[name]}' and '{label}' are both called '{name}' when underscores "
                f"are read as spaces: rename one of them, or put them together"
            )
        owner[name] = label
        names[label] = name
    return names


def read_list(path: Path, what: str, one: str) -> list[str]:
    """The lines of a text file with one thing on a line, such as "classes", "a class"."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ProofError(f"the list of {what} '{path}' cannot be read: {error}") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise ProofError(f"the list of {what} '{path}' is empty: expected {one} on each line")
    return found


def choose_classes(
    path: Path, names: dict[str, str], find: Callable[[str], str | None]
) -> list[str]:
    """The labels that a list of classes names, in its order; `names` are all there are."""
    labels: list[str] = []
    for line in read_list(path, "classes", "a class"):
        label = find(line)
        if label is None:
            near = difflib.get_close_matches(line, [*names.values(), *names], n=3)
            known = quoted(sorted(names.values()))
            hint = f"did you mean '{near[0]}'?" if near else f"there are {known}"
            raise ProofError(f"{path}: there is no class '{line}': {hint}")
        if label in labels:
            raise ProofError(f"{path}: class '{line}' stands there twice")
        labels.append(label)
    return labels


def find_label(names: dict[str, str]) -> Callable[[str], str | None]:
    """Labels by themselves or by their readable names."""
    by_name = {name: label for label, name in names.items()}
    return lambda given: given if given in names else by_name.get(readable(given))


def finish(
    listing: Listing,
    name: str,
    *,
    names: dict[str, str] | None = None,
    chosen: Sequence[str] | None = None,
    test_fraction: float,
    split_seed: int,
    templates: Sequence[str],
    metadata: dict[str, str],
) -> Dataset:
    """Make a data set of a listing: class names, their order, training and testing.

    `names` gives labels their class names (`readable` ones where it is None), `chosen` selects
    and orders labels.
    """
    where = listing.where
    if not 0 <= test_fraction < 1:
        raise ProofError(f"test fraction {test_fraction}: expected 0 or more and less than 1")
    if names is None:
        names = class_names_of(where, listing.labels)
    if chosen is None:
        there = set(listing.labels)
        ordered = listing.order or sorted(there, key=names.__getitem__)
        chosen = [label for label in ordered if label in there]
    rows: dict[str, list[int]] = {label: [] for label in chosen}
    for row, label in enumerate(listing.labels):
        if label in rows:
            rows[label].append(row)
    parts, facts = listing.parts, dict(metadata)
    train: list[int] = []
    test: list[int] = []
    if parts is None:
        facts["split"] = f"{test_fraction:g} of each class for testing, seed {split_seed}"
        for label, mine in rows.items():
            inside = [listing.names[row] for row in mine]
            testing = cut(names[label], inside, test_fraction, split_seed)
            for row, is_test in zip(mine, testing, strict=True):
                (test if is_test else train).append(row)
    else:
        facts["split"] = "given"
        testing_part = TEST if TEST in parts else VALIDATION
        for mine in rows.values():
            train += [row for row in mine if parts[row] == TRAIN]
            test += [row for row in mine if parts[row] == testing_part]
        unused = sum(map(len, rows.values())) - len(train) - len(test)
        if unused:
            facts["unused"] = f"{unused} pictures for validation"
        if not train:
            raise ProofError(f"{where}: no picture is for training: expected some with 'train'")
    _check_training(where, [names[label] for label in chosen], names, listing, train, test)
    train.sort()
    test.sort()
    return Dataset(
        name,
        _labelled(listing, train, names),
        _labelled(listing, test, names),
        tuple(names[label] for label in chosen),
        tuple(templates),
        {"layout": listing.layout, **facts},
        listing.ignored,
    )


def _labelled(listing: Listing, rows: list[int], names: dict[str, str]) -> Labelled:
    pictures = listing.pictures
    mine = pictures.choose(rows) if isinstance(pictures, Lazy) else [pictures[row] for row in rows]
    return Labelled(mine, [names[listing.labels[row]] for row in rows])


def _check_training(
    where: str,
    classes: list[str],
    names: dict[str, str],
    listing: Listing,
    train: list[int],
    test: list[int],
) -> None:
    trained = {names[listing.labels[row]] for row in train}
    untrained = [name for name in classes if name not in trained]
    if untrained:
        tested = Counter(names[listing.labels[row]] for row in test)
        first = untrained[0]
        raise ProofError(
            f"{where}: {len(untrained)} of {len(classes)} classes have no training picture, first "
            f"'{first}' ({tested[first]} for testing): add some, or choose the classes with a "
            f"list (--classes FILE)"
        )
