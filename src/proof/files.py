"""Writing files so that a crash never leaves half of one."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from proof.errors import ProofError


@contextmanager
def replacing(path: Path, *, wait: bool = True, like: Path | None = None) -> Iterator[Path]:
    """A path to write to, which then takes the place of `path` in one step.

    Where writing fails or is interrupted, what was at `path` stays as it was. The new file has the
    permissions that the user's umask gives, or those of the file `like`, where there is one. `wait`
    until the disk has it, so that it also outlives a power cut.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with replacing(target) as partial:
    ...     _ = partial.write_text("all of it")
    >>> target.read_text()
    'all of it'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = uuid.uuid4().hex[:12]  # not the process: threads and other machines write here too
    partial = path.with_name(f".{path.stem[:64]}.{mine}.partial{path.suffix}")
    try:
        partial.touch()
        if like and like.exists():
            shutil.copymode(like, partial)
        mode = partial.stat().st_mode
        try:
            yield partial
        except SafetensorError as error:  # a full disk, by another name
            raise OSError(f"cannot write '{path}': {error}") from None
        partial.chmod(mode)  # some writers replace the file by one of their own
        if wait:
            with partial.open("r+b") as file:
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Find out before the work, not after it, that a result could not be written."""
    if path.is_dir():
        raise ProofError(f"'{path}' is a folder: expected the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProofError(f"cannot write '{path}': {error}") from None
    if not os.access(path.parent, os.W_OK):
        raise ProofError(f"cannot write '{path}': its folder is read-only")
