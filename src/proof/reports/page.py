"""The report as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import proof
from proof.reports import sections
from proof.reports.groups import Entry, Setting, labels_of
from proof.reports.html import Html, join, tag

_FILES = files("proof.reports")


def page(settings: Sequence[Setting], pictures: Sequence[Mapping[str, str]] = ()) -> str:
    """The page of a report; `pictures` are data URIs of classes, for each setting."""
    style = (_FILES / "page.css").read_text(encoding="utf-8")
    script = "".join(
        (_FILES / name).read_text(encoding="utf-8") for name in ("charts.js", "page.js")
    )
    labels = labels_of(settings)
    uris = list(dict.fromkeys(uri for of_classes in pictures for uri in of_classes.values()))
    place = {uri: index for index, uri in enumerate(uris)}
    places = [{name: place[uri] for name, uri in shown.items()} for shown in pictures]
    places = places or [{} for _ in settings]
    # Only what stands in the package may run or style: a name of the records never can.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": tag("i", policy)[3:-4],
        "title": join(_title(settings), " \N{EN DASH} proof report"),
        "style": style,
        "body": _body(settings, labels, places),
        "data": _json(
            {
                "methods": labels,
                "settings": [_data(setting, labels) for setting in settings],
                "pictures": uris,
            }
        ),
        "script": script,
    }
    template = (_FILES / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _title(settings: Sequence[Setting]) -> str:
    if len(settings) == 1:
        return settings[0].title
    data = list(dict.fromkeys(setting.first["data"] for setting in settings))
    on = " and ".join(data) if len(data) < 3 else f"{len(data)} data sets"
    return f"{len(labels_of(settings))} methods on {on}"


def _body(
    settings: Sequence[Setting], labels: list[str], places: Sequence[Mapping[str, int]]
) -> Html:
    runs = [record for setting in settings for entry in setting.entries for record in entry.records]
    versions = sorted({(run.get("versions") or {}).get("proof") or "?" for run in runs})
    several = len(settings) > 1
    return join(
        tag(
            "header",
            tag("p", "proof report", class_="overline"),
            tag("h1", _title(settings)),
            tag("p", sections.finding(settings), class_="lead"),
            tag(
                "p",
                f"{len(runs)} runs, {len(labels)} methods, up to "
                f"{max(setting.seeds for setting in settings)} seeds each. "
                f"Made with proof {', '.join(versions)}.",
                class_="facts",
            ),
        ),
        tag(
            "main",
            sections.overview(settings, labels) if several else None,
            _chooser(settings) if several else None,
            [
                sections.article(setting, index, labels, places[index])
                for index, setting in enumerate(settings)
            ],
            sections.runs(settings),
            id="results",
        ),
        tag(
            "footer",
            f"Written by proof {proof.__version__}. The page needs no network and no other file.",
        ),
    )


def _chooser(settings: Sequence[Setting]) -> Html:
    options = [tag("option", setting.title, value=f"s{i}") for i, setting in enumerate(settings)]
    return tag(
        "nav",
        tag("label", "Stream", for_="choose"),
        tag("select", options, id="choose"),
        class_="choice",
        aria_label="Choose a stream",
    )


def _data(setting: Setting, labels: list[str]) -> dict[str, Any]:
    """What the figures of a setting are drawn from."""
    return {
        "seen": setting.classes_seen,
        "zero_shot": setting.zero_shot,
        "kept_from": setting.kept_from,
        "methods": [_method(entry, labels) for entry in setting.entries],
    }


def _method(entry: Entry, labels: list[str]) -> dict[str, Any]:
    several = len(entry.records) > 1
    seconds = entry.value("seconds")
    return {
        "m": labels.index(entry.label),
        "curve": entry.curve("curve"),
        "deviation": entry.deviations("curve") if several else None,
        "forgetting": entry.forgetting(),
        "matrix": entry.matrix(),
        "zero_shot": {
            key: entry.curve("zero_shot", key) for key in entry.records[0].get("zero_shot", {})
        },
        "average": entry.average,
        "seconds": seconds[0] if seconds else None,
        "total": entry.number("total_parameters"),
        "inference": entry.number("inference_parameters"),
        "bytes": entry.bytes_per_class,
    }


def _json(value: Any) -> str:
    """JSON that can stand inside of a script element, whatever its strings are."""
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
