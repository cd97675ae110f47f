"""Known data sets: one TOML file for each, with its classes, its files and how it lies on disk.

Those of the paper are in the folder `known` of the package; a file `NAME.toml` in the folder of
data sets (`PROOF_DATA`) adds one. `docs/adding-a-data-set.md` describes the file.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import shutil
import sys
import tempfile
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from proof.datasets.base import DEFAULT_TEMPLATES
from proof.datasets.folders import look
from proof.errors import ProofError
from proof.extras import import_extra

OFFICIAL, FRACTION = "official", "fraction"
# Those whose addresses torchvision can still use. Stanford Cars and SUN397 are gone from theirs.
_DOWNLOADS = ("CIFAR100", "FGVCAircraft", "Food101")
_BUILTIN = files("proof.datasets") / "known"
_ROOM = 2.1  # an archive and what is in it, as a multiple of the archive


@dataclass(frozen=True)
class File:
    """An archive that a data set comes in."""

    name: str
    url: str = ""
    bytes: int = 0  # 0: unknown
    md5: str = ""


@dataclass(frozen=True)
class Known:
    """What is known of a data set."""

    name: str
    title: str
    about: str = ""
    homepage: str = ""
    licence: str = ""
    citation: str = ""
    protocols: tuple[str, ...] = ()
    use: int = 0  # the first so many classes are used; 0: all
    subset: str = ""  # why not all of them
    train: int = 0  # pictures, as the paper uses it; 0: unknown
    test: int = 0
    split: str = ""
    default_split: str = OFFICIAL  # or FRACTION: cut by chance though there are official lists
    torchvision: str = ""
    layout: str = ""
    templates: tuple[str, ...] = DEFAULT_TEMPLATES
    files: tuple[File, ...] = ()
    classes: dict[str, str] = field(default_factory=dict)  # official name to a person's

    @property
    def used(self) -> list[str]:
        """The official names of the classes that are used, in their order."""
        return list(self.classes)[: self.use or None]

    @property
    def downloads(self) -> bool:
        """Whether it can be downloaded here."""
        return self.torchvision in _DOWNLOADS

    @property
    def size(self) -> int:
        """Bytes of all its files, 0 where one is unknown."""
        sizes = [file.bytes for file in self.files]
        return sum(sizes) if all(sizes) else 0

    def find(self, name: str) -> str | None:
        """The official name of the class that a folder's or a list's name means.

        Official and readable names are both understood, however their words are joined.
        """
        return self._spellings.get(name) or self._spellings.get(_bare(name))

    @cached_property
    def _spellings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        # An exact name means more than one with its words joined otherwise.
        makers: tuple[Callable[[str, str], str], ...] = (
            lambda official, readable: official,
            lambda official, readable: readable,
            lambda official, readable: _bare(official),
            lambda official, readable: _bare(readable),
            lambda official, readable: _bare(_below_letter(official)),
        )
        for maker in makers:
            spelt: dict[str, str | None] = {}
            for official, readable in self.classes.items():
                spelling = maker(official, readable)
                spelt[spelling] = None if spelling in spelt else official
            for spelling, one in spelt.items():
                if spelling and one:
                    found.setdefault(spelling, one)
        return found


def known_names() -> list[str]:
    """The names of all known data sets.

    >>> "cub200" in known_names()
    True
    """
    return sorted(_toml_files())


def known(name: str) -> Known:
    """What is known of a data set.

    >>> known("cub200").title
    'CUB-200-2011'
    """
    available = _toml_files()
    if name not in available:
        near = difflib.get_close_matches(name, available, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise ProofError(
            f"no known data set '{name}': {hint}expected one of {', '.join(sorted(available))}"
        )
    sources = available[name]
    if len(sources) > 1:
        raise ProofError(
            f"'{sources[1]}' describes '{name}', which the package knows already: rename the file"
        )
    return read_known(sources[0], name)


def read_known(file: Any, name: str) -> Known:
    """Read the TOML file of a data set."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProofError(f"{file}: not a TOML file that can be read: {error}") from None
    archives = _take(file, values, "files", list, [])
    classes = _take(file, values, "classes", dict, {})
    checked: dict[str, Any] = {}
    for key, kind in _KEYS.items():
        if key in values:
            checked[key] = _take(file, values, key, kind, None)
    if values:
        raise ProofError(f"{file}: unknown key '{next(iter(values))}'")
    if not checked.get("title"):
        raise ProofError(f'{file}: no title: expected title = "..."')
    for key in ("protocols", "templates"):
        if key in checked:
            if not all(isinstance(value, str) for value in checked[key]):
                raise ProofError(f"{file}: '{key}' is not a list of texts")
            checked[key] = tuple(checked[key])
    if not all(isinstance(readable, str) and readable for readable in classes.values()):
        raise ProofError(f"{file}: [classes] has a name that is no text")
    twice = [name for name, count in Counter(classes.values()).items() if count > 1]
    if twice:
        raise ProofError(f"{file}: two classes are called '{twice[0]}'")
    if checked.get("use", 0) > len(classes) and classes:
        raise ProofError(f"{file}: use = {checked['use']}, but it has {len(classes)} classes")
    if checked.get("default_split", OFFICIAL) not in (OFFICIAL, FRACTION):
        raise ProofError(f"{file}: default_split: expected '{OFFICIAL}' or '{FRACTION}'")
    return Known(name, files=_archives(file, archives), classes=classes, **checked)


