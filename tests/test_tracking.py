"""Records in experiment trackers, each in its local mode."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proof import ProofError
from proof.runs import Record
from proof.tracking import TRACKERS, config, final, run_name, start_tracking, steps


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_record_is_told_flat(records: list[Record]) -> None:
    record = records[2]
    assert run_name(record) == "cifar100 B0-Inc10 proof seed 0"
    assert config(record)["options.epochs"] == 1
    assert config(record)["key"] == record["key"]
    assert [step["accuracy"] for step in steps(record)] == record["curve"]
    assert "zero_shot/unseen" in steps(record)[0]
    assert "zero_shot/unseen" not in steps(record)[-1], "there is none left to see"
    assert final(record)["last"] == record["last"]


def test_tensorboard(records: list[Record], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    start_tracking("tensorboard")(records[2])
    [folder] = (tmp_path / "tensorboard").iterdir()
    events = EventAccumulator(str(folder))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("accuracy")]
    assert [step for step, _ in found] == [1, 2]
    assert [value for _, value in found] == pytest.approx(records[2]["curve"])
    assert events.Scalars("final/last")[0].value == pytest.approx(records[2]["last"])


def test_wandb(records: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    start_tracking("wandb")(records[2])
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    written = file.read_bytes()
    for text in (run_name(records[2]), "options.epochs", "zero_shot/unseen", "backward_transfer"):
        assert text.encode() in written


def test_mlflow(records: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    track = start_tracking("mlflow")
    for record in records[2:]:
        track(record)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("proof")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == {run_name(record) for record in records[2:]}
    [run] = [run for run in runs if run.data.params["seed"] == "0"]
    assert run.data.params["options.epochs"] == "1"
    history = client.get_metric_history(run.info.run_id, "accuracy")
    assert [metric.value for metric in history] == pytest.approx(records[2]["curve"])
    assert run.data.metrics["last"] == pytest.approx(records[2]["last"])


def test_trackio(records: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    start_tracking("trackio")(records[2])
    [name] = SQLiteStorage.get_runs("proof")
    assert name.startswith(run_name(records[2]))
    logged = SQLiteStorage.get_logs("proof", name)
    found = [entry["accuracy"] for entry in logged if "accuracy" in entry]
    assert found == pytest.approx(records[2]["curve"])


def test_a_tracker_that_is_not_there_is_told_before_the_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ProofError, match="--track paper: expected one of tensorboard, wandb"):
        start_tracking("paper")
    for name, (module, _) in TRACKERS.items():
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ProofError, match=rf"pip install 'proof-vlm\[{name}\]'"):
            start_tracking(name)


def test_a_tracker_that_fails_does_not_stop_the_runs(
    records: list[Record], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setitem(TRACKERS, "wandb", ("json", fail))
    start_tracking("wandb")(records[2])
    assert "proof seed 0 did not reach wandb: no network" in capsys.readouterr().err
