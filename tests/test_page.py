"""The page of a report, in a real browser."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from browser import Page, browser, find_chromium
from proof.reports.groups import in_order, settings_of
from proof.reports.page import page
from proof.runs import Record
from test_reports import HOSTILE, changed, hostile

WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed to look at the page with")
    with browser(program) as window:
        yield window


@pytest.fixture
def tab(window: Page) -> Iterator[Page]:
    yield window
    assert window.errors == [], "nothing went wrong"


@pytest.fixture(scope="module")
def file(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two streams."""
    both = [*records, *(changed(record, protocol="B10-Inc10") for record in records)]
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(in_order(settings_of(both))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile_file(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    path.write_text(page(in_order(settings_of(hostile(records)))), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_nothing_goes_wrong(width: int, dark: bool, tab: Page, file: Path) -> None:
    tab.open(file, width=width, dark=dark)
    assert tab.requests == [file.as_uri()], "it asks for nothing else"
    assert tab.run("document.documentElement.scrollWidth") == width, "no sideways scrolling"
    empty = "[...document.querySelectorAll('article:not([hidden]) .plot')]"
    assert tab.run(f"{empty}.filter((plot) => !plot.querySelector('svg[role=img]')).length") == 0
    assert not tab.run("document.querySelector('main').innerHTML.includes('NaN')")
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(21, 23, 27)") == dark


def test_pictures_of_classes_are_drawn(records: list[Record], tab: Page, tmp_path: Path) -> None:
    red = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 0, 0)).save(red, "PNG")
    uri = f"data:image/png;base64,{base64.b64encode(red.getvalue()).decode()}"
    settings, file = settings_of(records), tmp_path / "index.html"
    file.write_text(page(settings, [dict.fromkeys(records[0]["class_accuracy"], uri)]))
    tab.open(file, width=390)
    assert tab.run("document.documentElement.scrollWidth") == 390
    assert tab.run("document.images.length") >= 20
    assert tab.run("[...document.images].every((image) => image.naturalWidth == 8)")


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_are_only_names(width: int, tab: Page, hostile_file: Path) -> None:
    tab.open(hostile_file, width=width)
    assert tab.requests == [hostile_file.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run("document.images.length") == 0
    assert tab.run("document.scripts.length") == 2
    assert HOSTILE in tab.run("document.querySelector('tbody th').textContent")
    hover(tab, "curves")
    assert HOSTILE in tab.run("document.getElementById('tip').textContent")


def test_a_heading_sorts_its_column(tab: Page, file: Path) -> None:
    tab.open(file)
    table = "document.querySelector('article:not([hidden]) table')"
    heading = f"[...{table}.querySelectorAll('thead th')].find((th) => th.innerText == 'last')"
    column = tab.run(f"{heading}.dataset.column")
    numbers = f"[...{table}.tBodies[0].rows].map((row) => +row.cells[{column}].dataset.v)"
    for order in ("descending", "ascending"):
        tab.run(f"{heading}.querySelector('button').click()")
        assert tab.run(f"{heading}.getAttribute('aria-sort')") == order
        assert tab.run(f"{table}.querySelectorAll('[aria-sort]').length") == 1
        found = tab.run(numbers)
        assert found == sorted(found, reverse=order == "descending")
        assert len(set(found)) == 2


def hover(tab: Page, figure: str) -> int:
    """Move the pointer to a mark of the second method; its number."""
    place = f"document.querySelector('article:not([hidden]) [data-figure={figure}]')"
    tab.run(f"{place}.scrollIntoView({{block: 'center'}})")
    group = f"{place}.querySelectorAll('g[data-m]')[1]"
    box = f"{group}.querySelector('.mark').getBoundingClientRect()"
    x, y = tab.run(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
    tab.hover(x, y)
    return int(tab.run(f"{group}.dataset.m"))


@pytest.mark.parametrize("figure", ["curves", "zero_shot", "seconds"])
def test_the_pointer_names_a_method_and_lights_it_up(figure: str, tab: Page, file: Path) -> None:
    tab.open(file)
    m = hover(tab, figure)
    assert not tab.run("document.getElementById('tip').hidden")
    named = tab.run("document.querySelector('#tip b').textContent")
    assert named == tab.run(f"report.methods[{m}]")
    groups = "[...document.querySelectorAll('article:not([hidden]) svg g[data-m]')]"
    assert tab.run(f"{groups}.every((g) => g.classList.contains('lit') == (g.dataset.m == {m}))")
    assert tab.run(f"{groups}.every((g) => g.classList.contains('dim') == (g.dataset.m != {m}))")
    tab.hover(2, 2)
    assert tab.run("document.getElementById('tip').hidden")
    assert tab.run("document.querySelectorAll('.dim').length") == 0


def test_arrow_keys_read_the_values(tab: Page, file: Path) -> None:
    tab.open(file)
    tab.run("document.querySelector('article:not([hidden]) [data-figure=curves] svg').focus()")
    read = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        tab.press(key)
        read.append(tab.run("document.getElementById('tip').textContent"))
    first, second = tab.run("report.settings[0].methods.map((one) => report.methods[one.m])")
    assert read[0].startswith(f"{first} 10 classes: ")
    assert read[1].startswith(f"{first} 20 classes: ")
    assert read[2].startswith(f"{second} 20 classes: ")


def test_what_is_kept_is_told_in_short(tab: Page, file: Path) -> None:
    tab.open(file)
    counts = "[40, 280000, 1431234, 2000000000].map(short)"
    assert tab.run(counts) == ["40 ", "280 k", "1.43 M", "2 G"]
    bars = tab.run("document.querySelector('[data-figure=parameters]').textContent")
    assert "kept" in bars
    assert "only while learning" in bars, "the projections that merging leaves out"


def test_one_stream_is_shown_at_a_time(tab: Page, file: Path) -> None:
    tab.open(file)
    shown = "[...document.querySelectorAll('article')].map((one) => !one.hidden)"
    assert tab.run(shown) == [True, False]
    tab.run("document.querySelector('.group a[href=\"#s1\"]').click()")
    assert tab.run("new Promise((done) => setTimeout(done, 50))") is None
    assert tab.run(shown) == [False, True]
    assert tab.run("document.getElementById('choose').value") == "s1"
    assert tab.run("document.querySelectorAll('#s1 svg[role=img]').length") > 5
