"""`proof data`, in a command of its own."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from conftest import REPOSITORY
from proof.cli import data
from proof.datasets.known import File, known
from proof.errors import ProofError

COMMAND = typer.Typer(pretty_exceptions_enable=False)
COMMAND.add_typer(data.app, name="data")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("PROOF_DATA", str(folder))
    monkeypatch.setenv("COLUMNS", "120")
    return folder


def proof_data(*arguments: object) -> Result:
    result = CliRunner().invoke(COMMAND, ["data", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def make_kitchen(home: Path, *classes: str, train: int = 3, test: int = 1) -> Path:
    """A known data set with real pictures, by a TOML file."""
    (home / "kitchen.toml").write_text(
        f'title = "My kitchen"\ntrain = {train * 2}\ntest = {test * 2}\n'
        '[classes]\nmoka_pot = "moka pot"\ncup = "cup"\n'
    )
    folder = home / "kitchen"
    for part, count in (("train", train), ("test", test)):
        for name in classes or ("moka_pot", "cup"):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (8, 6)).save(folder / part / name / f"{number}.png")
    return folder


def test_list_shows_all_and_what_lies_here(home: Path) -> None:
    make_kitchen(home)
    shown = proof_data("list").stdout
    assert re.search(r"cub200 .*CUB-200-2011 .*200 .*B0-Inc20, B100-Inc20 .*11,788 .*no", shown)
    assert re.search(r"food101 .*100 of 101 .*downloads", shown)
    assert re.search(r"kitchen .*My kitchen .*2 .*8 .*yes", shown)
    assert str(home) in shown.replace("\n", "")


@pytest.mark.parametrize("name", ["cub200", "tv100", "cars", "ucf101", "objectnet"])
def test_show_tells_all_that_is_known(name: str) -> None:
    what = known(name)
    shown = proof_data("show", name).stdout
    words = " ".join(shown.split())
    for text in (what.title, what.about, what.licence, what.split, what.subset, what.homepage):
        assert " ".join(text.split()) in words
    for file in what.files:
        assert file.url in shown
        assert file.md5 in shown
    assert all(template in shown for template in what.templates)
    assert all(line.strip() in shown for line in what.layout.splitlines())
    assert name in shown


def test_show_lists_the_classes() -> None:
    shown = proof_data("show", "food101", "--classes").stdout.splitlines()
    assert len(shown) == 101
    assert shown[0].split() == ["1", "apple_pie", "apple", "pie"]
    assert shown[-1].endswith("waffles  (not used)")
    assert "the classes are the folders" in proof_data("show", "tv100", "--classes").stdout


def test_check_is_content_with_what_is_whole(home: Path, tmp_path: Path) -> None:
    folder = make_kitchen(home)
    for arguments in (["kitchen"], ["kitchen", folder], ["kitchen", folder, "--decode"]):
        result = proof_data("check", *arguments)
        assert result.exit_code == 0
        assert "layout: class folders in train/ and test/" in result.stdout
        assert "classes: 2 of 2" in result.stdout
        assert "split: 2 test, 6 train" in result.stdout
        assert "all is well" in result.stdout


def test_check_lists_what_is_wrong(home: Path) -> None:
    folder = make_kitchen(home, "moka_pot", "fork")
    result = proof_data("check", "kitchen")
    assert result.exit_code == 1
    assert "wrong: missing class 'cup'" in result.stdout
    assert "wrong: unexpected class 'fork'" in result.stdout
    assert "all is well" not in result.stdout
    (folder / "train" / "fork").rename(folder / "train" / "cup")
    (folder / "test" / "fork").rename(folder / "test" / "cup")
    (folder / "train" / "cup" / "0.png").unlink()
    (folder / "train" / "cup" / "notes.txt").touch()
    result = proof_data("check", "kitchen")
    assert result.exit_code == 1
    assert "wrong: 7 pictures, expected 8" in result.stdout
    assert "ignored: 1 files" in result.stdout


def test_check_decodes_only_when_it_is_asked_to(home: Path) -> None:
    folder = make_kitchen(home)
    (folder / "train" / "cup" / "1.png").write_bytes(b"broken")
    assert proof_data("check", "kitchen").exit_code == 0
    result = proof_data("check", "kitchen", "--decode")
    assert result.exit_code == 1
    assert "1.png': not a picture in a format that is read" in result.stdout


def test_check_looks_at_archives_and_listed_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = "009.Brewer_Blackbird"
    content = b"an archive"
    md5 = hashlib.md5(content).hexdigest()
    small = replace(
        known("cub200"),
        classes={official: "Brewer's blackbird"},
        use=1,
        train=1,
        test=1,
        files=(File("right.tgz", md5=md5), File("wrong.tgz", md5=md5), File("short.tgz", bytes=99)),
    )
    monkeypatch.setattr("proof.datasets.known.known", lambda name: small)
    for name, inside in (("right", content), ("wrong", b"an Archive"), ("short", content)):
        (tmp_path / f"{name}.tgz").write_bytes(inside)
    (tmp_path / "images" / official).mkdir(parents=True)
    (tmp_path / "images" / official / "1.jpg").touch()
    (tmp_path / "images.txt").write_text(f"1 {official}/1.jpg\n2 {official}/2.jpg\n")
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 0\n")
    result = proof_data("check", "cub200", tmp_path)
    assert result.exit_code == 1
    assert "archive: right.tgz has the checksum that is known" in result.stdout
    assert f"wrong: wrong.tgz has another checksum than {md5}" in result.stdout
    assert "wrong: short.tgz has 10 bytes, expected 99" in result.stdout
    assert f"wrong: no file '{tmp_path}/images/{official}/2.jpg'" in result.stdout


def test_check_of_what_is_not_there(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"no folder .*expected the folder that holds cub200"):
        proof_data("check", "cub200")
    result = proof_data("check", "cub200", tmp_path)
    assert result.exit_code == 1
    assert "wrong:" in result.stdout
    assert "CUB_200_2011.tgz" in result.stdout
    with pytest.raises(ProofError, match="no known data set 'cub201': did you mean 'cub200'"):
        proof_data("show", "cub201")


def test_the_example_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (REPOSITORY / "docs" / "adding-a-data-set.md").read_text()
    example = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert example
    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"# {lines[0]}" in guide
    assert sum(map(int, lines[1].split())) == 60
    monkeypatch.setenv("PROOF_DATA", str(tmp_path / "my-data-sets"))
    assert "all is well" in proof_data("check", "kitchen").stdout
