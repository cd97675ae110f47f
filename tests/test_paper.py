"""The published numbers: against the paper's own text where it is at hand, and by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from conftest import REPOSITORY
from proof.datasets.known import known, known_names
from proof.errors import ProofError
from proof.methods import list_methods
from proof.paper import Table, methods, published, table, tables
from proof.streams import parse_protocol, task_sizes

PAPER = REPOSITORY.parent / "shared" / "paper"  # it lies beside the repository, not in it
Key = tuple[str, str, str, str, str]  # table, data, protocol, method, column


def read(name: str) -> str:
    if not (PAPER / name).exists():
        pytest.skip("the text of the paper is not at hand")
    return (PAPER / name).read_text(encoding="utf-8")


# The paper's tables, read by their own headings.


@dataclass(frozen=True)
class Cell:
    """A cell of the body of a table, with the headings of its column from top to bottom."""

    label: str
    heading: tuple[str, ...]
    method: str
    text: str


def tex_cells(tex: str) -> Iterator[Cell]:
    """All cells behind the name of a method, of all tables of a LaTeX text."""
    for floating in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", tex, re.DOTALL):
        label = re.search(r"\\label\{(.*?)\}", floating)
        assert label
        for tabular in re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", floating, re.DOTALL):
            head, _, body = tabular.partition(r"\midrule")
            headings = [spread(line) for line in lines(head)]
            for line in lines(body):
                method, *rest = spread(line)
                for column, text in enumerate(rest, 1):
                    above = (row[column] for row in headings if column < len(row))
                    yield Cell(label[1], tuple(filter(None, above)), method, text)


def lines(text: str) -> list[str]:
    without_rules = re.sub(r"\\(toprule|midrule|bottomrule)|\\rowcolor\{\w+\}", "", text)
    return [line for line in without_rules.split(r"\\") if "&" in line]


def spread(line: str) -> list[str]:
    """The cells of a line, one that spans several columns in each of them, without its dress."""
    cells: list[str] = []
    for cell in line.split("&"):
        span = re.search(r"\\multicolumn\{(\d+)\}\{\w\}\{(.*)\}", cell, re.DOTALL)
        count, text = (int(span[1]), span[2]) if span else (1, cell)
        text = re.sub(r"\\multirow\{\d+\}\{\*\}", "", text).replace(r"\name", "PROOF")
        text = re.sub(r"~?\\cite\{.*?\}|\\bf(?![a-z])|\\mathcal|[{}$\s]+", " ", text)
        cells += [" ".join(text.split())] * count
    return cells


OURS = {"zs-clip": "zero-shot", "cub": "cub200", "food": "food101", "sun": "sun397",
        "ucf": "ucf101"}  # fmt: skip


def here(name: str) -> str:
    """Our name of a method or a data set of the paper."""
    plain = name.lower().replace(" ", "-")
    return OURS.get(plain, plain)


def tex_figures(tex: str) -> dict[Key, str]:
    """The numbers of the paper's tables, as they are written there."""
    sizes = {
        here(data): numbers.replace(" ", "")
        for numbers, data in re.findall(r"\\\{([\d, ]+)\\\}\$ for ([\w-]*\w)", tex)
    }
    found: dict[Key, str] = {}
    for cell in tex_cells(tex):
        if cell.heading == ("Exemplar",) or not cell.text:
            continue
        top, symbol = cell.heading[0], cell.heading[-1]
        column = "average" if r"\bar" in symbol else "last"
        data, protocol, method = here(top), "", here(cell.method)
        if recall := re.search(r"@ ?\d+", symbol):
            data, protocol = "flickr30k", here(top.replace(r"\rightarrow", "to"))
            column += f" R{recall[0]}"
        elif method == "oracle":
            protocol, column = "joint", "accuracy"
        else:
            protocol = here(cell.heading[1]) if len(cell.heading) == 3 else sizes[data]
            protocol = re.sub(r"b(\d+)-inc(\d+)", r"B\1-Inc\2", protocol)
        key = cell.label, data, protocol, method, column
        assert found.setdefault(key, cell.text) == cell.text, key
    return found


def our_figures() -> dict[Key, str]:
    return {
        (label(one), row.data, row.protocol, row.method, column): f"{value:.2f}"
        for one in tables().values()
        for row in one.rows
        for column, value in row.values.items()
        if label(one)
    }


def label(one: Table) -> str:
    """The label of a table in the paper; nothing where it is not from there."""
    found = re.search(r"tab:[\w-]+", one.source)
    return found[0] if found else ""


def test_every_cell_of_the_papers_tables_is_here_and_no_other() -> None:
    tex = read("proof.tex")
    theirs, ours = tex_figures(tex), our_figures()
    tabulars = re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", tex, re.DOTALL)
    assert len(theirs) == sum(len(re.findall(r"\d\.\d", tabular)) for tabular in tabulars)
    assert {key: ours.get(key) for key in theirs} == theirs
    assert ours.keys() == theirs.keys()


def test_with_and_without_exemplars_is_as_in_the_paper() -> None:
    marks = {r"\ding 51": True, r"\ding 55": False}
    theirs = {
        (cell.label, here(cell.method), marks[cell.text])
        for cell in tex_cells(read("proof.tex"))
        if cell.heading == ("Exemplar",) and cell.text
    }
    ours = {
        (label(one), row.method, row.exemplars)
        for one in tables().values()
        for row in one.rows
        if row.exemplars is not None
    }
    assert ours == theirs


