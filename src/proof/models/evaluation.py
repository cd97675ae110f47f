"""How good a classifier is on pictures with labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from proof.metrics import accuracy, class_accuracy
from proof.models.calibration import (
    DEFAULT_TEMPERATURE,
    expected_calibration_error,
    probabilities,
)

_SHOWN = 10


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a classifier on labelled pictures, shares in percent."""

    accuracy: float
    per_class: dict[str, float]
    counts: dict[str, int]  # pictures of each class
    confusions: list[tuple[str, str, int]]  # class, what it was taken for, how often; most first
    ece_before: float  # of the default temperature
    ece_after: float
    unknown: dict[str, int]  # classes that the model does not know, left out above
    learned: int  # pictures that are among those that it learned: they flatter it
    broken: list[tuple[str, str]]

    @property
    def pictures(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        lines = [
            f"accuracy {self.accuracy:.2f} % on {self.pictures:,} pictures of "
            f"{len(self.counts)} classes",
            f"calibration error {self.ece_after:.2f} % (uncalibrated {self.ece_before:.2f} %)",
        ]
        worst = sorted(self.per_class.items(), key=lambda pair: pair[1])[:_SHOWN]
        lines += [f"  {name}: {share:.1f} % of {self.counts[name]:,}" for name, share in worst]
        for true, taken, count in self.confusions[:_SHOWN]:
            lines.append(f"  {true} taken for {taken}: {count:,}")
        if self.learned:
            lines.append(f"{self.learned:,} of the pictures were learned: they flatter it")
        if self.unknown:
            total = sum(self.unknown.values())
            lines.append(f"{total:,} pictures of {len(self.unknown)} unknown classes left out")
        if self.broken:
            lines.append(f"{len(self.broken):,} broken pictures left out")
        return "\n".join(lines)


def judge(
    scores: Tensor,
    labels: list[str],
    classes: list[str],
    temperature: float,
    *,
    learned: int = 0,
    broken: list[tuple[str, str]] | None = None,
) -> Evaluation:
    """Metrics of scores (n, classes) for pictures with these labels."""
    place = {name: code for code, name in enumerate(classes)}
    codes = torch.tensor([place.get(label, -1) for label in labels], dtype=torch.long)
    known = codes >= 0
    scores, codes = scores.cpu()[known], codes[known]
    found = scores.argmax(1)
    hit = found == codes
    shares = class_accuracy(hit, codes, len(classes))
    wrong = Counter(
        (classes[true], classes[taken])
        for true, taken in zip(codes[~hit].tolist(), found[~hit].tolist(), strict=True)
    )
    before, after = (
        100 * expected_calibration_error(probabilities(scores, t), codes)
        for t in (DEFAULT_TEMPERATURE, temperature)
    )
    counts = Counter(classes[code] for code in codes.tolist())
    return Evaluation(
        accuracy=accuracy(hit),
        per_class={n: s for n, s in zip(classes, shares, strict=True) if s is not None},
        counts={name: counts[name] for name in classes if counts[name]},
        confusions=[(true, taken, count) for (true, taken), count in wrong.most_common()],
        ece_before=before,
        ece_after=after,
        unknown=dict(Counter(label for label in labels if label not in place)),
        learned=learned,
        broken=broken or [],
    )
