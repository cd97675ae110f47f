"""The records of runs as files: a store to add to, and any set of them to read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proof.errors import ProofError
from proof.files import replacing
from proof.runs import Record, Run

# What every record has, and of which kind it is; newer ones have more.
_NEEDED: dict[str, type | tuple[type, ...]] = {
    "method": str,
    "data": str,
    "protocol": str,
    "sizes": list,
    "order_seed": int,
    "seed": int,
    "options": dict,
    "curve": list,
    "average": (int, float),
    "last": (int, float),
    "forgetting": (int, float),
    "seconds": (int, float),
    "exemplars": int,
    "exemplar_budget": str,
    "trainable_parameters": int,
}


class RecordStore:
    """A folder of records by key, with the checkpoints of the runs that are under way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def holds(self, run: Run) -> bool:
        """Whether there is anything of the run."""
        return self._file(run).exists() or self.checkpoint(run).exists()

    def record(self, run: Run) -> Record | None:
        """The record of the run, if it was finished before."""
        path = self._file(run)
        return _read(path)[0] if path.exists() else None

    def checkpoint(self, run: Run) -> Path:
        """Where the state of the run is kept until it is finished."""
        return self.folder / f"{_stem(run)}.checkpoint.safetensors"

    def keep(self, run: Run, record: Record) -> None:
        """Write the record; the checkpoint has then served."""
        write_json(record, self._file(run))
        self.checkpoint(run).unlink(missing_ok=True)

    def _file(self, run: Run) -> Path:
        return self.folder / f"{_stem(run)}.json"


def read_records(paths: Iterable[Path]) -> list[Record]:
    """All records of files and folders, each run once.

    A file holds a record or a list of them; of a folder every .json file is read, in folders
    inside it too.
    """
    records: dict[str, Record] = {}
    for path in paths:
        if not path.exists():
            raise ProofError(f"no records at '{path}': expected a .json file or a folder of them")
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not files:
            raise ProofError(
                f"no records in '{path}': it has no .json file; `proof bench ... --out {path}` "
                "writes one for each run"
            )
        for file in files:
            for record in _read(file):
                text = json.dumps(record, ensure_ascii=False)
                whole = json.loads(text.encode("utf-8", "replace"))  # a name may hold half a letter
                records.setdefault(record.get("key") or text, whole)
    return list(records.values())


def write_json(value: Any, path: Path) -> None:
    """Write records as they are read again."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=1) + "\n")


def _stem(run: Run) -> str:
    return f"{run.learner.name}-seed{run.seed}-{run.key}"


def _read(path: Path) -> list[Record]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProofError(f"{path}: not a record that can be read: {error}") from None
    records = value if isinstance(value, list) else [value]
    if not records:
        raise ProofError(f"{path}: an empty list: expected the record of a run, or several")
    for record in records:
        _check(record, path)
    return records


def _check(record: Any, path: Path) -> None:
    if not isinstance(record, dict):
        raise ProofError(f"{path}: not the record of a run: expected a JSON object")
    for name, kind in _NEEDED.items():
        if not isinstance(record.get(name), kind):
            found = repr(record[name])[:40] if name in record else "missing"
            raise ProofError(
                f"{path}: not the record of a run: '{name}' is {found}; "
                "`proof bench ... --out DIR` writes records"
            )
    if len(record["curve"]) != len(record["sizes"]):
        raise ProofError(
            f"{path}: not the record of a finished run: {len(record['curve'])} accuracies for "
            f"{len(record['sizes'])} tasks"
        )
