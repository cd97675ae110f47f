"""The `.proof` file: one model in one safetensors file. `docs/model-file.md` describes it.

Reading executes nothing. The bytes are read, not mapped: a file that changes afterwards changes no
model in memory. torch is imported where tensors are, so that a manifest need not wait for it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proof.errors import ProofError
from proof.models.header import MOST_DATA, MOST_HEADER, TYPES, Entry, Header

if TYPE_CHECKING:
    from torch import Tensor

SUFFIX = ".proof"
_THREADS = min(8, os.cpu_count() or 1)  # hashlib lets them run at once
_KINDS = {torch_name: kind for kind, (torch_name, _) in TYPES.items()}


class Model(NamedTuple):
    """What a file holds, all of it checked."""

    manifest: dict[str, Any]
    tensors: dict[str, Tensor]
    revision: str


def read_model(path: str | os.PathLike[str]) -> Model:
    """All of a file, every byte of it checked.

    >>> import tempfile, torch
    >>> from proof.models import write_model
    >>> path = Path(tempfile.mkdtemp()) / "kitchen.proof"
    >>> revision = write_model(path, {"classes": ["moka pot"]}, {"means": torch.ones(1, 4)})
    >>> model = read_model(path)
    >>> model.manifest, model.tensors["means"].tolist(), model.revision == revision
    ({'classes': ['moka pot']}, [[1.0, 1.0, 1.0, 1.0]], True)
    """
    with _reading(Path(path)) as (file, header), ThreadPoolExecutor(_THREADS) as pool:
        parts = []
        for entry in header.entries:  # one is hashed while the next is read
            flat = _read(file, entry.end - entry.start)
            parts.append((entry, flat, pool.submit(_sha256, flat.numpy())))
        for entry, _, found in parts:
            if found.result() != entry.sha256:
                raise ValueError(f"it is damaged: tensor {entry.name!a} is not what was written")
        tensors = {entry.name: _shaped(flat, entry) for entry, flat, _ in parts}
    return Model(header.manifest, tensors, header.revision)


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest alone: its checksum is looked at, the tensors are not read."""
    return read_header(path).manifest


def read_header(path: str | os.PathLike[str]) -> Header:
    """All that a file says of itself, without its tensors."""
    with _reading(Path(path)) as (_, header):
        return header


def serialize(
    manifest: dict[str, Any], tensors: Mapping[str, Tensor], parent: str | None
) -> tuple[str, list[Any]]:
    """A new revision, and its file in parts. A ValueError says what could not be read back."""
    kinds = {}
    for name, tensor in tensors.items():
        torch_name = str(tensor.dtype).removeprefix("torch.")
        if torch_name not in _KINDS:
            raise ValueError(f"tensor {name!a} is {torch_name}: expected {', '.join(_KINDS)}")
        if name == "__metadata__":
            raise ValueError(f"no tensor may have the name {name}: safetensors uses it")
        kinds[name] = _KINDS[torch_name]
    # The widest numbers come first: each is then where its type may be in memory.
    order = sorted(kinds, key=lambda name: (-TYPES[kinds[name]][1], name))
    flats = [_bytes_of(tensors[name]) for name in order]
    with ThreadPoolExecutor(_THREADS) as pool:
        sums = list(pool.map(_sha256, flats))
    entries, end = [], 0
    for name, flat, found in zip(order, flats, sums, strict=True):
        start, end = end, end + len(flat)
        entries.append(Entry(name, kinds[name], tuple(tensors[name].shape), start, end, found))
    header = Header(manifest, secrets.token_hex(8), parent, tuple(entries))
    data = header.dump()
    return header.revision, [len(data).to_bytes(8, "little"), data, *flats]


@contextmanager
def _reading(path: Path) -> Iterator[tuple[BufferedReader, Header]]:
    """An open file, and its header in front of it. What is wrong becomes one line."""
    if path.suffix != SUFFIX:
        raise ProofError(f"cannot read '{path}': the name of a model ends in {SUFFIX}")
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # a pipe would keep us waiting
            raise ValueError("it is a folder" if stat.S_ISDIR(mode) else "it is not a file")
        with path.open("rb") as file:
            yield file, _header_of(file)
    except OSError as error:
        raise ProofError(f"cannot read '{path}': {error.strerror or error}") from None
    except ValueError as error:
        raise ProofError(f"cannot read '{path}': {error}") from None
    except MemoryError:
        raise ProofError(f"cannot read '{path}': it does not fit in memory") from None


def _header_of(file: BufferedReader) -> Header:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise ValueError("it is empty")
    length = int.from_bytes(file.read(8), "little")
    room = size - 8 - length
    if room < 0 or room > MOST_DATA or length > MOST_HEADER:
        raise ValueError("it is not a model of proof, or it was cut short")
    return Header.parse(file.read(length), room)


def _read(file: BufferedReader, size: int) -> Tensor:
    """The next bytes of a file, in memory of their own."""
    import torch

    try:
        flat = torch.empty(size, dtype=torch.uint8)
    except RuntimeError:
        raise MemoryError from None
    if file.readinto(flat.numpy().data) != size:
        raise ValueError("it became shorter while it was read")
    return flat


def _shaped(flat: Tensor, entry: Entry) -> Tensor:
    import torch

    if entry.kind == "BOOL" and (flat > 1).any():  # to torch neither true nor false
        raise ValueError(f"tensor {entry.name!a} has truth values other than 0 and 1")
    return flat.view(getattr(torch, TYPES[entry.kind][0])).reshape(entry.shape)


def _bytes_of(tensor: Tensor) -> Any:
    """The bytes of a tensor, not copied where it is on the CPU and in one piece."""
    import torch

    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _sha256(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()
