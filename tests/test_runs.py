from __future__ import annotations

from pathlib import Path

import pytest
import torch

from proof import Budget, Embeddings, ProofError, Run, Stream, list_methods
from proof.devices import choose_device
from proof.runs import mean_and_deviation

BUDGET = Budget(per_class=4)


def finish(run: Run) -> dict[str, object]:
    while not run.done:
        run.step()
    record = run.record()
    record.pop("seconds")
    record.pop("task_seconds")
    return record


def test_a_record_holds_all_that_a_table_needs(stream: Stream) -> None:
    run = Run("proof", stream, seed=1, budget=BUDGET, device="cpu", epochs=2)
    while not run.done:
        run.step()
    record = run.record()
    wanted = {
        "method": "proof",
        "protocol": "B0-Inc4",
        "order_seed": 1993,
        "seed": 1,
        "exemplars": 48,
        "exemplar_budget": "4/class",
        "data": "made",
        "sizes": [4, 4, 4],
    }
    assert {key: record[key] for key in wanted} == wanted
    assert record["options"]["epochs"] == 2
    assert len(record["curve"]) == len(record["top5_curve"]) == len(record["task_seconds"]) == 3
    assert record["average"] == pytest.approx(sum(record["curve"]) / 3, abs=1e-3)
    assert record["last"] == record["curve"][-1]
    assert [len(row) for row in record["accuracy_matrix"]] == [1, 2, 3]
    assert set(record["class_accuracy"]) == set(stream.order)
    assert record["zero_shot"]["unseen"][-1] is None
    assert all(0 <= value <= 100 for value in record["zero_shot"]["harmonic"][:-1])
    assert record["seconds"] == pytest.approx(sum(record["task_seconds"]), abs=1e-3)
    assert {"proof", "python", "torch", "numpy"} <= set(record["versions"])
    assert record["device"].startswith("cpu")
    for shown, instead, pictures in record["confusions"] + record["taken"]:
        assert {shown, instead} <= set(stream.order)
        assert 0 < pictures <= 8
    # A projection for each task and side, of which merging leaves one; and the attention, three
    # prompts a task, and a prototype and a text for each class.
    d, tasks, classes = 16, 3, 12
    rest = 3 * d * d + 3 * tasks * d + 2 * classes * d
    assert record["trainable_parameters"] == 5 * d * d + 3 * d
    assert record["total_parameters"] == 2 * tasks * d * d + rest
    assert record["inference_parameters"] == 2 * d * d + rest
    assert record["kept_bytes"] == 4 * (record["total_parameters"] + 48 * d) + 24 * classes


@pytest.mark.parametrize("method", ["oracle:epochs=1", "linear-probe:steps=2", "ridge", "analytic"])
def test_what_only_learning_needs_is_told_apart(method: str, stream: Stream) -> None:
    run = Run(method, stream, device="cpu")
    while not run.done:
        run.step()
    record = run.record()
    assert 0 < record["inference_parameters"] < record["total_parameters"]


def test_options_are_recorded_to_the_last_digit(stream: Stream) -> None:
    run = Run("proof:lr=0.0000123", stream, device="cpu", epochs=1)
    while not run.done:
        run.step()
    assert run.record()["options"]["lr"] == 0.0000123


def test_the_curve_is_the_accuracy_on_all_classes_seen(stream: Stream) -> None:
    run = Run("simplecil", stream, device="cpu")
    run.step()
    run.step()
    tests = [stream.test(0), stream.test(1)]
    right = [
        predicted == label
        for test in tests
        for predicted, label in zip(run.learner.predict(test.images), test.labels, strict=True)
    ]
    assert run.curve[-1] == pytest.approx(100 * sum(right) / len(right))


def test_zero_shot_metrics_of_zero_shot_are_its_accuracy_among_all_classes(stream: Stream) -> None:
    """A method that learns nothing scores the same whether a class was seen or is only named."""
    record = finish(Run("zero-shot", stream, device="cpu"))
    after_all = record["class_accuracy"]
    for task in (0, 1):
        unseen = [after_all[name] for name in stream.order[4 * (task + 1) :]]
        assert record["zero_shot"]["unseen"][task] == pytest.approx(
            sum(unseen) / len(unseen), abs=1e-3
        )


@pytest.mark.parametrize("method", list_methods())
@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_run_ends_as_a_straight_one(
    method: str, stop: int, stream: Stream, tmp_path: Path
) -> None:
    straight = finish(Run(method, stream, budget=BUDGET, device="cpu"))
    stopped = Run(method, stream, budget=BUDGET, device="cpu")
    for _ in range(stop):
        stopped.step()
    stopped.save(tmp_path / "checkpoint")
    resumed = Run(method, stream, budget=BUDGET, device="cpu")
    resumed.resume(tmp_path / "checkpoint")
    assert resumed.learner.tasks == stop
    assert finish(resumed) == straight


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(
    stream: Stream, tmp_path: Path
) -> None:
    run = Run("simplecil", stream, device="cpu")
    run.step()
    run.save(tmp_path / "checkpoint")
    with pytest.raises(ProofError, match="the checkpoint of another run"):
        Run("zero-shot", stream, device="cpu").resume(tmp_path / "checkpoint")
    (tmp_path / "checkpoint").write_bytes((tmp_path / "checkpoint").read_bytes()[:-5])
    with pytest.raises(ProofError, match="not a checkpoint that can be read"):
        Run("simplecil", stream, device="cpu").resume(tmp_path / "checkpoint")


def test_the_key_changes_with_all_that_decides_the_result(data: Embeddings, stream: Stream) -> None:
    def key(method: str = "proof", of: Stream = stream, **kwargs: object) -> str:
        return Run(method, of, device="cpu", **{"budget": BUDGET, **kwargs}).key

    keys = [
        key(),
        key("proof-residual"),
        key("proof:epochs=2"),
        key(of=Stream.of(data, "B0-Inc3")),
        key(of=Stream.of(data, "B0-Inc4", order_seed=1)),
        key(seed=1),
        key(budget=Budget(total=48)),
    ]
    assert len(set(keys)) == len(keys)
    assert key(epochs=5) == key("proof:epochs=5") == key()


def test_a_device_that_is_not_there_is_refused() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("cuda:99", "warp"):
        with pytest.raises(ProofError, match=f"device '{name}' cannot be used here"):
            choose_device(name)


def test_mean_and_deviation() -> None:
    assert mean_and_deviation([3.0]) == (3.0, 0.0)
    mean, deviation = mean_and_deviation([1.0, 2.0, 3.0])
    assert (mean, deviation) == (2.0, 1.0)