def data_home() -> Path:
    """Where known data sets lie: `PROOF_DATA`, else `proof` in the user's folder for data."""
    if given := os.environ.get("PROOF_DATA"):
        return Path(given).expanduser()
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser() / "proof/data"
    own = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(os.environ.get("XDG_DATA_HOME") or own).expanduser() / "proof"


def check_md5(path: Path, md5: str, progress: Callable[[int], None] | None = None) -> bool:
    """Whether a file has a checksum. `progress` is told the bytes that were read."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            if progress:
                progress(len(piece))
    return digest.hexdigest() == md5


def fetch(what: Known, root: Path) -> None:
    """Download a data set with torchvision. It is there whole afterwards, or not at all."""
    torchvision = import_extra("torchvision", "data", f"downloading {what.name}")
    made = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
        if what.size * _ROOM > free:
            raise ProofError(
                f"{what.name} needs {what.size * _ROOM / 1e9:.1f} GB for its archive and what is "
                f"in it, and '{root}' has {free / 1e9:.1f} GB free: set PROOF_DATA to a "
                f"folder with more room"
            )
        print(f"downloading {what.title} into '{root}'", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=root) as folder:
            inside = Path(folder)
            getattr(torchvision.datasets, what.torchvision)(inside, download=True)
            for file in what.files:
                path = inside / file.name
                if file.md5 and path.is_file() and not check_md5(path, file.md5):
                    raise ProofError(f"{file.url}: what came has another checksum than known")
            for child in list(inside.iterdir()):
                child.rename(root / child.name)
    except (OSError, RuntimeError, ValueError) as error:  # as urllib and torchvision raise them
        raise ProofError(
            f"{what.name} could not be downloaded ({error}). {where_from(what, root)}"
        ) from None
    finally:
        if made:
            with contextlib.suppress(OSError):  # it holds something, as it should
                root.rmdir()


def not_found(what: Known, root: Path) -> ProofError:
    """The error where a data set does not lie where it was looked for."""
    if not root.is_dir():
        state = f"{what.name} is not on this machine: there is no folder '{root}'"
    else:
        inside = look(root)
        shown = ", ".join(f"{name}/" for name in inside.folders[:5])
        state = (
            f"'{root}' does not hold {what.name} in a layout that is known: it has "
            f"{shown or 'no folders'}{', ...' if len(inside.folders) > 5 else ''}"
        )
        packed = [file.name for file in what.files if (root / file.name).is_file()]
        if packed:
            state += f"; {', '.join(packed)} lies there: unpack it"
    return ProofError(f"{state}. {where_from(what, root)}")


def where_from(what: Known, root: Path) -> str:
    """Where the files come from and where they go, in a sentence."""
    sources = ", ".join(f"{file.name} ({file.url})" for file in what.files)
    got = f"Get {sources}, and unpack it" if sources else "Put its pictures"
    return (
        f"{got} in '{root}'; or put class folders into '{root / 'train'}' and '{root / 'test'}'. "
        f"`proof data show {what.name}` says more"
    )


_KEYS: dict[str, type] = {
    "title": str, "about": str, "homepage": str, "licence": str, "citation": str,
    "protocols": list, "use": int, "subset": str, "train": int, "test": int, "split": str,
    "default_split": str, "torchvision": str, "layout": str, "templates": list,
}  # fmt: skip


def _take(file: Any, values: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    value: Any = values.pop(key, default)
    negative = isinstance(value, int) and value < 0
    if not isinstance(value, kind) or isinstance(value, bool) or negative:
        wanted = {str: "a text", int: "a whole number", list: "a list", dict: "a table"}[kind]
        raise ProofError(f"{file}: '{key}' is {value!r}: expected {wanted}")
    return value.strip() if isinstance(value, str) else value


def _archives(file: Any, tables: list[Any]) -> tuple[File, ...]:
    archives = []
    for table in tables:
        try:
            archive = File(**table)
            if not all(isinstance(text, str) for text in (archive.name, archive.url, archive.md5)):
                raise TypeError
            archives.append(File(**{**table, "bytes": int(archive.bytes)}))
        except (TypeError, ValueError):
            raise ProofError(
                f"{file}: [[files]] {table!r}: expected name, url, bytes and md5"
            ) from None
    return tuple(archives)


def _toml_files() -> dict[str, list[Any]]:
    """Names to their files: those of the package first, then the user's."""
    found: dict[str, list[Any]] = {}
    home = data_home()
    own = sorted(home.glob("*.toml")) if home.is_dir() else []
    for file in [*_BUILTIN.iterdir(), *own]:
        if file.name.endswith(".toml"):
            found.setdefault(file.name.removesuffix(".toml"), []).append(file)
    return found


def _bare(name: str) -> str:
    """The letters and digits of a name: however its words are joined, it is the same."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in folded if letter.isalnum())


def _below_letter(official: str) -> str:
    """SUN397 sorts its classes by letters: `a/abbey` is `abbey` elsewhere."""
    letter, _, rest = official.partition("/")
    return rest if letter and rest.startswith(letter) and len(letter) == 1 else ""
