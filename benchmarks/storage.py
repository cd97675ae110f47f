"""How the cache stores: safetensors shards with an index in memory (ours) beside SQLite and LMDB.

    python benchmarks/storage.py [--rows 1000000]

Writes embeddings of 512 float16 numbers in batches of 256, each durable before the next, then
opens the store in a new process and reads all of them by key in another order. LMDB is measured
where it is installed (pip install lmdb).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from proof.cache import Store, folder_size
from proof.pictures.reader import KEY

BATCH, DIM = 256, 512


def keys_of(start: int, count: int) -> np.ndarray:
    numbers = range(start, start + count)
    digests = [hashlib.sha256(number.to_bytes(8, "big")).digest() for number in numbers]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, KEY)


def batches(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    values = np.random.default_rng(0).standard_normal((BATCH, DIM)).astype(np.float16)
    for start in range(0, rows, BATCH):
        count = min(BATCH, rows - start)
        yield keys_of(start, count), values[:count]


def write_shards(folder: Path, rows: int) -> None:
    store = Store(folder, DIM)
    for number, (keys, values) in enumerate(batches(rows)):
        store.append(keys, values)
        if number % 256 == 255:
            store.merge()
    store.merge()


def read_shards(folder: Path, keys: np.ndarray) -> np.ndarray:
    store = Store(folder, DIM)
    return store.view.take(store.view.find(keys))


def write_sqlite(folder: Path, rows: int) -> None:
    with sqlite3.connect(folder / "cache.sqlite") as database:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=full")
        database.execute("create table vectors (key blob primary key, value blob) without rowid")
        for keys, values in batches(rows):
            database.executemany(
                "insert or ignore into vectors values (?, ?)",
                ((bytes(key), bytes(value)) for key, value in zip(keys, values, strict=True)),
            )
            database.commit()


def read_sqlite(folder: Path, keys: np.ndarray) -> np.ndarray:
    database = sqlite3.connect(folder / "cache.sqlite")
    database.execute("pragma mmap_size=17179869184")
    query = "select value from vectors where key = ?"
    out = np.empty((len(keys), DIM), np.float16)
    for row, key in enumerate(keys):
        out[row] = np.frombuffer(database.execute(query, (bytes(key),)).fetchone()[0], np.float16)
    return out


def write_lmdb(folder: Path, rows: int) -> None:
    import lmdb

    with lmdb.open(str(folder / "lmdb"), map_size=1 << 36) as environment:
        for keys, values in batches(rows):
            with environment.begin(write=True) as transaction:
                for key, value in zip(keys, values, strict=True):
                    transaction.put(bytes(key), bytes(value))


def read_lmdb(folder: Path, keys: np.ndarray) -> np.ndarray:
    import lmdb

    out = np.empty((len(keys), DIM), np.float16)
    with (
        lmdb.open(str(folder / "lmdb"), readonly=True) as environment,
        environment.begin(buffers=True) as transaction,
    ):
        for row, key in enumerate(keys):
            out[row] = np.frombuffer(transaction.get(bytes(key)), np.float16)
    return out


STORES = {
    "shards (ours)": (write_shards, read_shards),
    "SQLite": (write_sqlite, read_sqlite),
    "LMDB": (write_lmdb, read_lmdb),
}


def read(name: str, folder: Path, rows: int) -> None:
    """In a process of its own: read all, in another order."""
    keys = keys_of(0, rows)[np.random.default_rng(1).permutation(rows)]
    began = time.perf_counter()
    vectors = STORES[name][1](folder, keys)
    print(json.dumps({"seconds": time.perf_counter() - began, "rows": len(vectors)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read[0], Path(arguments.read[1]), arguments.rows)
        return
    print(f"{arguments.rows:,} embeddings of {DIM} float16 numbers, batches of {BATCH}")
    print("| store | write s | read all s | GB | writes / ours | reads / ours |")
    print("|---|---|---|---|---|---|")
    first: tuple[float, float] | None = None
    for name, (write, _) in STORES.items():
        if name == "LMDB" and not importlib.util.find_spec("lmdb"):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            began = time.perf_counter()
            write(folder, arguments.rows)
            wrote = time.perf_counter() - began
            command = [sys.executable, __file__, "--rows", str(arguments.rows)]
            done = subprocess.run(
                [*command, "--read", name, str(folder)], capture_output=True, text=True, check=True
            )
            took = json.loads(done.stdout)["seconds"]
            first = first or (wrote, took)
            print(
                f"| {name} | {wrote:.1f} | {took:.2f} | {folder_size(folder) / 1e9:.2f} "
                f"| {wrote / first[0]:.1f} | {took / first[1]:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
