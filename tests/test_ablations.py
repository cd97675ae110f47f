"""The paper's ablations: what they run, and what is made of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import REPOSITORY, make_data
from proof import Budget, ProofError, Stream, create
from proof.ablations import ABLATIONS, find_ablation, task_cuts
from proof.cli.ablate import ablate
from proof.grid import Plan, run_all
from proof.reports import ablations as written
from proof.reports.ablations import Result
from proof.streams import task_sizes
from test_grid import Notes


@pytest.fixture
def file(tmp_path: Path) -> str:
    make_data().save(tmp_path / "made.safetensors")
    return str(tmp_path / "made.safetensors")


def result(name: str, *places: str | list[int], seeds: int = 1, data: str = "made") -> Result:
    """An ablation on small data, cut in the ways of `places`."""
    small = dataclasses.replace(make_data(classes=20), name=data)
    ablation = find_ablation(name)
    plans = [
        Plan(method, Stream.of(small, place), seed, Budget(per_class=4), "cpu")
        for place in places
        for method in ablation.methods.values()
        for seed in range(seeds)
    ]
    return Result.of(name, ablation, list(map(str, places)), run_all(plans, Notes()))


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_run_of_an_ablation_is_one_that_bench_takes(name: str) -> None:
    options = [create(method) for method in ABLATIONS[name].methods.values()]
    told = {(learner.name, learner.options) for learner in options}
    assert len(told) == len(options), "no two are the same"
    assert ABLATIONS[name].asks.endswith("?")


def test_the_settings_are_those_of_the_paper() -> None:
    lengths = [
        create(method).options.prompt_length
        for method in ABLATIONS["prompt-length"].methods.values()
    ]
    assert lengths == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 30, 50, 100]
    contexts = [create(method).options.context for method in ABLATIONS["context"].methods.values()]
    assert contexts == ["P", "W", "PW", "PWC"]
    parts = [create(method).options for method in ABLATIONS["components"].methods.values()][1:]
    assert [(p.projection != "none", p.fusion, "C" in p.context) for p in parts] == [
        (True, False, True),  # a context that nothing reads
        (False, True, False),
        (True, True, False),
        (True, True, True),
    ]


@pytest.mark.parametrize("classes", [4, 12, 100, 102, 200])
def test_classes_are_cut_in_ways_that_add_up(classes: int) -> None:
    cuts = task_cuts(classes)
    sizes = [task_sizes(cut, classes)[0] for cut in cuts]
    assert all(sum(tasks) == classes and 2 <= len(tasks) <= 20 for tasks in sizes)
    uneven = [cut for cut in cuts if isinstance(cut, list)]
    assert len(uneven) == (1 if classes in (100, 200) else 0), "those of the paper"


def test_where_no_task_size_divides_the_classes_the_user_names_some() -> None:
    with pytest.raises(ProofError, match="101 classes cannot be cut into 2 to 20 equal") as error:
        task_cuts(101)
    protocol = str(error.value).rpartition(" ")[2].split(",")[0]
    assert sum(task_sizes(protocol, 101)[0]) == 101


def test_variants_of_a_method_are_compared_in_their_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = result("components", "B0-Inc10", seeds=2)
    runs = [(run["method"], run["seed"]) for e in found.settings[0].entries for run in e.records]
    methods = list(ABLATIONS["components"].methods.values())
    assert runs == [(method, seed) for method in methods for seed in (0, 1)]
    written.print_result(found)
    printed = capsys.readouterr().out
    labels = list(ABLATIONS["components"].methods)
    positions = [printed.index(f"│ {label} ") for label in labels]
    assert positions == sorted(positions)
    assert "What does each part of PROOF add?" in printed
    assert "made, B0-Inc10, order seed 1993, mean and standard deviation of 2" in printed
    assert "±" in printed
    rows = list(csv.DictReader(io.StringIO(written.csv(found))))
    assert [row["varied"] for row in rows] == labels
    assert [row["method"] for row in rows] == methods
    last = found.settings[0].entries[1].last
    assert float(rows[1]["last"]) == pytest.approx(last, abs=0.01)
    assert f"{last:.2f}" in written.markdown(found)
    written.draw(found, tmp_path / "components.svg")
    drawn = (tmp_path / "components.svg").read_text()
    assert f"<!-- {last:.1f} -->" in drawn, "each bar tells its value"


def test_methods_are_compared_at_each_place(tmp_path: Path) -> None:
    found = result("task-sizes", "B0-Inc10", [5, 15], data="cifar100")
    text = written.markdown(found)
    table = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len({len(row) for row in table}) == 1
    assert [row[0].strip("| ") for row in table[1:]] == 3 * ["B0-Inc10"] + 3 * [r"\[5, 15\]"]
    assert "86.70 (" in text, "published where the paper has it"
    assert len(list(csv.DictReader(io.StringIO(written.csv(found))))) == 6
    written.draw(found, tmp_path / "task-sizes.svg")
    drawn = (tmp_path / "task-sizes.svg").read_text()
    for label in ("average accuracy (%)", "last accuracy (%)", "simplecil", "B0-Inc10"):
        assert f"<!-- {label} -->" in drawn


def test_numbers_are_drawn_as_lines_with_their_deviation(tmp_path: Path) -> None:
    found = result("prompt-length", "B0-Inc10", seeds=2)
    written.draw(found, tmp_path / "prompt-length.svg")
    drawn = (tmp_path / "prompt-length.svg").read_text()
    last = found.settings[0].entries[-1].last
    assert f"<!-- last  {last:.1f} -->" in drawn
    assert "FillBetweenPolyCollection" in drawn or "PolyCollection" in drawn


def test_what_is_in_the_folder_is_not_run_again(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str) -> tuple[str, int]:
        ablate(name, [file], protocol="B0-Inc6", output=tmp_path / "out", jobs=1, device="cpu")
        said = capsys.readouterr()
        return said.out, said.err.count("(kept from before)")

    first, kept = run("context")
    assert kept == 0
    assert "context.md, .csv, .png and the records written" in first
    again, kept = run("context")
    assert kept == 4
    assert again == first
    assert run("components")[1] == 2, "[P, W] and all of PROOF are the same runs"
    names = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".json"}
    assert names == {
        f"{name}.{suffix}" for name in ("context", "components") for suffix in ("md", "csv", "png")
    }
    assert (tmp_path / "out" / "context.png").read_bytes().startswith(b"\x89PNG")


def test_encoders_are_compared_on_the_same_data(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, odd = str(tmp_path / "other.safetensors"), str(tmp_path / "odd.safetensors")
    make_data(d=24).save(other)
    make_data(classes=9).save(odd)
    ablate("backbone", [file, other], protocol="B0-Inc6", jobs=1, device="cpu")
    shown = capsys.readouterr().out
    assert shown.count("│ made ") == shown.count("│ other ") == 3
    with pytest.raises(ProofError, match="'odd' has other classes than 'made'"):
        ablate("backbone", [file, odd], protocol="B0-Inc3", device="cpu")


def test_encoders_are_compared_on_the_same_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from conftest import make_pictures
    from proof.encoders import register_encoder
    from simple_encoder import FACTS, Means

    for name in ("cup", "kettle"):
        make_pictures(tmp_path / "photos" / name, 12)
    for number in (1, 2):
        facts = dataclasses.replace(FACTS, fingerprint=f"{number:064x}")
        register_encoder(f"means{number}")(lambda name, facts=facts, **_: Means(facts))
    ablate(
        "backbone", [str(tmp_path / "photos")], protocol="B0-Inc1", test_fraction=0.5, jobs=1,
        encoder=["means1:", "means2:"], device="cpu",
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert shown.count("│ means1: ") == shown.count("│ means2: ") == 3


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("prompts", {}, "no ablation 'prompts': expected one of components, prompt-length"),
        ("context", {"data": ["FILE", "other"]}, "ablate context takes one DATA"),
        ("context", {"encoder": ["a", "b"]}, "takes one DATA and one --encoder"),
        ("context", {"protocol": "B0-Inc4,B0-Inc6"}, "ablate task-sizes` compares several"),
        ("context", {"protocol": "B0-Inc5"}, "does not add up to 12 classes"),
        ("context", {"seeds": "-1"}, "seed -1: expected a whole number"),
        ("context", {"output": "FILE"}, "cannot write"),
        ("backbone", {}, "compares encoders: expected several embeddings files"),
        ("backbone", {"encoder": ["a", "a"]}, "--encoder a a: the same value stands there twice"),
        ("task-sizes", {"protocol": "B0-Inc6,B0-Inc7"}, "B0-Inc7 does not add up to 12"),
    ],
)
def test_a_users_mistake_is_told(name: str, given: dict[str, Any], message: str, file: str) -> None:
    chosen = {"data": ["FILE"], "protocol": "B0-Inc6", "device": "cpu", **given}
    chosen["data"] = [file if one == "FILE" else one for one in chosen["data"]]
    if chosen.get("output"):
        chosen["output"] = Path(file)
    with pytest.raises(ProofError, match=message):
        ablate(name, **chosen)


def test_help_lists_what_each_asks() -> None:
    command = [sys.executable, "-m", "proof", "ablate", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    for name, ablation in ABLATIONS.items():
        assert f"{name}: {ablation.asks}" in shown
    assert "proof ablate components cifar100-small" in shown


def test_the_guide_names_every_ablation() -> None:
    guide = (REPOSITORY / "docs" / "ablations.md").read_text()
    for name, ablation in ABLATIONS.items():
        assert f"`{name}`" in guide
        assert ablation.asks in guide
