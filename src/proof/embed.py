"""From a data set of pictures to embeddings: what `proof embed` does. And from pictures with texts
to pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from proof.cache import Cache
from proof.embeddings import Embeddings, Split
from proof.encoders.base import Encoder
from proof.encoding import Broken, encode_pictures, encode_texts
from proof.errors import ProofError
from proof.pairs import Pairs

if TYPE_CHECKING:
    from proof.datasets import Dataset, Labelled
    from proof.datasets.tables import Captions

Progress = Callable[[str, int, int], None]  # what, pictures done, pictures in all


def embed(
    dataset: Dataset,
    encoder: Encoder,
    *,
    cache: Cache | None = None,
    progress: Progress | None = None,
    strict: bool = False,
) -> tuple[Embeddings, list[Broken]]:
    """Encode the pictures and class names of a data set. Broken pictures are left out, listed."""
    cache = cache or Cache()
    broken: list[Broken] = []

    def split(part: Labelled, what: str) -> Split:
        def report(done: int, total: int) -> None:
            if progress:
                progress(what, done, total)

        encoded = encode_pictures(
            part.pictures, encoder, cache=cache, progress=report, strict=strict
        )
        for picture in encoded.broken:
            if picture.picture.startswith("picture "):  # it has no path; say of which part it is
                title = f"{what.removesuffix('s')} {picture.index + 1}"
                picture = replace(picture, picture=title)
            broken.append(picture)
        code = {name: index for index, name in enumerate(dataset.class_names)}
        codes = np.array([code[part.labels[index]] for index in encoded.good], np.int64)
        return Split(
            torch.from_numpy(encoded.vectors), torch.from_numpy(codes), dataset.class_names
        )

    train, test = split(dataset.train, "training pictures"), split(dataset.test, "test pictures")
    embeddings = Embeddings(
        train,
        test,
        class_texts(dataset.class_names, dataset.templates, encoder, cache=cache),
        dataset.name,
        {
            **dataset.metadata,
            **_facts(encoder),
            "text": f"mean of {len(dataset.templates)} templates, such as {dataset.templates[0]!r}",
        },
    )
    return embeddings, broken


def embed_pairs(
    captions: Captions,
    encoder: Encoder,
    *,
    cache: Cache | None = None,
    progress: Progress | None = None,
    strict: bool = False,
) -> tuple[Pairs, list[Broken]]:
    """Encode pictures and their texts. A broken picture is left out with its text, and listed."""

    def report(done: int, total: int) -> None:
        if progress:
            progress("pictures of the pairs", done, total)

    encoded = encode_pictures(
        captions.pictures, encoder, cache=cache, progress=report, strict=strict
    )
    texts = [captions.texts[index] for index in encoded.good]
    if not texts:
        raise ProofError(f"pairs '{captions.name}': none of their pictures can be read")
    vectors = encode_texts(texts, encoder, cache=cache)
    images, words = torch.from_numpy(encoded.vectors), torch.from_numpy(vectors)
    return Pairs(images, words, captions.name, _facts(encoder)), encoded.broken


def _facts(encoder: Encoder) -> dict[str, str]:
    """What embeddings tell of their encoder."""
    return {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "logit_scale": f"{encoder.logit_scale:.4f}",
        "preprocess": str(encoder.preprocessing),
    }


def class_texts(
    class_names: Sequence[str],
    templates: Sequence[str],
    encoder: Encoder,
    *,
    cache: Cache | None = None,
) -> Tensor:
    """A unit vector for each class name (classes, dim): the mean direction of its prompts."""
    prompts = [template.format(name) for name in class_names for template in templates]
    vectors = torch.from_numpy(encode_texts(prompts, encoder, cache=cache)).float()
    directions = F.normalize(vectors, dim=1).view(len(class_names), len(templates), -1)
    return F.normalize(directions.mean(dim=1), dim=1).half()
