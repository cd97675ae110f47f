"""Teaching and asking a model on the command line. In this process, but where another is needed."""

from __future__ import annotations

import csv
import inspect
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from PIL import Image

import proof.cli
from conftest import REPOSITORY, make_data, save_clip
from proof.models import locked, read_header, steps, write_model

open_clip = pytest.importorskip("open_clip")

EVIL = "cup\x1b[31m [bold]red :coffee: \u202egnp <b>&"
CLASSES = ("moka_pot", "kettle", "Löffel (groß)", EVIL)


class Said(NamedTuple):
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command here, and expects a status."""

    def command(*arguments: object, status: int = 0) -> Said:
        monkeypatch.setattr(sys, "argv", ["proof", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            proof.cli.main()
        said = Said(*capsys.readouterr())
        assert (left.value.code or 0) == status, said
        assert "Traceback" not in said.err
        assert "\x1b" not in said.out + said.err, "a label or a path was obeyed"
        assert "\u202e" not in said.out + said.err
        return said

    return command


def picture(path: Path, look: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    noisy = np.clip(look + rng.integers(-50, 50, look.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).resize((48, 32), Image.Resampling.BICUBIC).save(path, quality=90)


def photograph(folder: Path, count: int = 8, seed: int = 0) -> Path:
    """Class folders; every class has a look of its own."""
    looks = np.random.default_rng(5)
    rng = np.random.default_rng(seed)
    for name in CLASSES:
        look = looks.integers(0, 256, (3, 3, 3))
        (folder / name).mkdir(parents=True)
        for number in range(count):
            picture(folder / name / f"{number}.jpg", look, rng)
    return folder


@pytest.fixture(scope="session")
def made(tiny_clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos to learn and others to test on, and the model that learned."""
    folder = tmp_path_factory.mktemp("made")
    photograph(folder / "photos")
    photograph(folder / "test", count=3, seed=1)
    options = ("--method", "simplecil", "--encoder", f"local-dir:{tiny_clip}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PROOF_CACHE", str(folder / "cache"))
        command = typer.main.get_command(proof.cli.app)
        command(["learn", "kitchen.proof", "photos", *options], standalone_mode=False)
    return folder