def test_the_curves_are_those_of_the_authors_logs() -> None:
    text = read("reference-behaviour.md")
    settings, logs = text.split("## Accuracy after each task")
    increments = {
        (here(data), base): increment
        for data, protocols in re.findall(r"^\| ([\w-]+) \| (\d+/[\d/, ]+) \|", settings, re.M)
        for base, increment in re.findall(r"(\d+)/(\d+)", protocols)
    }
    theirs = {
        (here(data), f"B{base}-Inc{increments[here(data), base]}"): [*map(float, curve.split())]
        for data, base, curve in re.findall(r"^\| ([\w-]+) \| (\d+) \| ([\d. ]+) \|", logs, re.M)
    }
    ours = {(row.data, row.protocol): [*row.values.values()] for row in table("curves").rows}
    assert len(ours) == len(table("curves").rows) == logs.count("\n| ") - 1
    assert ours == theirs


# What holds without the paper's text.


def test_the_main_table_has_the_protocols_of_the_known_data_sets() -> None:
    ours = {(row.data, row.protocol) for row in table("main").rows}
    shown_as_pictures = {"tv100"}
    assert ours == {
        (name, protocol)
        for name in set(known_names()) - shown_as_pictures
        for protocol in known(name).protocols
    }
    assert {row.data for row in table("oracle").rows} == {data for data, _ in ours}
    assert {(row.data, row.protocol) for row in table("curves").rows} == ours


@pytest.mark.parametrize("key", ["main", "oracle", "varied", "retrieval"])
def test_every_method_of_a_table_has_every_column_of_every_stream(key: str) -> None:
    rows = table(key).rows
    assert all(tuple(row.values) == table(key).columns for row in rows)
    streams = {(row.data, row.protocol) for row in rows}
    names = {row.method for row in rows}
    assert len(rows) == len(streams) * len(names)


def test_a_curve_has_a_value_for_each_task() -> None:
    for row in table("curves").rows:
        sizes, name = parse_protocol(row.protocol, known(row.data).use)
        assert (len(row.values), row.protocol) == (len(sizes), name)


def test_varied_sizes_are_a_protocol_of_the_data_set() -> None:
    for row in table("varied").rows:
        sizes = [int(size) for size in row.protocol.split(",")]
        assert task_sizes(sizes, known(row.data).use)[1] == row.protocol


def test_figures_are_percentages_that_agree_with_each_other() -> None:
    values = [
        value for one in tables().values() for row in one.rows for value in row.values.values()
    ]
    assert all(0 < value < 100 for value in values)
    for row in table("retrieval").rows:
        for kind in ("last", "average"):
            recalls = [row.values[f"{kind} R@{k}"] for k in (1, 5, 10)]
            assert recalls == sorted(recalls)
    for method in ("zero-shot", "simplecil"):  # where they end does not depend on the way there
        for data in known_names():
            last = {row.values["last"] for row in table("main").rows
                    if (row.data, row.method) == (data, method)}  # fmt: skip
            assert len(last) == (data != "tv100")


def test_every_method_has_a_name_in_the_paper_and_ours_are_ours() -> None:
    rows = [row for one in tables().values() for row in one.rows]
    assert {row.method for row in rows} == methods().keys()
    ours = {"zero-shot", "simplecil", "proof", "proof-reference"}
    assert ours <= methods().keys() & set(list_methods())


def test_a_stream_and_a_method_have_one_published_result() -> None:
    rows = [row for key in ("main", "varied", "curves") for row in table(key).rows]
    keys = {(row.data, row.protocol, row.method) for row in rows}
    assert len(keys) == len(rows)
    for data, protocol, method in keys:
        found = published(data, protocol, method)
        assert found
        assert 0 < found.last < found.average + 5
        assert found.source


def test_published_looks_up_what_a_record_says() -> None:
    proof = published(data="imagenet-r", protocol="B100-Inc20", method="proof")
    assert proof
    assert (proof.average, proof.last, proof.curve) == (82.32, 80.30, None)
    assert proof.exemplars is True
    assert "tab:supp_benchmark" in proof.source
    log = published("imagenet-r", "B100-Inc20", "proof-reference")
    assert log
    assert log.curve == (84.46, 82.77, 81.28, 80.74, 79.1, 78.03)
    assert (log.average, log.last) == (pytest.approx(sum(log.curve) / 6, abs=0.005), 78.03)
    assert "authors' code" in log.source
    sizes = published("cifar100", "12,13,10,14,5,13,13,14,6", "dap")
    assert sizes
    assert sizes.last == 73.56


@pytest.mark.parametrize(
    ("data", "protocol", "method"),
    [
        ("cifar100-small", "B0-Inc10", "proof"),
        ("cifar100", "B0-Inc20", "proof"),
        ("cifar100", "B0-Inc10", "proof:context=PW"),
        ("tv100", "B0-Inc10", "proof"),
        ("flickr30k", "image-to-text", "proof"),
    ],
)
def test_what_was_not_published_is_nothing(data: str, protocol: str, method: str) -> None:
    assert published(data, protocol, method) is None


def test_select_understands_spellings_and_the_papers_names() -> None:
    (row,) = table("main").select(["CUB 200"], ["b0 inc20"], ["zs-clip"])
    assert (row.data, row.protocol, row.method) == ("cub200", "B0-Inc20", "zero-shot")
    assert len(table("main").select(method=["proof", "coop"])) == 36


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"data": ["cifar"]},
            r"table 'main' has no data 'cifar': did you mean 'cifar100'\? expect",
        ),
        ({"method": ["der"]}, r"has no method 'der': expected one of finetune, .*, proof$"),
        (
            {"data": ["cub200"], "protocol": ["B50-Inc10"]},
            r"table 'main', data cub200, has no protocol .*expected one of B0-Inc20, B100-Inc20$",
        ),
    ],
)
def test_a_name_that_is_not_there_is_an_error(chosen: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ProofError, match=message):
        table("main").select(**chosen)
