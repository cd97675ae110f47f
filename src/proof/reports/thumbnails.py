"""One small picture of each class, for the lists of what is mixed up."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from proof.datasets import Dataset
from proof.errors import ProofError
from proof.pictures.decode import BrokenPicture
from proof.pictures.preprocessing import Preprocessing
from proof.pictures.reader import Picture, Reader, plain
from proof.reports.confusions import shown_classes

if TYPE_CHECKING:
    from proof.reports.groups import Setting

_SIDE = 80  # pixels; shown half as large
_TRIES = 20  # pictures of a class that may be broken
_SMALL = Preprocessing((_SIDE, _SIDE), "crop", mean=(0, 0, 0), std=(1, 1, 1))


def thumbnails(settings: Sequence[Setting], datasets: Sequence[Dataset]) -> list[dict[str, str]]:
    """For each setting, a data URI for each class that its lists name. Its pictures are those of
    the first data set that has all of its classes; without one there are none."""
    made: dict[tuple[int, str], str] = {}
    found: list[dict[str, str]] = []
    used = set()
    for setting in settings:
        classes = set(setting.first.get("class_accuracy") or ())
        index = next((i for i, d in enumerate(datasets) if classes <= set(d.class_names)), None)
        if index is None or not classes:
            found.append({})
            continue
        used.add(index)
        names = shown_classes(setting)
        missing = {name for name in names if (index, name) not in made}
        for name, uri in _of_classes(datasets[index], missing).items():
            made[index, name] = uri
        found.append({name: made[index, name] for name in names if (index, name) in made})
    for index, dataset in enumerate(datasets):
        if index not in used:
            wanted = set(settings[0].first.get("class_accuracy") or ())
            lacking = sorted(wanted.difference(dataset.class_names))
            example = f" (such as {lacking[0]!a})" if lacking else ""
            raise ProofError(
                f"--pictures {dataset.name}: it has not all classes of any of these runs{example}: "
                "expected the pictures that they were run on"
            )
    return found


def _of_classes(dataset: Dataset, names: Collection[str]) -> dict[str, str]:
    """The first picture of each class that can be read, of those to test on where there are any."""
    left, uris = dict.fromkeys(names, _TRIES), {}
    for part in (dataset.test, dataset.train):
        for index, label in enumerate(part.labels):
            if left.get(label):
                left[label] -= 1
                try:
                    uris[label] = _small(part.pictures[index])
                except BrokenPicture:
                    continue
                del left[label]
    return uris


def _small(picture: Picture) -> str:
    rows = np.empty((1, _SIDE, _SIDE, 3), np.uint8)
    reader = Reader(_SMALL, rows)
    reason = reader.read([plain(picture)]).broken.get(0) or reader.decode([(0, 0)])[0]
    if reason:
        raise BrokenPicture(reason)
    file = io.BytesIO()
    Image.fromarray(rows[0]).save(file, "JPEG", quality=75)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