@pytest.fixture
def kitchen(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That model, to change."""
    for name in ("photos", "test"):
        (tmp_path / name).symlink_to(made / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROOF_CACHE", str(made / "cache"))
    return Path(shutil.copy(made / "kitchen.proof", tmp_path))


def labels(model: Path) -> list[str]:
    return [entry["name"] for entry in read_header(model).manifest["classes"]]


def test_learn_makes_a_model_and_goes_on_with_it(
    run: Run, tiny_clip: Path, kitchen: Path, tmp_path: Path
) -> None:
    encoder = ("--encoder", f"local-dir:{tiny_clip}")
    said = run("learn", "new.proof", "photos", *encoder, "--method", "proof:epochs=1").out
    assert f"made new.proof with local-dir:{tiny_clip.resolve()} and the method proof" in said
    assert "learned 4 new classes (Löffel (groß), " in said
    assert "32 pictures" in said
    assert "new.proof knows 4 classes, accuracy " in said
    assert read_header(Path("new.proof")).manifest["method"]["options"]["epochs"] == 1
    (tmp_path / "broken.jpg").write_text("no picture")
    more = ("--class", "moka pot", "photos/moka_pot/0.jpg", "test/moka_pot", "broken.jpg")
    said, errors = run("learn", "new.proof", *more, "--name", "teapot")
    assert "learned 1 refined (moka pot), 1 by name alone (teapot): 4 pictures" in said
    assert "1 broken picture was left out:\n  broken.jpg: not a picture" in errors
    assert labels(Path("new.proof"))[-1] == "teapot"
    assert len(steps("new.proof")) == 1


def test_predict_prints_a_table(run: Run, kitchen: Path) -> None:
    lines = run("predict", kitchen, "test").out.splitlines()
    assert lines[0].split() == ["file", "label", "probability", "runners-up"]
    right = [line for line in lines[1:] if line.split("/")[1].replace("_", " ") in line[20:]]
    assert len(lines) == 13
    assert len(right) >= 9
    alone = run("predict", kitchen, "test/kettle/0.jpg", "--top", 1).out.splitlines()
    assert alone[0].split() == ["file", "label", "probability"]
    assert alone[1].split()[:2] == ["test/kettle/0.jpg", "kettle"]


def test_predict_prints_json_and_csv_and_writes_files(run: Run, kitchen: Path) -> None:
    pictures = ("test/kettle/0.jpg", f"test/{CLASSES[3]}/0.jpg")
    found = json.loads(run("predict", kitchen, *pictures, "--json").out)
    assert [row["file"] for row in found] == list(pictures)
    assert [row["label"] for row in found] == ["kettle", EVIL]
    assert len(found[0]["runners_up"]) == 2
    assert 1 >= found[0]["probability"] > found[0]["runners_up"][0]["probability"] >= 0
    said = run("predict", kitchen, *pictures, "--top", 2, "-o", "found.csv").out
    assert said == "2 predictions written to found.csv\n"
    rows = list(csv.DictReader(io.StringIO(Path("found.csv").read_text())))
    assert list(rows[0]) == ["file", "label", "probability", "label_2", "probability_2"]
    assert [row["label"] for row in rows] == ["kettle", EVIL]
    assert float(rows[0]["probability"]) == found[0]["probability"]
    shown = run("predict", kitchen, pictures[0], "--csv", "--top", 1).out
    assert shown.startswith("file,label,probability\ntest/kettle/0.jpg,kettle,")


def test_predict_takes_paths_from_standard_input(
    run: Run, kitchen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("test/kettle/0.jpg\n\ntest/moka_pot\r\n"))
    found = json.loads(run("predict", kitchen, "-", "--json").out)
    assert [row["file"] for row in found] == [
        "test/kettle/0.jpg", *(f"test/moka_pot/{number}.jpg" for number in range(3))
    ]  # fmt: skip


def test_what_is_no_class_gets_no_label(run: Run, kitchen: Path) -> None:
    picture(Path("odd.png"), np.zeros((3, 3, 3), int) + 128, np.random.default_rng(9))
    rejected = 0
    for share in ("0.999", "0.01"):
        asked = ("predict", kitchen, "odd.png", "test", "--reject", share)
        found = json.loads(run(*asked, "--json").out)
        none = [row for row in found if row["label"] is None]
        assert len(none) >= rejected
        assert all(row["runners_up"] == [] for row in none)
        rejected = len(none)
    assert rejected
    assert run(*asked).out.count("none of its classes") == rejected


def test_broken_pictures_decide_the_status_only_when_asked(run: Run, kitchen: Path) -> None:
    Path("broken.jpg").touch()
    given = ("predict", kitchen, "broken.jpg", "gone.jpg", "test/kettle/0.jpg")
    said = run(*given)
    assert "kettle" in said.out
    assert "2 broken pictures were left out:\n  broken.jpg: the file is empty" in said.err
    assert "kettle" in run(*given, "--strict", status=1).out
    assert "none of the pictures can be read" in run(*given[:-1], status=2).err


def test_predict_explains_one_picture(run: Run, kitchen: Path) -> None:
    said = run("predict", kitchen, "test/kettle/0.jpg", "--explain").out
    assert said.startswith("kettle ")
    assert "chosen alone" in said
    assert "cup\\x1b[31m" in said


def test_show_and_log_need_neither_torch_nor_the_encoder(kitchen: Path, tiny_clip: Path) -> None:
    code = (
        "import sys, proof.cli\n"
        "try: proof.cli.main()\n"
        "finally: assert not {'torch', 'open_clip'} & set(sys.modules)\n"
    )
    for verb in ("show", "log"):
        done = subprocess.run([sys.executable, "-c", code, verb, kitchen], capture_output=True)
        assert done.returncode == 0, done.stderr


def test_show_prints_the_card(run: Run, kitchen: Path) -> None:
    said = run("show", kitchen).out
    for line in (
        "prompt     a photo of a {}.",
        "method     simplecil, seed 0",
        "classes    4, taught with 32 pictures in 1 lesson",
        "kept       32 pictures as embeddings",
        "--exemplars` removes them",
        "       8  20",
        "moka pot",
    ):
        assert line in said
    card = json.loads(run("show", kitchen, "--json").out)
    assert [entry["name"] for entry in card["classes"]] == labels(kitchen)
    assert card["kept"]["pictures"] == 32
    assert card["bytes"] == kitchen.stat().st_size


def test_a_file_of_something_else_is_a_mistake(run: Run, tmp_path: Path) -> None:
    write_model(tmp_path / "odd.proof", {"classes": 3}, {})
    assert "not the file of a classifier" in run("show", tmp_path / "odd.proof", status=2).err


def test_show_writes_a_page(run: Run, kitchen: Path) -> None:
    assert run("show", kitchen, "--html", "card.html").out == "written to card.html\n"
    text = Path("card.html").read_text(encoding="utf-8")
    assert "<title>kitchen</title>" in text
    assert "cup\\x1b[31m [bold]red :coffee: \\u202egnp &lt;b&gt;&amp;" in text


def test_evaluate_measures_and_decides(run: Run, kitchen: Path) -> None:
    said = run("evaluate", kitchen, "test", "--at-least", 50).out
    assert "on 12 pictures of 4 classes" in said
    assert "calibration error" in said
    found = json.loads(run("evaluate", kitchen, "test", "--json").out)
    assert found["pictures"] == 12
    assert set(found["per_class"]) == set(labels(kitchen))
    shutil.copytree("test/kettle", "wrong/moka_pot")
    said = run("evaluate", kitchen, "wrong", "--at-least", 50, status=1)
    assert "3 of moka pot taken for kettle" in said.out
    assert said.err == "accuracy 0.00 %: below 50 %\n"


def test_forget_asks_and_leaves_no_earlier_version(
    run: Run, kitchen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("learn", kitchen, "--name", "teapot")
    assert len(steps(kitchen)) == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    run("forget", kitchen, "kettle", status=1)
    assert "kettle" in labels(kitchen)
    said = run("forget", kitchen, "kettle", "--yes").out
    assert said == f"{kitchen}: forgot 'kettle' and its 8 pictures\n"
    assert "kettle" not in labels(kitchen)
    assert steps(kitchen) == []
    assert "nothing to undo" in run("undo", kitchen, status=2).err


def test_kept_pictures_can_be_dropped_and_given_again_to_forget(run: Run, kitchen: Path) -> None:
    before = kitchen.stat().st_size
    assert "keeps no pictures any more" in run("forget", kitchen, "--exemplars", "--yes").out
    assert kitchen.stat().st_size < before
    assert "kept       no pictures" in run("show", kitchen).out
    assert steps(kitchen) == []
    some = ("--pictures", "test/kettle")
    assert "it learned 8; give all" in run("forget", kitchen, "kettle", *some, "-y", status=2).err
    run("forget", kitchen, "kettle", "--pictures", "photos/kettle", "-y")
    assert "kettle" not in labels(kitchen)


def test_rename_log_and_undo(run: Run, kitchen: Path) -> None:
    before = kitchen.read_bytes()
    assert run("rename", kitchen, "moka pot", "mocha pot").out.endswith("called 'mocha pot' now\n")
    assert "mocha pot" in labels(kitchen)
    said = run("log", kitchen).out
    assert "learned Löffel (groß), " in said
    assert "renamed moka pot to mocha pot\nearlier: 1 version; " in said
    assert json.loads(run("log", kitchen, "--json").out)[1]["what"] == "rename"
    assert "took back: renamed moka pot to mocha pot\n" in run("undo", kitchen).out
    assert kitchen.read_bytes() == before


def test_merge_makes_one_model_of_two(run: Run, kitchen: Path, tiny_clip: Path) -> None:
    shutil.copytree("test/kettle", "other/urn")
    made_alike = ("--encoder", f"local-dir:{tiny_clip}", "--method", "simplecil")
    run("learn", "bath.proof", "other", *made_alike)
    command = ("merge", kitchen, "bath.proof", "-o", "house.proof")
    said = run(*command).out
    assert "bath.proof: 1 new class (urn): 3 pictures" in said
    assert labels(Path("house.proof")) == [*labels(kitchen), "urn"]
    assert "is there already" in run(*command, status=2).err
    run("merge", kitchen, "bath.proof", "-o", kitchen)
    assert len(steps(kitchen)) == 1


def test_a_model_can_begin_with_embeddings(run: Run, kitchen: Path, tiny_clip: Path) -> None:
    make_data().save("made.safetensors")
    run("learn", "plain.proof", "made.safetensors", "--method", "simplecil")
    assert "encoder    none" in run("show", "plain.proof").out
    assert "accuracy" in run("evaluate", "plain.proof", "made.safetensors").out
    assert "--encoder NAME" in run("predict", "plain.proof", "test/kettle/0.jpg", status=2).err
    run("embed", "photos", "--encoder", f"local-dir:{tiny_clip}", "-o", "photos.safetensors")
    run("learn", "full.proof", "photos.safetensors", "--method", "simplecil")
    assert f"local-dir:{tiny_clip.resolve()}" in run("show", "full.proof").out
    assert "kettle" in run("predict", "full.proof", "test/kettle/0.jpg", "--top", 1).out


def test_an_encoder_is_found_from_elsewhere_and_after_it_moved(
    run: Run, kitchen: Path, tiny_clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_clip, "here")
    run("learn", "near.proof", "photos", "--encoder", "local-dir:here", "--method", "simplecil")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    for name in ("a.jpg", "b.jpg"):
        picture(Path(name), np.full((3, 3, 3), 90), np.random.default_rng(ord(name[0])))
    assert "a.jpg" in run("predict", "../near.proof", "a.jpg").out
    shutil.move("../here", "../moved")
    moved = ("--encoder", "local-dir:../moved")
    assert "b.jpg" in run("predict", "../near.proof", "b.jpg", *moved).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("learn", "photos", "MODEL"), "comes before all else"),
        (("learn", "MODEL"), "learn what?"),
        (("learn", "MODEL", "nowhere"), "neither a file or folder"),
        (("learn", "MODEL", "photos", "test"), "expected one folder"),
        (("learn", "MODEL", "photos/kettle"), "add --class LABEL"),
        (("learn", "MODEL", "--class", "cup"), "no pictures are given"),
        (("learn", "MODEL", "--name", "cup", "--name", "cup"), "stands there twice"),
        (("learn", "MODEL", "photos", "--method", "proof"), "was made with simplecil"),
        (("learn", "MODEL", "photos", "--method", "no"), "no method 'no'"),
        (("learn", "MODEL", "photos", "--exemplars", "7"), "was made with 50/class"),
        (("learn", "MODEL", "photos", "--no-exemplars"), "`proof forget MODEL --exemplars`"),
        (("learn", "MODEL", "photos", "--no-exemplars", "--exemplars", "7"), "one of the two"),
        (("learn", "MODEL", "photos", "--template", "{}"), "was made with a photo of a {}."),
        (("learn", "MODEL", "photos", "--seed", "3"), "was made with 0"),
        (("learn", "MODEL", "photos", "--encoder", "local-dir:OTHER"), "do not mix"),
        (("learn", "x.proof", "photos", "--encoder", "ViT-B-16"), "which weights"),
        (("learn", "x.proof", "photos", "--preprocess", "fold"), "squash or model"),
        (("learn", "x.proof", "cifar100-small", "--encoder", "a/b"), "holds embeddings already"),
        (("learn", "none/x.proof", "photos", "--seed", "-1"), "seed -1"),
        (("predict", "x.proof", "test"), "cannot read 'x.proof'"),
        (("predict", "MODEL", "test", "--explain"), "--explain is for one picture"),
        (("predict", "MODEL", "test", "-o", "test.jpg"), "ends in .json or .csv"),
        (("predict", "MODEL", "test", "--reject", "2"), "expected a share between 0 and 1"),
        (("predict", "empty.proof", "test"), "knows no class: teach it"),
        (("evaluate", "MODEL", "strange"), "is a class that was learned"),
        (("forget", "MODEL"), "forget what?"),
        (("forget", "MODEL", "ketle"), "did you mean 'kettle'?"),
        (("rename", "MODEL", "kettle", "moka pot"), "there is a class 'moka pot' already"),
        (("rename", "MODEL", "kettle", " "), "is empty"),
        (("merge", "MODEL", "-o", "x.proof"), "expected two models"),
        (("merge", "MODEL", "MODEL", "-o", "x.proof"), "stands there twice"),
        (("show", "MODEL", "--html", "card.txt"), "ends in .html"),
        (("undo", "x.proof"), "cannot read 'x.proof'"),
    ],
)
def test_a_users_mistake_is_one_line_and_changes_nothing(
    arguments: tuple[str, ...],
    message: str,
    run: Run,
    kitchen: Path,
) -> None:
    if "local-dir:OTHER" in arguments:
        save_clip(open_clip, Path.cwd(), seed=1)
    if "empty.proof" in arguments:
        proof.models.classifier.Classifier(None).save("empty.proof")
    if "strange" in arguments:
        shutil.copytree("test/kettle", "strange/urn")
    before = kitchen.read_bytes()
    words = {"MODEL": "kitchen.proof", "local-dir:OTHER": "local-dir:."}
    said = run(*(words.get(word, word) for word in arguments), status=2)
    assert message.replace("MODEL", "kitchen.proof") in said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert kitchen.read_bytes() == before
    assert not Path("x.proof").exists()


@pytest.fixture
def slow(kitchen: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options for an encoder that takes its time, and has not seen a picture yet."""
    monkeypatch.setenv("PROOF_CACHE", str(own_cache))
    Path("slow.py").write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from proof.encoders import register_encoder\n"
        "from simple_encoder import Means\n"
        "slow = Means(log=Path('log'), seconds=0.5)\n"
        "slow.name = 'slow:'\n"
        "register_encoder('slow')(lambda name, **_: slow)\n"
    )
    return ("--plugin", "slow.py")


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "proof", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(path: str, process: subprocess.Popen[str]) -> None:
    while not Path(path).exists():
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_interrupted_it_leaves_the_model_as_it_was(run: Run, slow: tuple[str, ...]) -> None:
    new = ("--encoder", "slow:", "--method", "simplecil", *slow)
    run("learn", "slow.proof", "--class", "kettle", "test/kettle", *new)
    before, versions = Path("slow.proof").read_bytes(), steps("slow.proof")
    Path("log").unlink()
    process = start("learn", "slow.proof", "photos", *slow)
    wait_for("log", process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert out == ""
    assert "interrupted; slow.proof is as it was" in errors
    assert "Traceback" not in errors
    assert Path("slow.proof").read_bytes() == before
    assert steps("slow.proof") == versions
    assert not Path(".slow.proof.lock").exists()


def test_two_lessons_at_once_both_get_in(run: Run, kitchen: Path) -> None:
    with locked(kitchen):
        other = start("learn", "kitchen.proof", "--name", "teapot")
        assert other.stderr
        assert "waiting for another process" in other.stderr.readline()
        run("learn", kitchen, "--name", "urn")
    said = other.communicate(timeout=60)
    assert other.returncode == 0, said
    assert labels(kitchen)[-2:] == ["urn", "teapot"]


def test_models_and_labels_complete(
    kitchen: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("_PROOF_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["proof", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            proof.cli.app(prog_name="proof")
        return capsys.readouterr().out.splitlines()

    assert complete("show", "ki") == ["kitchen.proof"]
    assert complete("show", "") == ["kitchen.proof", "photos/", "test/"]
    assert complete("forget", "kitchen.proof", "mo") == ["moka\\ pot"]
    assert complete("forget", "kitchen.proof", "'mo") == ["moka pot"]
    # Only what a shell cannot take for a command.
    assert complete("rename", "kitchen.proof", "") == ["kettle", "moka\\ pot"]
    assert complete("forget", "gone.proof", "") == [""]


def verbs() -> Iterator[tuple[str, ...]]:
    top = typer.main.get_command(proof.cli.app)
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        yield (name,)
        for inner in getattr(command, "commands", {}):
            yield (name, inner)


@pytest.mark.parametrize("verb", list(verbs()), ids=" ".join)
def test_help_of_every_verb_has_an_example(verb: tuple[str, ...], run: Run) -> None:
    said = run(*verb, "--help").out
    assert "Example" in said
    assert f"proof {' '.join(verb)}" in said


def test_help_of_learn_tells_the_defaults(run: Run) -> None:
    said = " ".join(run("learn", "--help").out.replace("│", " ").split())
    new = inspect.signature(proof.models.classifier.Classifier).parameters
    for name in ("encoder", "method", "exemplars", "template", "preprocess", "seed"):
        assert f"[default: ({new[name].default})]" in said


def test_help_begins_with_what_a_newcomer_needs(run: Run) -> None:
    said = run("--help").out
    wanted = ("Teach and use", "│ learn", "│ predict", "Measure", "Data and encoders")
    places = [said.index(word) for word in wanted]
    assert places == sorted(places)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("a bug")])
def test_what_the_user_did_not_do_wrong_is_status_3(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(prog_name: str) -> None:
        raise error

    monkeypatch.setattr(proof.cli, "app", fail)
    with pytest.raises(SystemExit) as left:
        proof.cli.main()
    assert left.value.code == 3
    assert str(error) in capsys.readouterr().err


def test_the_document_has_an_example_of_every_verb() -> None:
    document = (REPOSITORY / "docs" / "commands.md").read_text()
    shown = re.findall(r"^\| `proof (\w+)", document, re.MULTILINE)
    assert set(shown) == {verb[0] for verb in verbs()}
