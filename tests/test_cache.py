"""The cache loses nothing: killed at any moment, written by several at once."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.cache import Cache, Index, Shard, Store, default_root
from proof.pictures.reader import KEY
from simple_encoder import WIDTH, keys_of, put, values_of, with_tests_on_path


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(
    st.lists(st.integers(0, 60), max_size=5), st.sampled_from(["merge", "refresh", "reopen"])
), max_size=60))  # fmt: skip
def test_a_store_is_a_dictionary(steps: list[list[int] | str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), WIDTH)
        known: set[int] = set()
        for step in steps:
            if isinstance(step, list):
                put(store, step)
                known |= set(step)
            elif step == "reopen":
                store = Store(Path(folder), WIDTH)
            else:
                getattr(store, step)()
        asked = list(range(61))
        rows = store.view.find(keys_of(asked))
        assert {n for n in asked if rows[n] >= 0} == known
        there = sorted(known)
        found = store.view.take(store.view.find(keys_of(there)))
        assert np.array_equal(found, values_of(there))


def test_many_small_shards_become_few(tmp_path: Path) -> None:
    store = Store(tmp_path, WIDTH)
    for start in range(0, 600, 2):
        put(store, [start, start + 1])
    put(store, [0, 1])  # twice
    store.merge()
    assert len(list(tmp_path.glob("*.safetensors"))) < 40
    assert len(Store(tmp_path, WIDTH).view) <= 602
    there = list(range(600))
    assert np.array_equal(store.view.take(store.view.find(keys_of(there))), values_of(there))


def test_keys_that_begin_alike_are_told_apart() -> None:
    keys = np.zeros((5, KEY), np.uint8)
    keys[:, -1] = [4, 1, 3, 1, 2]
    keys[:, 0] = 9
    asked = keys.copy()
    asked[4, -1] = 77
    assert Index(keys).find(asked).tolist() == [0, 1, 2, 1, -1]


def test_a_damaged_shard_is_left_aside(tmp_path: Path) -> None:
    store = Store(tmp_path, WIDTH)
    put(store, [1, 2])
    put(store, [3])
    good, bad = sorted(tmp_path.glob("*.safetensors"))
    for data in (
        b"",
        b"\xff" * 50,
        bad.read_bytes()[:-3],
        b"\x10" + bytes(7) + b"{not json      }",
    ):
        bad.write_bytes(data)
        store = Store(tmp_path, WIDTH)
        assert (store.view.find(keys_of([1, 2, 3])) >= 0).tolist() == [True, True, False]
    assert Shard.open(good) is not None


def test_a_shard_that_the_disk_did_not_get_is_left_aside(tmp_path: Path) -> None:
    """After a power cut a file may have its length and zeros for content."""
    put(Store(tmp_path, WIDTH), [1, 2, 3])
    (path,) = tmp_path.glob("*.safetensors")
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little") + 8
    data[start : start + 16] = bytes(16)
    path.write_bytes(data)
    assert Store(tmp_path, WIDTH).view.find(keys_of([1, 2, 3])).tolist() == [-1, -1, -1]


def test_a_view_stays_what_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path, WIDTH)
    for number in range(40):
        put(store, [number])
    view = store.view
    rows = view.find(keys_of(list(range(40))))
    put(store, [99])
    store.merge()
    assert len(store.view.shards) < len(view.shards)
    assert np.array_equal(view.take(rows), values_of(list(range(40))))


def test_a_file_system_without_locks_still_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    store = Store(tmp_path, WIDTH)
    for number in range(20):
        put(store, [number])
    store.merge()
    assert len(store.view.shards) < 16


def test_a_store_of_another_width_is_not_mixed_in(tmp_path: Path) -> None:
    put(Store(tmp_path, WIDTH), [1])
    assert Store(tmp_path, WIDTH + 1).view.find(keys_of([1])).tolist() == [-1]


WRITER = """
import sys
from pathlib import Path
from simple_encoder import WIDTH, put
from proof.cache import Store
store, seed = Store(Path(sys.argv[1]), WIDTH), int(sys.argv[2])
for batch in range(100000):
    numbers = [seed + batch * 3 + i for i in range(3)]
    put(store, numbers)
    print(*numbers, flush=True)
    if batch % 5 == 4:
        store.merge()
"""


def test_killed_at_random_moments_by_two_at_once(tmp_path: Path) -> None:
    """What was reported as written is there after SIGKILL, whole, and nothing else is."""
    rng = random.Random(0)
    environment = with_tests_on_path()
    written: list[int] = []
    for kill in range(12):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, tmp_path, str(1000_000 * (2 * kill + number))],
                stdout=subprocess.PIPE, text=True, env=environment,
            )
            for number in range(2)
        ]  # fmt: skip
        for writer in writers:
            assert writer.stdout
            written += map(int, writer.stdout.readline().split())  # it is up
        time.sleep(rng.random() * 0.15)
        for writer in writers:
            writer.kill()
            rest = [line for line in writer.communicate()[0].split("\n")[:-1] if line]
            written += [int(word) for line in rest for word in line.split()]
    store = Store(tmp_path, WIDTH)
    rows = store.view.find(keys_of(written))
    assert (rows >= 0).all(), f"{int((rows < 0).sum())} of {len(written)} are lost"
    assert np.array_equal(store.view.take(rows), values_of(written))
    assert len(written) > 100
    store.merge()
    assert np.array_equal(store.view.take(store.view.find(keys_of(written))), values_of(written))


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROOF_CACHE", str(tmp_path / "mine"))
    assert default_root() == tmp_path / "mine"
    monkeypatch.delenv("PROOF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if os.name == "posix":
        assert default_root() == tmp_path / "xdg" / "proof"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_root().name == "proof"
    assert Cache(tmp_path).root == tmp_path


def test_what_a_killed_process_left_half_written_is_swept(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, new = (tmp_path / "files" / f".x.{n}.partial.safetensors" for n in (1, 2))
    old.parent.mkdir()
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.sweep()
    assert not old.exists()
    assert new.exists()
