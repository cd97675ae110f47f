"""The header of a `.proof` file: what it must say, and how it is checked before it is believed.

A header may come from anyone. All of it is looked at here, against limits and against the size of
the file, before a tensor is read. What is wrong is a ValueError whose text says what.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from proof.errors import ProofError

FORMAT = 1
TYPES = {  # safetensors' name of a type: torch's, and the bytes of a number
    "F64": ("float64", 8), "I64": ("int64", 8), "F32": ("float32", 4), "I32": ("int32", 4),
    "F16": ("float16", 2), "BF16": ("bfloat16", 2), "I16": ("int16", 2),
    "I8": ("int8", 1), "U8": ("uint8", 1), "BOOL": ("bool", 1),
}  # fmt: skip

# What a file may claim. Models stay far below; a hostile file must not fill the memory.
MOST_HEADER = 16 * 2**20  # bytes
MOST_DATA = 16 * 2**30  # bytes
_MOST_TENSORS = 20_000
_MOST_DIMENSIONS = 8
_LONGEST_NAME = 255
_DEEPEST = 100  # lists and objects inside each other: who walks through them must not fall

_REVISION = re.compile("[0-9a-f]{16}")

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """What a header says of one tensor."""

    name: str
    kind: str  # one of TYPES
    shape: tuple[int, ...]
    start: int  # its first byte, counted from the end of the header
    end: int
    sha256: str


@dataclass(frozen=True)
class Header:
    """All of a file but its tensors."""

    manifest: dict[str, Any]
    revision: str  # random, another at every write
    parent: str | None  # the revision that this one replaced
    entries: tuple[Entry, ...]  # as they lie in the file

    def dump(self) -> bytes:
        """The bytes that `parse` reads. What it would refuse is refused here."""
        metadata = {
            "format": f"proof {FORMAT}",
            "revision": self.revision,
            **({"parent": self.parent} if self.parent else {}),
            "manifest": _dump(self.manifest).decode(),
            "sha256": _dump({entry.name: entry.sha256 for entry in self.entries}).decode(),
        }
        metadata["checksum"] = _checksum(metadata, self.entries)
        tensors = {
            entry.name: {
                "dtype": entry.kind,
                "shape": entry.shape,
                "data_offsets": (entry.start, entry.end),
            }
            for entry in self.entries
        }
        data = _dump({"__metadata__": metadata, **tensors})
        data += b" " * (-len(data) % 8)  # so that a tensor is where its type may be in memory
        self.parse(data, self.entries[-1].end if self.entries else 0)
        return data

    @classmethod
    def parse(cls, data: bytes, room: int) -> Header:
        """Read a header that `room` bytes of tensors follow."""
        if len(data) > MOST_HEADER:
            raise ValueError(f"its header has {len(data):,} bytes: at most {MOST_HEADER:,} fit")
        if not data.startswith(b"{"):
            raise ValueError("it is not a model of proof")
        try:
            said = _parse(data.decode())
        except UnicodeDecodeError:
            raise ValueError("it is damaged: its header is not text") from None
        metadata = _metadata(said.pop("__metadata__", None))
        entries = _entries(said, _parse(metadata.get("sha256", "")))
        if [entry.start for entry in entries] != [0, *(entry.end for entry in entries)][:-1]:
            raise ValueError("it is damaged: its tensors do not lie one behind the other")
        end = entries[-1].end if entries else 0
        if end != room:
            raise ValueError(f"it is damaged: expected {end:,} bytes of tensors, found {room:,}")
        if metadata.get("checksum") != _checksum(metadata, entries):
            raise ValueError("it is damaged: its header is not what was written")
        manifest = _parse(metadata.get("manifest", ""))
        _check_depth(manifest)
        _dump(manifest)  # an escape may spell text that cannot be printed
        revision, parent = metadata.get("revision", ""), metadata.get("parent")
        for text in (revision, parent or revision):
            if not _REVISION.fullmatch(text):  # it becomes the name of a file
                raise ValueError("its revision is not 16 hexadecimal digits")
        return cls(manifest, revision, parent, entries)


def field(
    manifest: dict[str, Any],
    name: str,
    kind: type[T],
    *,
    of: type | None = None,
    where: str | os.PathLike[str] = "the manifest",
) -> T:
    """An entry of a manifest, which must be a `kind`, and each value in it an `of`.

    >>> field({"classes": ["moka pot"]}, "classes", list, of=str)
    ['moka pot']
    >>> field({"classes": "moka pot"}, "classes", list, where="kitchen.proof")
    Traceback (most recent call last):
    proof.errors.ProofError: kitchen.proof: 'classes' is str: expected list
    """
    if name not in manifest:
        raise ProofError(f"{os.fspath(where)}: '{name}' is missing")
    value = manifest[name]
    if type(value) is not kind:  # not isinstance: True is no number
        found = type(value).__name__
        raise ProofError(f"{os.fspath(where)}: '{name}' is {found}: expected {kind.__name__}")
    if of is not None:
        inside: Any = manifest[name]
        for item in inside.values() if kind is dict else inside:
            if type(item) is not of:
                raise ProofError(
                    f"{os.fspath(where)}: '{name}' holds {type(item).__name__}: expected "
                    f"{kind.__name__} of {of.__name__}"
                )
    return value


def _metadata(said: Any) -> dict[str, str]:
    """The metadata, where they are those of a format that we know."""
    metadata: dict[str, str] = said if isinstance(said, dict) else {}
    if all(isinstance(text, str) for text in metadata.values()):
        version = re.fullmatch("proof ([0-9]{1,9})", metadata.get("format", ""))
        if version and int(version[1]) <= FORMAT:
            return metadata
        if version:
            raise ValueError("it was written by a newer proof: pip install -U proof-vlm")
    raise ValueError("it is a safetensors file, but not a model of proof")


def _entries(said: dict[str, Any], sums: dict[str, Any]) -> tuple[Entry, ...]:
    if len(said) > _MOST_TENSORS:
        raise ValueError(f"it has {len(said):,} tensors: expected at most {_MOST_TENSORS:,}")
    if said.keys() != sums.keys():
        raise ValueError("it is damaged: its checksums are not those of its tensors")
    entries = []
    for name, entry in said.items():
        if len(name) > _LONGEST_NAME or not _possible(entry) or not isinstance(sums[name], str):
            raise ValueError(f"tensor {name[:40]!a} cannot be as the header describes it")
        start, end = entry["data_offsets"]
        entries.append(Entry(name, entry["dtype"], tuple(entry["shape"]), start, end, sums[name]))
    return tuple(sorted(entries, key=lambda entry: (entry.start, entry.end)))


def _possible(entry: Any) -> bool:
    """Whether a tensor can have such a type, shape and place."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return False
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        return False
    if kind not in TYPES or len(shape) > _MOST_DIMENSIONS or len(offsets) != 2:
        return False
    if not all(type(n) is int and 0 <= n <= MOST_DATA for n in (*shape, *offsets)):
        return False
    if math.prod(n or 1 for n in shape) > MOST_DATA:  # strides exist where there are no numbers
        return False
    return bool(offsets[1] - offsets[0] == math.prod(shape) * TYPES[kind][1])


