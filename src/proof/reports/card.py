"""The card of a model: what its file says of itself, in words. Needs neither torch nor encoder."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from proof.errors import ProofError
from proof.models import read_header, steps
from proof.models.results import Step
from proof.reports.formats import size_text
from proof.words import many

Card = dict[str, Any]
_LARGEST = 10**12  # of anything that is counted


def read_card(path: str | os.PathLike[str]) -> Card:
    """All facts in a file, without its tensors."""
    path = Path(path)
    header = read_header(path)
    if not fits(header.manifest):
        raise ProofError(f"cannot read '{path}': it is whole, but not the file of a classifier")
    kept = next((entry for entry in header.entries if entry.name == "kept.vectors"), None)
    return {
        **header.manifest,
        "kept": {
            "pictures": kept.shape[0] if kept else 0,
            "bytes": kept.end - kept.start if kept else 0,
        },
        "file": path.name,
        "bytes": path.stat().st_size,
        "revision": header.revision,
        "earlier_versions": len(steps(path)),
    }


def labels_of(path: str | os.PathLike[str]) -> list[str]:
    """The classes of a model."""
    return [entry["name"] for entry in read_card(path)["classes"]]


def facts(card: Card) -> dict[str, str]:
    """What there is to know of a model, but for its classes and its log."""
    source, method, kept = card["source"], card["method"], card["kept"]
    pictures = sum(entry["pictures"] for entry in card["classes"])
    encoder = {"encoder": "none: it learns from embeddings"}
    if source["encoder"]:
        weights = f" (weights {source['fingerprint'][:8]})" if source["fingerprint"] else ""
        encoder = {
            "encoder": f"{source['encoder']}{weights}",
            "pixels": source["preprocessing"] or source["preprocess"],
            "prompt": source["template"],
        }
    remove = f"`proof forget {card['file']} --exemplars` removes them"
    return {
        **encoder,
        "method": f"{method['name']}, seed {method['seed']}",
        "classes": f"{len(card['classes']):,}, taught with {many(pictures, 'picture')} in "
        f"{many(card['lessons'], 'lesson')}",
        "accuracy": accuracy_text(card),
        "kept": f"{many(kept['pictures'], 'picture')} as embeddings, {size_text(kept['bytes'])}, "
        f"of at most {card['exemplars']}; {remove}"
        if kept["pictures"]
        else "no pictures",
        "size": size_text(card["bytes"]),
        "earlier": f"{many(card['earlier_versions'], 'version')}; `proof undo {card['file']}` "
        "goes back by one"
        if card["earlier_versions"]
        else "no versions",
        "made with": ", ".join(f"{name} {text}" for name, text in card["versions"].items()),
    }


def accuracy_text(card: Card) -> str:
    """How good it is, where that is known: on pictures held out, or on each with it left out."""
    found = card["calibration"]
    if not found.get("made", True):
        return "not measured yet"
    if None in (found["accuracy"], found["ece_after"]):
        return "not known: no pictures are held out"
    return (
        f"{found['accuracy']:.1f} % on {many(found['pictures'], 'picture')} as if it had not "
        f"learned them; "
        f"calibration error {found['ece_after']:.1f} %"
    )


def class_row(entry: Card) -> dict[str, str | float]:
    """A class with its numbers."""
    return {
        "pictures": entry["pictures"],
        "first taught": local(entry["first"]),
        "last taught": local(entry["last"]),
        "class": entry["name"],
    }


def said(step: Card) -> str:
    """What a step of the log did."""
    classes = tuple(step["classes"])
    return Step("", step["what"], classes, step["pictures"], step["accuracy"]).said


def local(when: str) -> str:
    """A time of the log, where the reader is."""
    return f"{datetime.fromisoformat(when).astimezone():%Y-%m-%d %H:%M}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_share(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 100)


def _is_time(value: Any) -> bool:
    try:
        return bool(local(value))
    except (TypeError, ValueError, OverflowError):
        return False


# What a card speaks of, and how each of it is known to be what it should.
_SHAPE: dict[str, Any] = {
    "source": {
        "encoder": _is_text_or_none,
        "fingerprint": _is_text_or_none,
        "preprocess": _is_text,
        "preprocessing": _is_text_or_none,
        "template": _is_text,
    },
    "method": {"name": _is_text, "seed": _is_count, "options": {}},
    "exemplars": _is_text,
    "lessons": _is_count,
    "classes": [{"name": _is_text, "pictures": _is_count, "first": _is_time, "last": _is_time}],
    "log": [
        {
            "when": _is_time,
            "what": _is_text,
            "classes": [_is_text],
            "pictures": _is_count,
            "accuracy": _is_share,
        }
    ],
    "calibration": {"pictures": _is_count, "accuracy": _is_share, "ece_after": _is_share},
    "versions": {},
}


def fits(value: Any, shape: Any = None) -> bool:
    """Whether a manifest has all that a card speaks of: a file may be anyone's.

    >>> fits({"classes": 3})
    False
    """
    shape = _SHAPE if shape is None else shape
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            name in value and fits(value[name], inner) for name, inner in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    return bool(shape(value))
