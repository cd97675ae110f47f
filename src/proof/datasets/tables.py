"""Tables of pictures: CSV, TSV and Parquet files with the columns path, label and split, and CSV
and TSV files of pairs with the columns path and text."""

from __future__ import annotations

import bisect
import csv
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proof.datasets.base import PARTS, Lazy, Listing
from proof.errors import ProofError
from proof.extras import import_extra

if TYPE_CHECKING:
    from proof.pictures.reader import Picture

SUFFIXES = (".csv", ".tsv", ".parquet")
_COLUMNS = {
    "path": ("path", "image", "file", "filename", "file_name"),
    "label": ("label", "class"),
    "split": ("split",),
    "text": ("text", "caption", "title"),
}
_LABELLED = ("path", "label", "split")
_PAIRED = ("path", "text")
_GROUPS_HELD = 4  # of a Parquet file, in memory
_MEANT = {
    _LABELLED: "expected the columns path,label or path,label,split",
    _PAIRED: "expected the columns path,text",
}


class Captions(NamedTuple):
    """Pictures, and the text that belongs to each."""

    name: str
    pictures: list[str]
    texts: list[str]


def read_table(path: Path) -> Listing:
    """The pictures of a CSV, TSV or Parquet file. Whether they are there is not looked at."""
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)


def read_captions(path: Path) -> Captions:
    """The pictures and texts of a CSV or TSV file. Whether the pictures are there is not looked
    at."""
    folder = str(path.parent.absolute())
    rows = [values for _, values in _csv_values(path, _PAIRED)]
    pictures = [_place(folder, values["path"]) for values in rows]
    return Captions(path.stem, pictures, [values["text"] for values in rows])


def content_name(picture: Picture, folder: str) -> str:
    """What a picture is called when its split is chosen: its path, or a hash of its bytes."""
    if isinstance(picture, bytes):
        return hashlib.sha256(picture).hexdigest()
    assert isinstance(picture, str | os.PathLike)
    return _inside(os.fspath(picture), folder)


def _read_csv(path: Path) -> Listing:
    folder = str(path.parent.absolute())
    pictures: list[str] = []
    labels: list[str] = []
    parts: list[str] = []
    lines: list[int] = []
    for line, values in _csv_values(path, _LABELLED):
        pictures.append(_place(folder, values["path"]))
        labels.append(values["label"])
        lines.append(line)
        if "split" in values:
            parts.append(_part(values["split"], f"{path}, line {line}"))
    _check_twice(path, pictures, labels, parts, lines, "line")
    names = [_inside(picture, folder) for picture in pictures]
    return Listing(
        str(path), f"{path.suffix[1:].lower()} table", pictures, labels, names, parts or None
    )


def _csv_values(path: Path, wanted: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """What stands in the wanted columns, with the numbers of the lines; at least one line."""
    rows = _csv_rows(path)
    _, header = next(rows, (0, []))
    columns = _columns(path, header, wanted)
    line = 0
    for line, row in rows:
        if len(row) != len(header):
            raise ProofError(
                f"{path}, line {line}: {len(row)} values, but the first line names {len(header)} "
                "columns"
            )
        values = {name: row[column].strip() for name, column in columns.items()}
        for name in wanted:
            if name != "split" and not values[name]:
                raise ProofError(f"{path}, line {line}: the {header[columns[name]]} is empty")
        yield line, values
    if not line:
        raise ProofError(f"{path}: no picture in it: {_MEANT[wanted]}, and a line for each picture")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not empty, with their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(path, first), strict=True)
            for row in reader:
                if any(value.strip() for value in row):
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ProofError(f"{path}: not text in UTF-8 ({error.reason}): save it as UTF-8") from None
    except csv.Error as error:
        raise ProofError(f"{path}, line {reader.line_num}: {error}") from None
    except OSError as error:
        raise ProofError(f"{path}: cannot be read: {error.strerror}") from None


