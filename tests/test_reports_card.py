"""The card of a model, from its file."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from conftest import make_data
from proof.models import read_header
from proof.models.classifier import Classifier
from proof.reports.card import Card, facts, fits, read_card, said
from proof.reports.card_page import page

EVIL = "cup\x1b[31m \u202egnp <b>& $x {} `a`"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that had three lessons."""
    data = make_data()
    classifier = Classifier(None, method="simplecil")
    names = (EVIL, *data.class_names[1:])
    path = tmp_path_factory.mktemp("card") / "kitchen.proof"
    for start in range(0, 12, 4):
        mine = range(start, start + 4)
        classifier.learn({names[k]: data.train.images[data.train.codes == k] for k in mine})
        classifier.calibrate()
        classifier.save(path)
    return path


@pytest.fixture(scope="module")
def card(path: Path) -> Card:
    return read_card(path)


def spoiled(value: Any) -> Iterator[Any]:
    """All that is inside, each thing in turn put in disorder."""
    yield from (None, [], {}, "x", -1, 1e300, True, [3], {"x": {}})
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            for other in spoiled(value[name]):
                changed = value.copy()
                changed[name] = other
                yield changed
            if isinstance(value, dict):
                yield {key: inner for key, inner in value.items() if key != name}


def test_a_file_that_says_anything_is_refused_or_shown(path: Path, card: Card) -> None:
    tried = shown = 0
    right = read_header(path).manifest
    for wrong in spoiled({**right, "classes": right["classes"][:2], "log": right["log"][:2]}):
        tried += 1
        if fits(wrong):
            shown += 1
            page({**card, **wrong})
    assert shown
    assert tried - shown > 200


class Page(HTMLParser):
    """Finds what a page loads, and whether its elements close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.loaded += [tag for name, _ in attributes if name in ("src", "href")]
        if tag in ("script", "link", "iframe"):
            self.loaded.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_else(card: Card) -> None:
    text = page(card)
    found = Page(text)
    assert found.open == []
    assert found.loaded == []
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    assert text.count('class="dot"') == 3, "one for each lesson"
    assert "class 1120" in found.text, "its name and its pictures"
    assert "cup\\x1b[31m \\u202egnp <b>& $x {} `a`" in found.text
    assert "\x1b" not in text


def test_facts_are_those_of_the_file(card: Card) -> None:
    told = facts(card)
    assert told["encoder"] == "none: it learns from embeddings"
    assert told["classes"] == "12, taught with 240 pictures in 3 lessons"
    assert told["accuracy"].startswith("100.0 % on 240 pictures as if it had not learned them")
    assert told["kept"].startswith("240 pictures as embeddings, 7.7 kB, of at most 50/class; ")


@pytest.mark.parametrize(
    ("what", "classes", "pictures", "text"),
    [
        ("learn", ["cup"], 1, "learned cup from 1 picture; then 91.0 % right"),
        ("learn", ["cup"], 0, "learned cup; then 91.0 % right"),
        ("merge", list("abcdefg"), 2000, "took in a, b, c, d, e and 2 more from 2,000 pictures; "),
        ("forget", ["cup"], 3, "forgot cup; then 91.0 % right"),
        ("rename", ["cup", "mug"], 0, "renamed cup to mug"),
        ("drop exemplars", [], 240, "removed 240 pictures that were kept"),
        ("dream", ["cup"], 0, "dream cup"),
    ],
)
def test_a_step_is_said_in_words(what: str, classes: list[str], pictures: int, text: str) -> None:
    step = {"what": what, "classes": classes, "pictures": pictures, "accuracy": 91.0}
    assert said(step).startswith(text)
    assert text.endswith("; ") or said(step) == text
