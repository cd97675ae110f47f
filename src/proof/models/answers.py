"""From probabilities and votes to what a user reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from proof.models.results import Explanation, Prediction

_BEST = 5  # classes that are named


def predictions(shares: Tensor, classes: Sequence[str]) -> list[Prediction]:
    """The best classes of pictures, from their probabilities (n, classes)."""
    best = shares.topk(min(_BEST, shares.shape[1]), dim=1)
    found = []
    for values, codes in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        named = [(classes[code], value) for code, value in zip(codes, values, strict=True)]
        found.append(Prediction(*named[0], tuple(named[1:])))
    return found


def explanation(
    prediction: Prediction, votes: Mapping[str, Tensor], classes: Sequence[str]
) -> Explanation:
    """What the parts of a method say of the best classes; votes are (1, classes)."""
    best = (prediction.label, *(label for label, _ in prediction.runners_up))
    codes = [classes.index(label) for label in best]
    return Explanation(
        prediction,
        best,
        {part: tuple(vote[0, codes].tolist()) for part, vote in votes.items()},
        {
            part: classes[int(vote[0].argmax())] if vote.min() < vote.max() else "-"
            for part, vote in votes.items()
        },
    )
