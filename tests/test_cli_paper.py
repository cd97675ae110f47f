"""`proof paper`: what was published, on the command line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from proof.cli import app
from proof.errors import ProofError
from proof.paper import table, tables


def proof_paper(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["paper", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_list_has_every_table_with_its_source() -> None:
    shown = proof_paper().stdout
    for one in tables().values():
        assert f"{one.key}  {one.title}" in shown
        assert one.source in shown
    assert "zero-shot (ZS-CLIP)" in shown
    listed = json.loads(proof_paper("--json", "-").stdout)
    assert {row["table"]: row["figures"] for row in listed} == {
        key: sum(len(row.values) for row in one.rows) for key, one in tables().items()
    }


@pytest.mark.parametrize("key", ["main", "oracle", "varied", "retrieval", "curves"])
def test_a_table_is_printed_whole(key: str) -> None:
    shown = proof_paper(key).stdout
    rows = [
        [cell.strip() for cell in line.strip("│\n").split("│")]
        for line in shown.splitlines()
        if line.startswith("│")
    ]
    assert [cells[:3] for cells in rows] == [
        [row.data, row.protocol, row.method] for row in table(key).rows
    ]
    for cells, row in zip(rows, table(key).rows, strict=True):
        numbers = [cell for cell in cells[3:] if cell not in ("", "yes", "no")]
        assert numbers == [f"{value:.2f}" for value in row.values.values()]


def test_filters_choose_rows() -> None:
    rows = csv.DictReader(
        proof_paper(
            "main", "--data", "cars", "--data", "SUN397", "--method", "PROOF", "--method",
            "ZS-CLIP", "--protocol", "B0-Inc10", "--protocol", "B150-Inc30", "--csv", "-",
        ).stdout.splitlines()
    )  # fmt: skip
    assert [(r["data"], r["protocol"], r["method"], r["exemplars"], r["last"]) for r in rows] == [
        ("cars", "B0-Inc10", "zero-shot", "no", "76.37"),
        ("cars", "B0-Inc10", "proof", "yes", "89.84"),
        ("sun397", "B150-Inc30", "zero-shot", "no", "72.11"),
        ("sun397", "B150-Inc30", "proof", "yes", "77.49"),
    ]


def test_the_forms_say_the_same_and_where_it_is_from(tmp_path: Path) -> None:
    files = {form: tmp_path / "new" / f"paper.{form}" for form in ("markdown", "csv", "json")}
    options = [part for form, path in files.items() for part in (f"--{form}", path)]
    shown = proof_paper("curves", "--data", "cub200", *options).stdout
    assert shown.splitlines() == [f"written to {path}" for path in files.values()]
    records = json.loads(files["json"].read_text())
    assert [record["protocol"] for record in records] == ["B0-Inc20", "B100-Inc20"]
    assert records[0]["task 10"] == 79.86
    assert records[1]["task 10"] is None
    lines = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert lines[0].keys() == records[0].keys()
    assert (lines[0]["task 3"], lines[1]["task 10"]) == ("87.80", "")
    assert lines[1]["source"] == records[1]["source"] == table("curves").source
    caption, _, headings, rule, first, second = files["markdown"].read_text().splitlines()
    assert table("curves").source in caption
    assert headings.startswith("| data | protocol | method | task 1 |")
    assert rule.startswith("|---|---|---|---:|")
    assert first.startswith("| cub200 | B0-Inc20 | proof-reference | 96.36 | 91.41 |")
    assert second.endswith("| 78.92 |  |  |  |  |")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mian"], "has no table 'mian': did you mean 'main'. expected one of main, oracle"),
        (["main", "--data", "tv100"], "has no data 'tv100': .*expected one of aircraft"),
        (["main", "--method", "simplecll"], "did you mean 'simplecil'"),
        (["curves", "--protocol", "B0-Inc40"], "has no protocol 'B0-Inc40'"),
        (["--data", "cars"], "'cars' chooses from a table: name one that `proof paper` lists"),
        (["main", "--csv", "."], "'.' is a folder"),
    ],
)
def test_a_users_mistake_is_an_error_that_helps(arguments: list[str], message: str) -> None:
    with pytest.raises(ProofError, match=message):
        proof_paper(*arguments)


def test_it_answers_without_torch_and_a_mistake_is_one_line() -> None:
    code = """if True:
        import atexit, sys
        from proof.cli import main
        atexit.register(lambda: print("torch" in sys.modules))
        sys.argv = ["proof", "paper", "varied", "--method", "ploti"]
        main()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert done.stderr.startswith(
        "error: table 'varied' has no method 'ploti': did you mean 'plot'?"
    )
    assert done.stderr.count("\n") == 1


def test_help_has_an_example() -> None:
    assert "proof paper main --data cifar100" in proof_paper("--help").stdout
