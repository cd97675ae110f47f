"""The text embeddings of new classes: given, or of their names, or in place of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from proof.errors import InputError, ProofError
from proof.models.lazy_encoder import LazyEncoder
from proof.models.material import Material
from proof.models.pictures import vectors_of


def new_texts(
    material: Material, given: Mapping[str, Any], known: Collection[str], encoder: LazyEncoder
) -> dict[str, Tensor]:
    """A text embedding (d,) for each class of a lesson that is not `known`.

    Those that are given come first, then those that came with the pictures, then the encoder's.
    Without an encoder, the mean picture of a class stands for its name.
    """
    new = [label for label in material.classes if label not in known]
    for label in given:
        if label not in new:
            raise ProofError(f"a text for '{label}', which is no new class of this lesson")
    texts = material.texts | {label: vectors_of([given[label]])[0] for label in given}
    missing = [label for label in new if label not in texts]
    if missing:
        texts |= encoder.texts(missing) if encoder.opener else _means(material, missing)
    dims = {len(texts[label]): label for label in new}
    if len(material.vectors):
        dims.setdefault(material.vectors.shape[1], "pictures")
    if len(dims) > 1:
        (one, a), (other, b) = list(dims.items())[:2]
        raise InputError(
            f"embeddings of different lengths, {one} for '{a}' and {other} for '{b}': expected one "
            f"length for texts and pictures"
        )
    return {label: texts[label] for label in new}


def _means(material: Material, labels: list[str]) -> dict[str, Tensor]:
    rows: dict[str, list[int]] = {label: [] for label in labels}
    for row, label in enumerate(material.labels):
        if label in rows:
            rows[label].append(row)
    for label, mine in rows.items():
        if not mine:
            raise ProofError(
                f"'{label}' has no pictures, and without an encoder its name means nothing: give "
                f"pictures, or learn(..., texts={{'{label}': embedding}})"
            )
    means = [material.vectors[mine].float().mean(0, keepdim=True) for mine in rows.values()]
    return {label: vectors_of(mean)[0] for label, mean in zip(rows, means, strict=True)}