def _delimiter(path: Path, first: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    return ";" if ";" in first and "," not in first else ","  # as some spreadsheets write it


def _columns(path: Path, header: Sequence[str], wanted: tuple[str, ...]) -> dict[str, int]:
    """Where the wanted columns stand; a split need not be there."""
    names = [name.strip().casefold() for name in header]
    columns: dict[str, int] = {}
    for what in wanted:
        found = [name for name in names if name in _COLUMNS[what]]
        if what in found:
            found = [what]
        if len(found) > 1 or names.count(found[0] if found else "") > 1:
            raise ProofError(
                f"{path}: the columns {' and '.join(found)} could both be the {what}: call one of "
                f"them '{what}'"
            )
        if found:
            columns[what] = names.index(found[0])
        elif what != "split":
            shown = ",".join(header)[:80]
            raise ProofError(
                f"{path}: no column for the {what}: its first line is '{shown}'; {_MEANT[wanted]}"
            )
    return columns


def _part(value: str, where: str) -> str:
    part = PARTS.get(value.casefold())
    if part is None:
        raise ProofError(f"{where}: split '{value}': expected train, test or val")
    return part


def _check_twice(
    path: Path,
    pictures: Iterable[str],
    labels: Sequence[str],
    parts: Sequence[str],
    places: Sequence[int],
    unit: str,
) -> None:
    """A picture belongs to one class, and to training or testing but not both."""
    seen: dict[str, int] = {}
    for row, picture in enumerate(pictures):
        before = seen.setdefault(picture, row)
        if labels[before] != labels[row]:
            what, pair = "labels", (labels[before], labels[row])
        elif parts and parts[before] != parts[row]:
            what, pair = "splits", (parts[before], parts[row])
        else:
            continue
        raise ProofError(
            f"{path}: '{picture}' stands there with the {what} '{pair[0]}' ({unit} "
            f"{places[before]}) and '{pair[1]}' ({unit} {places[row]}): expected one"
        )


def _place(folder: str, path: str) -> str:
    """A path that may be relative to a folder."""
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118  `Path` is slow, in millions


def _inside(path: str, folder: str) -> str:
    """A path as seen from a folder where it lies in it, with `/`: it may be moved as a whole."""
    inside = path.startswith(f"{folder}{os.sep}")
    return (path[len(folder) + 1 :] if inside else path).replace(os.sep, "/")


def _read_parquet(path: Path) -> Listing:
    pa = import_extra("pyarrow", "data", f"'{path}'")
    pq = import_extra("pyarrow.parquet", "data", f"'{path}'")
    folder = str(path.parent.absolute())
    try:
        file = pq.ParquetFile(path)
        header = file.schema_arrow.names
        columns = _columns(path, header, _LABELLED)
        column = {name: header[place] for name, place in columns.items()}
        kind = file.schema_arrow.field(column["path"]).type
        labels = _parquet_labels(path, file, column["label"])
        parts = (
            [
                _part(str(value).strip(), f"{path}, row {row}")
                for row, value in enumerate(_values(file, column["split"]))
            ]
            if "split" in column
            else []
        )
        pictures: Sequence[Picture]
        if pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            reader = _ParquetPictures(file, column["path"], folder)
            pictures = Lazy(range(len(labels)), reader.fetch)
            names = [] if parts else [content_name(picture, folder) for picture in pictures]
        else:
            paths = _paths(path, file, column["path"], folder)
            _check_twice(path, paths, labels, parts, range(len(paths)), "row")
            pictures, names = paths, [_inside(picture, folder) for picture in paths]
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ProofError(f"{path}: cannot be read as a Parquet file: {reason}") from None
    if not labels:
        raise ProofError(f"{path}: no picture in it")
    return Listing(str(path), "parquet table", pictures, labels, names, parts or None)


def _paths(path: Path, file: Any, column: str, folder: str) -> list[str]:
    paths = []
    for row, value in enumerate(_values(file, column)):
        if not isinstance(value, str) or not value.strip():
            raise ProofError(f"{path}, row {row}: the {column} is {value!r}: expected a path")
        paths.append(_place(folder, value.strip()))
    return paths


def _parquet_labels(path: Path, file: Any, column: str) -> list[str]:
    """The labels as strings; numbers by the names that Hugging Face keeps in the file."""
    names = _hugging_face_names(file, column)
    labels = []
    for row, value in enumerate(_values(file, column)):
        if isinstance(value, int) and names:
            if not 0 <= value < len(names):
                raise ProofError(
                    f"{path}, row {row}: {column} {value}: expected 0 to {len(names) - 1}, an "
                    f"index into the names in the file's metadata"
                )
            labels.append(names[value])
        elif isinstance(value, str) and value.strip():
            labels.append(value.strip())
        else:
            raise ProofError(
                f"{path}, row {row}: the {column} is {value!r}: expected the name of a class"
            )
    return labels


def _hugging_face_names(file: Any, column: str) -> list[str]:
    try:
        metadata = json.loads(file.schema_arrow.metadata[b"huggingface"])
        return [str(name) for name in metadata["info"]["features"][column]["names"]]
    except (TypeError, KeyError, ValueError):
        return []


def _values(file: Any, column: str) -> list[Any]:
    values: list[Any] = file.read(columns=[column]).column(0).to_pylist()
    return values


class _ParquetPictures:
    """Pictures inside a Parquet file, read a row group at a time."""

    def __init__(self, file: Any, column: str, folder: str) -> None:
        self._file, self._column, self._folder = file, column, folder
        groups = file.metadata.num_row_groups
        sizes = [file.metadata.row_group(group).num_rows for group in range(groups)]
        self._starts = list(itertools.accumulate(sizes, initial=0))[:-1]
        self._held: dict[int, Any] = {}  # the last row groups
        self._lock = threading.Lock()  # several threads may read

    def fetch(self, row: int) -> Picture:
        group = bisect.bisect_right(self._starts, row) - 1
        with self._lock:
            if group not in self._held:
                if len(self._held) >= _GROUPS_HELD:
                    del self._held[next(iter(self._held))]
                table = self._file.read_row_group(group, columns=[self._column])
                self._held[group] = table.column(0)
            value = self._held[group][row - self._starts[group]].as_py()
        inside = value if isinstance(value, dict) else {"bytes": value}
        data, path = inside.get("bytes"), inside.get("path")
        if isinstance(data, bytes):
            return data
        return _place(self._folder, path) if path else b""  # what is empty counts as broken