def _checksum(metadata: Mapping[str, str], entries: Sequence[Entry]) -> str:
    """The sha256 of all that a header says, but for places: the tensors' own sums hold those."""
    said = {
        "metadata": {name: text for name, text in metadata.items() if name != "checksum"},
        "tensors": {entry.name: [entry.kind, entry.shape] for entry in entries},
    }
    return hashlib.sha256(_dump(said, sort=True)).hexdigest()


def _dump(value: Any, sort: bool = False) -> bytes:
    """JSON that every reader of JSON takes."""
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=sort, separators=(",", ":")
        ).encode()
    except UnicodeEncodeError as error:
        near = error.object[max(error.start - 20, 0) : error.end + 20]
        raise ValueError(f"{near!a} is not Unicode text: it holds a lone surrogate") from None
    except (TypeError, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None


def _parse(text: str) -> dict[str, Any]:
    """A JSON object, strictly: no name twice, no NaN, no infinity."""
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_finite, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is damaged: its header cannot be read: {error}") from None
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("its header or its manifest is not a JSON object")
    return value


def _check_depth(value: Any, levels: int = _DEEPEST) -> None:
    if isinstance(value, dict | list):
        if levels == 0:
            raise ValueError("its JSON is nested too deep")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, levels - 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("its JSON has a name twice in one object")
    return entries


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"its JSON has {text[:20]} for a number")
    return number
