"""One process at a time changes a model.

The lock is on a small file beside the model and belongs to the process that has it open: the
system takes it back when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from proof.errors import ProofError
from proof.files import check_writable

_PATIENCE = 1.0  # seconds of waiting without a word
_PAUSE = 0.02  # seconds between two tries
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)

_thread = threading.local()  # .held: the models that this thread has locked


def followed(path: str | os.PathLike[str]) -> Path:
    """Where a link leads, so that the file is changed and not the link."""
    return Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)


@contextmanager
def locked(
    path: str | os.PathLike[str], waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Keep other processes from changing the model at `path`; wait for one that does.

    After a second `waiting` is told so, once. A thread may lock again what it has locked. Reading
    needs no lock: the file is whole at every moment.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "kitchen.proof"
    >>> with locked(path, waiting=print):
    ...     pass  # read it, teach it, write it
    """
    target = followed(path)
    held: set[str] = _thread.__dict__.setdefault("held", set())
    key = os.path.realpath(target)
    if key in held:
        yield
        return
    check_writable(target)
    if target.exists() and not os.access(target, os.W_OK):
        raise ProofError(f"cannot write '{target}': it is read-only")
    lock = target.with_name(f".{target.name}.lock")
    message = f"waiting for another process that is teaching {target.name}"
    try:
        file = _take(lock, lambda: waiting(message) if waiting else None)
    except OSError as error:
        raise ProofError(f"cannot lock '{target}': {error.strerror}") from None
    held.add(key)
    try:
        yield
    finally:
        held.discard(key)
        with contextlib.suppress(OSError):  # Windows removes no open file
            lock.unlink()
        os.close(file)


def _take(lock: Path, tell: Callable[[], None]) -> int:
    """The lock file, open and ours."""
    patience = time.monotonic() + _PATIENCE
    while (file := _try(lock)) is None:
        if time.monotonic() > patience:
            tell()
            patience = math.inf
        time.sleep(_PAUSE)
    return file


def _try(lock: Path) -> int | None:
    """The lock file, open and ours, where no other process has it."""
    file = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    ours = False
    try:
        # Its last owner may have removed it after we opened it, and another have made a new one.
        ours = _free(file) and os.path.samestat(os.fstat(file), lock.stat())
    except FileNotFoundError:
        pass
    finally:
        if not ours:
            os.close(file)
    return file if ours else None


def _free(file: int) -> bool:
    """Whether nobody had the lock; then we have it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks: the revision still tells of most changes by others.
        return error.errno not in _BUSY
    return True
