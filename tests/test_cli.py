"""The command as a person runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import make_data

COMMAND = [sys.executable, "-m", "proof"]


def proof(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.safetensors"
    make_data().save(path)
    return path


def same_results(a: list[dict[str, object]], b: list[dict[str, object]]) -> bool:
    timing = ("seconds", "task_seconds")
    return [{k: v for k, v in r.items() if k not in timing} for r in a] == [
        {k: v for k, v in r.items() if k not in timing} for r in b
    ]


def test_bench_prints_a_table_and_writes_records(file: Path, tmp_path: Path) -> None:
    done = proof(
        "bench", file, "--methods", "zero-shot,proof,proof:context=PW", "--protocol", "B0-Inc4",
        "--exemplars", "24", "--seeds", "0,1", "--epochs", "2", "--lr", "0.01",
        "--json", tmp_path / "new" / "r.json", "--plot", tmp_path / "c.png",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mean and standard deviation of 2 seeds" in done.stdout
    assert "±" in done.stdout
    assert "proof:context=PW" in done.stdout
    records = json.loads((tmp_path / "new" / "r.json").read_text())
    assert [(r["method"], r["seed"]) for r in records] == [
        (method, seed) for method in ("zero-shot", "proof", "proof:context=PW") for seed in (0, 1)
    ]
    assert records[2]["options"]["epochs"] == 2
    assert records[2]["options"]["lr"] == 0.01
    assert records[2]["exemplars"] == 24
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_terminal_progress_is_plain_lines(file: Path) -> None:
    done = proof("bench", file, "--methods", "simplecil", "--sizes", "6,6")
    assert "simplecil  task 2/2  12 classes  accuracy" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_on_a_terminal_progress_is_live(file: Path) -> None:
    main, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, "bench", str(file), "--methods", "proof", "--protocol", "B0-Inc4"],
        stdout=other, stderr=other, stdin=other, env=environment,
    )  # fmt: skip
    os.close(other)
    shown = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    assert process.wait(60) == 0
    assert b"left" in shown
    assert b"\x1b[" in shown


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_bench_resumes_with_the_same_result(
    kill: signal.Signals, file: Path, tmp_path: Path
) -> None:
    arguments = [
        "bench", file, "--methods", "proof,simplecil", "--protocol", "B0-Inc2",
        "--epochs", "60", "--seeds", "0,1",
    ]  # fmt: skip
    straight = proof(*arguments, "--json", tmp_path / "straight.json")
    assert straight.returncode == 0, straight.stderr
    out = tmp_path / "out"
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--out", str(out)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("*.checkpoint.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(kill)
    _, errors = process.communicate(timeout=60)
    if kill == signal.SIGINT:
        assert process.returncode == 130
        assert "with --resume to go on" in errors
        assert "Traceback" not in errors
    else:
        assert process.returncode == -signal.SIGKILL
    again = proof(*arguments, "--out", out)
    assert again.returncode == 2
    assert "add --resume" in again.stderr
    resumed = proof(*arguments, "--out", out, "--resume", "--json", tmp_path / "resumed.json")
    assert resumed.returncode == 0, resumed.stderr
    first = json.loads((tmp_path / "straight.json").read_text())
    second = json.loads((tmp_path / "resumed.json").read_text())
    assert same_results(first, second)
    assert not list(out.glob("*.checkpoint.safetensors")), "finished runs leave their record only"
    kept = proof(*arguments, "--out", out, "--resume")
    assert kept.stderr.count("(kept from before)") == 4


def test_a_grid_of_data_and_protocols_is_one_command(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    make_data(classes=24).save(other)
    done = proof(
        "bench", file, other, "--methods", "zero-shot,simplecil", "--protocol",
        "B0-Inc4, Base-8, Inc-4", "--jobs", "2", "--out", tmp_path / "runs",
        "--plot", tmp_path / "panels.svg",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for title in ("made, B0-Inc4", "made, B8-Inc4", "other, B0-Inc4", "other, B8-Inc4"):
        assert f"{title}, order seed 1993" in done.stdout
    assert "zero-shot  other  B8-Inc4  average" in done.stderr
    assert len(list((tmp_path / "runs").glob("*.json"))) == 8
    assert (tmp_path / "panels.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.safetensors"], "no embeddings at 'nowhere.safetensors'"),
        (["FILE", "--methods", "prof"], "no method 'prof'"),
        (["FILE", "--methods", ","], "--methods ',': expected at least one value"),
        (["FILE", "--methods", "proof,proof"], "stands there twice"),
        (["FILE", "--protocol", "B0-Inc4,B0-Inc4"], "stands there twice"),
        (["FILE", "--protocol", "B0-Inc4", "--track", "log"], "--track log: expected one of"),
        (["FILE", "--protocol", "B0-Inc5"], "does not add up to 12 classes"),
        (["FILE", "--protocol", "B0-Inc4", "--sizes", "6,6"], "give one of the two"),
        (["FILE", "--sizes", "6,x"], "--sizes 6,x: expected whole numbers"),
        (["FILE", "--sizes", "6,7"], "add up to 13 classes, but the data have 12"),
        (["FILE", "--protocol", "B0-Inc4", "--exemplars", "some"], "exemplars 'some'"),
        (["FILE", "--protocol", "B0-Inc4", "--device", "cuda:77"], "device 'cuda:77' cannot be"),
        (["FILE", "--protocol", "B0-Inc4", "--resume"], "name it with --out DIR"),
        (["FILE", "--protocol", "B0-Inc4", "--json", "."], "'.' is a folder"),
        (["FILE", "--protocol", "B0-Inc4", "--out", "made.safetensors"], "cannot write"),
        (["FILE", "--protocol", "B0-Inc4", "--plot", "a.gif"], "ends in .png, .svg or .pdf"),
        (["FILE", "--sizes", "12", "--methods", "simplecil", "--epochs", "3"], "none of simplecil"),
        (["FILE", "--protocol", "B0-Inc4", "--lr", "-1"], "lr must be above 0"),
        (["FILE", "--protocol", "B0-Inc4", "--seeds", "-1"], "seed -1: expected a whole number"),
        (["FILE", "--protocol", "B0-Inc4", "--seeds", "a"], "--seeds a: expected whole numbers"),
        (["FILE", "--protocol", "B0-Inc4", "--order-seed", "-1"], "order seed -1"),
        (["FILE", "--protocol", "B0-Inc4", "--plugin", "no.py"], "no plugin at 'no.py'"),
    ],
)  # fmt: skip
def test_a_users_mistake_is_one_line_and_status_2(
    arguments: list[str], message: str, file: Path, tmp_path: Path
) -> None:
    done = proof("bench", *(file if a == "FILE" else a for a in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr


def test_demo_compares_four_methods_and_draws(tmp_path: Path) -> None:
    done = proof("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "task 10/10 brings" in done.stdout
    assert (tmp_path / "proof-demo.png").read_bytes().startswith(b"\x89PNG")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("│")]
    average = {row[1]: float(row[3]) for row in rows if "." in row[3]}
    assert list(average) == ["zero-shot", "simplecil", "proof", "analytic:features=1024"]


def test_an_interrupted_demo_ends_quietly(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    for line in process.stdout:
        if line.startswith("task 1/10"):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == ""


@pytest.mark.parametrize("verb", ["bench", "demo", "methods"])
def test_help_of_each_verb_has_an_example(verb: str) -> None:
    done = proof(verb, "--help")
    assert done.returncode == 0
    assert f"proof {verb}" in done.stdout
    assert "Example" in done.stdout


def test_methods_lists_every_method_with_its_options() -> None:
    done = proof("methods")
    assert done.returncode == 0
    for name in ("zero-shot", "simplecil", "proof", "proof-residual", "proof-reference"):
        assert f"\n{name}  " in f"\n{done.stdout}"
    assert "    prompt_length=3" in done.stdout


def test_version() -> None:
    import proof as package

    assert proof("--version").stdout == f"proof {package.__version__}\n"
