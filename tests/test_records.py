from __future__ import annotations

import json
from pathlib import Path

import pytest

from proof import ProofError, Run, Stream
from proof.records import RecordStore, read_records, write_json
from proof.runs import Record


@pytest.fixture
def run(stream: Stream) -> Run:
    run = Run("simplecil", stream, device="cpu")
    while not run.done:
        run.step()
    return run


def test_what_a_store_keeps_it_gives_back(run: Run, tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    assert store.record(run) is None
    assert not store.holds(run)
    run.save(store.checkpoint(run))
    assert store.holds(run)
    assert store.record(run) is None
    store.keep(run, run.record())
    assert store.record(run) == run.record()
    assert not store.checkpoint(run).exists()


def test_records_of_files_and_folders_are_read_once_each(run: Run, tmp_path: Path) -> None:
    record = run.record()
    RecordStore(tmp_path / "runs" / "deep").keep(run, record)
    other = {**record, "seed": 1, "key": "another"}
    write_json([record, other], tmp_path / "all.json")
    assert read_records([tmp_path / "runs", tmp_path / "all.json"]) == [record, other]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "broken.json: not a record that can be read"),
        ("[]", "an empty list"),
        ("[3]", "not the record of a run: expected a JSON object"),
        ("{}", "not the record of a run: 'method' is missing"),
    ],
)
def test_what_is_no_record_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(content)
    with pytest.raises(ProofError, match=message):
        read_records([tmp_path])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "'seed' is '0'"),
        ({"curve": [90.0]}, "1 accuracies for 3 tasks"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(
    change: Record, message: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "odd.json").write_text(json.dumps({**run.record(), **change}))
    with pytest.raises(ProofError, match=message):
        read_records([tmp_path / "odd.json"])


def test_an_empty_folder_and_a_missing_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"it has no .json file; `proof bench"):
        read_records([tmp_path])
    with pytest.raises(ProofError, match=r"expected a .json file or a folder"):
        read_records([tmp_path / "nowhere"])
