"""Reports: which records compare, and what is made of them."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import REPOSITORY
from proof.paper import published
from proof.records import read_records
from proof.reports import curves, written
from proof.reports.groups import in_order, settings_of
from proof.reports.page import page
from proof.runs import Record, mean_and_deviation

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{data}}\u2028$x_&|`"


def hostile(records: list[Record]) -> list[Record]:
    """The same records, with names that try to be more than names."""
    text = json.dumps(records).replace("class ", json.dumps(HOSTILE)[1:-1])
    evil: list[Record] = json.loads(text)
    for record in evil:
        record["method"] += HOSTILE
        record["data"] += HOSTILE
        record["encoder"] = record["device"] = HOSTILE
        record["zero_shot"][HOSTILE] = record["zero_shot"]["seen"]
    return evil


def changed(record: Record, **changes: Any) -> Record:
    return {**record, "key": json.dumps(changes), **changes}


def test_seeds_are_averaged(records: list[Record]) -> None:
    [setting] = settings_of(records)
    assert [entry.label for entry in setting.entries] == ["simplecil", "proof"]
    proof = setting.entries[1]
    assert proof.value("last") == pytest.approx(
        mean_and_deviation([record["last"] for record in records[2:]])
    )
    assert proof.curve("curve")[0] == pytest.approx(
        (records[2]["curve"][0] + records[3]["curve"][0]) / 2
    )
    assert proof.forgetting()[-1] == pytest.approx(proof.value("forgetting")[0], abs=1e-3)
    assert proof.forgetting()[0] is None


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        ({"options": {"epochs": 9}}, ["proof (epochs 1)", "proof (epochs 9)"]),
        (
            {"exemplar_budget": "9/class"},
            ["proof (exemplars 4/class)", "proof (exemplars 9/class)"],
        ),
        ({"device": "NVIDIA H200"}, ["proof (device cpu)", "proof (device NVIDIA H200)"]),
        ({"device": "cpu, 64 threads"}, ["proof"]),
    ],
)
def test_what_differs_in_more_than_the_seed_is_not_averaged(
    change: Record, labels: list[str], records: list[Record]
) -> None:
    record = records[2]
    options = {**record["options"], **change.get("options", {})}
    other = changed(record, **{**change, "options": options})
    [setting] = settings_of([record, other])
    assert [entry.label for entry in setting.entries] == labels


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"data": "photos"}, "photos, B0-Inc10"),
        ({"protocol": "B5-Inc15"}, "cifar100, B5-Inc15"),
        ({"order_seed": 7}, "cifar100, B0-Inc10 (order seed 7)"),
        ({"fingerprint": "other"}, "cifar100, B0-Inc10 (fingerprint other)"),
    ],
)
def test_other_data_or_another_stream_is_another_table(
    change: Record, title: str, records: list[Record]
) -> None:
    settings = settings_of([records[0], changed(records[0], **change)])
    assert [setting.title for setting in settings][1] == title
    assert all(len(setting.entries[0].records) == 1 for setting in settings)


def test_streams_and_methods_are_in_order(records: list[Record]) -> None:
    streams = [changed(r, protocol=f"B{base}-Inc10") for base in (100, 0, 50) for r in records]
    settings = in_order(settings_of(streams))
    assert [s.first["protocol"] for s in settings] == ["B0-Inc10", "B50-Inc10", "B100-Inc10"]
    for setting in settings:
        averages = [entry.average for entry in setting.entries]
        assert averages == sorted(averages, reverse=True)


def test_the_published_value_stands_beside_ours(records: list[Record]) -> None:
    settings = in_order(settings_of(records))
    theirs = published("cifar100", "B0-Inc10", "proof")
    assert theirs
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(written.csv(settings)))}
    assert float(rows["proof"]["last_published"]) == theirs.last
    difference = float(rows["proof"]["last"]) - theirs.last
    assert float(rows["proof"]["last_difference"]) == pytest.approx(difference, abs=0.011)
    assert rows["proof"]["source"] == theirs.source
    mean = sum(record["last"] for record in records[2:]) / 2
    told = f"{theirs.last:.2f} ({mean - theirs.last:+.2f})"
    assert told in written.markdown(settings)
    assert told.replace("(", "($").replace(")", "$)") in written.latex(settings)
    assert f"{theirs.last:.2f}" in page(settings)
    [note] = settings[0].sources()
    assert note.endswith("encoder ViT-B-16/laion400m_e32, where these runs have none")


def test_the_best_is_bold_and_the_deviation_told(records: list[Record]) -> None:
    settings = settings_of([*records, *(changed(r, protocol="B5-Inc15") for r in records)])
    best = max(settings[0].entries, key=lambda entry: entry.average)
    mean, deviation = best.value("average") or (0, 0)
    assert f"**{mean:.2f} ± {deviation:.2f}**" in written.markdown(settings)
    assert rf"\textbf{{{mean:.2f}\,$\pm$\,{deviation:.2f}}}" in written.latex(settings)
    assert "## All streams" in written.markdown(settings)
    assert written.latex(settings).count(r"\multicolumn{2}") == 2


def test_tables_show_hostile_names_as_they_are(records: list[Record]) -> None:
    settings = settings_of(hostile(records))
    lines = written.markdown(settings).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, "columns are whole"
    assert "<script" not in written.markdown(settings).replace(r"\<", "")
    assert r"\$x\_\&|`" in written.latex(settings)
    assert len(list(csv.reader(io.StringIO(written.csv(settings))))) == 3


def test_the_page_holds_all_it_needs_and_only_its_own_scripts(records: list[Record]) -> None:
    text = page(in_order(settings_of(hostile(records))))
    policy = html.unescape(re.findall(r'Security-Policy" content="([^"]*)"', text)[0])
    for element, source in (("style", "style-src"), ("script", "script-src")):
        [inside] = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.findall(r'(?:src|href)="(?!#|data:,)', text), "nothing outside is referred to"
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "{{data}}" in text, "a name is no placeholder"
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert any(HOSTILE in method for method in json.loads(data)["methods"])


def test_the_page_tells_what_is_mixed_up(records: list[Record]) -> None:
    text = page(in_order(settings_of(records)))
    accuracy = records[0]["class_accuracy"]
    worst = min(accuracy, key=lambda name: accuracy[name])
    assert f"{worst} <span" in text
    for shown, instead, _ in records[0]["confusions"][:3]:
        assert f"{shown} <span" in text
        assert f"{instead} <span" in text


def test_the_same_records_give_the_same_figure(records: list[Record], tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        curves.draw(records, tmp_path / name)
    first = (tmp_path / "first.svg").read_text()
    assert first == (tmp_path / "second.svg").read_text()
    last = sorted(entry.last for entry in settings_of(records)[0].entries)
    assert f"(+{last[-1] - last[-2]:.1f})" in first, "the gap to the runner-up"


@pytest.mark.parametrize(("most", "start"), [(2_000, 0), (100_000, 0), (1_000_001, 1_000)])
def test_what_is_kept_has_a_scale_that_shows_the_least(
    records: list[Record], most: int, start: int
) -> None:
    small, large = records[0], changed(records[2], total_parameters=most)
    few = changed(small, inference_parameters=1_500, total_parameters=1_600)
    [setting] = settings_of([few, large])
    assert setting.kept_from == start
    assert ("logarithmic" in page([setting]).partition("What is kept")[2][:400]) == (start > 0)


def test_old_records_have_a_page_too() -> None:
    """Those of docs/ were made before records told of confusions and of what is kept."""
    old = read_records([REPOSITORY / "docs" / "results" / "cifar100-b0-inc10.json"])
    text = page(in_order(settings_of(old)))
    assert 'data-figure="curves"' in text
    assert ('data-figure="parameters"' in text) == all("total_parameters" in r for r in old)
