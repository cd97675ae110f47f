"""`proof report` as a person runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from proof.cli.report import Format, report
from proof.errors import ProofError
from proof.records import write_json
from proof.runs import Record
from test_reports import hostile


@pytest.fixture
def runs(records: list[Record], tmp_path: Path) -> Path:
    for record in records[::2]:
        write_json(record, tmp_path / "runs" / f"{record['key']}.json")
    return tmp_path / "runs"


def proof(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "proof", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_a_folder_of_records_becomes_a_report_whatever_the_names(
    records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(hostile(records)[::2], tmp_path / "runs" / "all.json")
    done = proof("report", "runs", "-o", "report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "12 figures written to report" in done.stdout
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"index.html", "table.md", "table.tex", "table.csv", "figures"}
    figures = [path.name for path in (tmp_path / "report" / "figures").iterdir()]
    kinds = {name.rpartition(".")[0].rpartition("-")[2] for name in figures}
    assert kinds == {"curves", "forgetting", "matrices", "shot", "parameters", "seconds"}
    assert len(figures) == 12, "each as .png and .svg"
    report([tmp_path / "runs"], format=Format.html)
    page = (tmp_path / "report" / "index.html").read_text()
    assert capsys.readouterr().out == page, "the same records give the same page"


@pytest.mark.parametrize(
    ("format", "start"),
    [
        (Format.md, "## cifar100, B0-Inc10\n"),
        (Format.tex, "% Needs the packages"),
        (Format.csv, "data,encoder,protocol,"),
        (Format.html, "<!doctype html>"),
        (None, "cifar100, B0-Inc10, order seed 1993"),
    ],
)
def test_one_form_is_printed(
    format: Format | None, start: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report([runs], format=format)
    printed = capsys.readouterr().out
    assert printed.startswith(start)
    assert "simplecil" in printed


def make_pictures(folder: Path, names: list[str]) -> None:
    for place, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        (folder / name / "a.jpg").write_bytes(b"no picture")  # the next one is shown
        for number in range(4):
            colour = (255 * (place % 2), 12 * place, 60)
            Image.new("RGB", (90, 60), colour).save(folder / name / f"b{number}.png")


def test_pictures_stand_beside_the_classes_that_are_mixed_up(
    records: list[Record], runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = list(records[0]["class_accuracy"])
    make_pictures(tmp_path / "photos", names)
    report([runs], pictures=[str(tmp_path / "photos")], format=Format.html)
    page = capsys.readouterr().out
    shown = page.count("<img ")
    assert shown >= 20, "ten worst classes of two methods, and what is mixed up"
    assert 10 <= page.count("data:image/jpeg;base64,") <= len(names), "each picture is there once"

    with pytest.raises(ProofError, match=r"for the page: add -o DIR, or --format html"):
        report([runs], pictures=[str(tmp_path / "photos")])
    make_pictures(tmp_path / "other", ["cup", "moka pot"])
    with pytest.raises(ProofError, match=rf"other: it has not all classes .* '{min(names)}'"):
        report([runs], pictures=[str(tmp_path / "other")], format=Format.html)


def test_a_users_mistake_is_told(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ProofError, match="give one of the two"):
        report([runs], output=tmp_path / "report", format=Format.md)
    (tmp_path / "file").touch()
    with pytest.raises(ProofError, match="this is a file: expected a folder"):
        report([runs], output=tmp_path / "file")
    (runs / "broken.json").write_text("{")
    done = proof("report", runs, cwd=tmp_path)
    assert done.returncode == 2
    assert "broken.json: not a record that can be read" in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_has_an_example(tmp_path: Path) -> None:
    done = proof("report", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "proof report runs -o report" in done.stdout
