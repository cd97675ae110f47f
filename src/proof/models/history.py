"""Writing a model, and the versions before it.

A hidden folder beside `kitchen.proof` holds them, each under its revision. Every version names the
one that it replaced, so that undoing follows a chain: what was left there by a killed process, or
belongs to another file of that name, is not in the chain, is never brought back, and is removed at
the next write. All changes are made under the lock, and the model itself changes by one rename.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proof.errors import ProofError
from proof.files import replacing
from proof.models.file import SUFFIX, Model, read_header, read_model, serialize
from proof.models.header import Header
from proof.models.lock import followed, locked

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 10  # versions that can be brought back
_OURS = re.compile(r"([0-9a-f]{16}|\.[0-9a-f]{16}\.[0-9a-f]{12}\.partial)\.proof")


def write_model(
    path: str | os.PathLike[str],
    manifest: dict[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    expecting: str | None = None,
    keep: bool = True,
) -> str:
    """Write a model in one step, and return its revision.

    `expecting` is the revision that was read: where the file is of another by now, nothing is
    written. The version that is replaced can be brought back, unless `keep` is False: then it is
    gone, and all before it.

    >>> import tempfile, torch
    >>> path = Path(tempfile.mkdtemp()) / "kitchen.proof"
    >>> first = write_model(path, {"classes": 1}, {"means": torch.ones(1, 4)})
    >>> second = write_model(path, {"classes": 2}, {"means": torch.ones(2, 4)}, expecting=first)
    >>> undo(path).manifest
    {'classes': 1}
    """
    path = followed(path)
    if path.suffix != SUFFIX:
        raise ProofError(f"cannot write '{path}': the name of a model ends in {SUFFIX}")
    with locked(path):
        old = read_header(path) if path.exists() else None
        _check_expected(path, old, expecting)
        try:
            revision, parts = serialize(manifest, tensors, old.revision if old else None)
        except ValueError as error:
            raise ProofError(f"cannot write '{path}': {error}") from None
        folder = _folder(path)
        new = folder / f"{revision}{SUFFIX}"
        with _changing(path):
            with replacing(new, like=path) as partial, partial.open("wb") as file:
                file.writelines(parts)
            if old and keep:
                _keep(path, folder / f"{old.revision}{SUFFIX}")
            if not keep:
                _remove(folder, but=[new])
            os.replace(new, path)
    return revision


def steps(path: str | os.PathLike[str]) -> list[Path]:
    """The earlier versions that can be brought back, the latest first. Each is a model's file."""
    path = followed(path)
    folder = _folder(path)
    header, found = read_header(path), list[Path]()
    while header.parent and len(found) < KEPT:
        earlier = folder / f"{header.parent}{SUFFIX}"
        if earlier.is_symlink() or not earlier.is_file():
            break
        found.append(earlier)
        try:
            header = read_header(earlier)
        except ProofError:  # who wants this one is told; those before it cannot be found
            break
    return found


def undo(path: str | os.PathLike[str]) -> Model:
    """Go back by one version, and return it. The version that is left is gone."""
    path = followed(path)
    read_header(path)  # a name without a model gets no lock
    with locked(path):
        earlier = steps(path)
        if not earlier:
            raise ProofError(
                f"nothing to undo: there is no earlier version of '{path}' in '{_folder(path)}'"
            )
        model = read_model(earlier[0])
        with _changing(path):
            shutil.copymode(path, earlier[0])  # it may be private by now
            os.replace(earlier[0], path)
    return model


def drop_history(path: str | os.PathLike[str]) -> None:
    """Remove all earlier versions, and what killed processes left of versions to come."""
    path = followed(path)
    folder = _folder(path)
    if folder.exists():
        with locked(path), _changing(path):
            _remove(folder)


def _folder(path: Path) -> Path:
    folder = path.with_name(f".{path.name}.history")
    if folder.is_symlink():
        raise ProofError(f"'{folder}' is a link, and earlier versions are kept there: remove it")
    return folder


def _check_expected(path: Path, old: Header | None, expecting: str | None) -> None:
    if expecting is not None and old is None:
        raise ProofError(f"'{path}' was removed since it was loaded: save it under another name")
    if old and expecting not in (None, old.revision):
        raise ProofError(
            f"'{path}' was changed by another process since it was loaded: load it again"
        )


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Leave the folder tidy, whether the change succeeds or not."""
    try:
        yield
    except OSError as error:
        raise ProofError(f"cannot write '{path}': {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError, ProofError):  # else it is removed another time
            _remove(_folder(path), but=steps(path) if path.exists() else [])


def _keep(path: Path, kept: Path) -> None:
    """Give the file a second name, so that it outlives the first."""
    try:
        kept.hardlink_to(path)
    except OSError:  # a file system without links, or the link of a process that was killed
        with replacing(kept, like=path) as partial:
            shutil.copyfile(path, partial)


def _remove(folder: Path, but: list[Path] | None = None) -> None:
    """Remove our files, and the folder where it is empty then."""
    for file in list(folder.iterdir()):
        if _OURS.fullmatch(file.name) and file not in (but or []):
            file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
