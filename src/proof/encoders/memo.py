"""What is known of an encoder's weights, so that they need not be loaded to be recognised."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from proof.cache import Cache
from proof.encoders.base import Facts
from proof.files import replacing
from proof.pictures.preprocessing import Preprocessing
from proof.pictures.reader import file_status

Stamps = list[tuple[str, tuple[int, ...]]]


def recall(cache: Cache, name: str, version: str) -> Facts | None:
    """The facts of an encoder as they were noted, if its files are still those of that time."""
    try:
        note = json.loads(_path(cache, name).read_text())
        unchanged = note["version"] == version and all(
            list(file_status(Path(path).stat())) == status for path, status in note["files"]
        )
        facts = note["facts"]
        facts["preprocessing"] = Preprocessing.from_json(facts["preprocessing"])
        return Facts(**facts) if unchanged else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def stamp(files: Sequence[Path]) -> Stamps:
    """Files, or folders, as they are now: to be taken before an encoder is made from them."""
    paths = [path.resolve() for path in files]
    return [(str(path), file_status(path.stat())) for path in paths]


def note(cache: Cache, name: str, version: str, stamps: Stamps, facts: Facts) -> None:
    """Note the facts of an encoder that was made from files by `version` of its library, unless
    they have changed since they were stamped."""
    if stamp([Path(path) for path, _ in stamps]) != stamps:
        return
    text = {
        "name": name,
        "version": version,
        "files": stamps,
        "facts": dataclasses.asdict(facts),
    }
    with contextlib.suppress(OSError), replacing(_path(cache, name)) as partial:  # if it can be
        partial.write_text(json.dumps(text, indent=1) + "\n")


def hash_files(files: Sequence[Path], *more: str) -> str:
    """A fingerprint of files by their bytes."""
    digest = hashlib.sha256("\n".join(more).encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _path(cache: Cache, name: str) -> Path:
    return cache.root / "encoders" / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
