"""How good a classifier is on pictures with labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from proof.metrics import accuracy, class_accuracy, hits
from proof.probabilities import Scale, calibration_error, separation

_SHOWN = 10


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a classifier on labelled pictures, shares in percent. Pictures of classes that
    it does not know are counted in `unknown` and `auroc` alone."""

    accuracy: float
    per_class: dict[str, float]
    counts: dict[str, int]  # pictures of each class
    confusions: list[tuple[str, str, int]]  # class, what it was taken for, how often; most first
    ece_before: float  # calibration error at the method's own temperature
    ece_after: float
    unknown: dict[str, int]  # pictures of each class that the model does not know
    auroc: float | None  # how well unknown classes are told from known ones; None without any
    learned: int  # pictures that are among those that it learned, which flatter it
    broken: list[tuple[str, str]]

    @property
    def pictures(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        lines = [
            f"accuracy {self.accuracy:.2f} % on {self.pictures:,} pictures of "
            f"{len(self.counts):,} classes",
            f"calibration error {self.ece_after:.2f} % ({self.ece_before:.2f} % uncalibrated)",
        ]
        if self.unknown:
            lines.append(
                f"{sum(self.unknown.values()):,} pictures of {len(self.unknown):,} classes that it "
                f"does not know, told from the others with an AUROC of {self.auroc:.2f} %"
            )
        if self.learned:
            lines.append(f"{self.learned:,} of the pictures were learned: they flatter it")
        if self.broken:
            lines.append(f"{len(self.broken):,} broken pictures left out")
        poor = [(share, name) for name, share in self.per_class.items() if share < 100]
        if poor:
            lines.append("worst classes:")
        for share, name in sorted(poor)[:_SHOWN]:
            lines.append(f"  {share:5.1f} % of {self.counts[name]:,}  {name}")
        if self.confusions:
            lines.append("most frequent errors:")
        for true, taken, count in self.confusions[:_SHOWN]:
            lines.append(f"  {count:,} of {true} taken for {taken}")
        return "\n".join(lines)


def judge(
    scores: Tensor,
    labels: list[str],
    classes: list[str],
    scales: tuple[Scale, Scale],
    learned: int,
    broken: list[tuple[str, str]],
) -> Evaluation:
    """Metrics of scores (n, classes) of pictures with these labels; `scales` are the method's own
    and the calibrated one."""
    place = {name: code for code, name in enumerate(classes)}
    every = torch.tensor([place.get(label, -1) for label in labels], dtype=torch.long)
    known, scores = every >= 0, scores.cpu()
    unknown = Counter(label for label in labels if label not in place)
    familiar = scales[0].familiarity(scores)
    auroc = separation(familiar[known], familiar[~known]) if unknown else None
    scores, codes = scores[known], every[known]
    hit, found = hits(scores, codes), scores.argmax(1)
    shares = class_accuracy(hit, codes, len(classes))
    wrong = Counter(zip(codes[~hit].tolist(), found[~hit].tolist(), strict=True))
    counts = codes.bincount(minlength=len(classes)).tolist()
    before, after = (calibration_error(scale.probabilities(scores), codes) for scale in scales)
    return Evaluation(
        accuracy(hit),
        {name: share for name, share in zip(classes, shares, strict=True) if share is not None},
        {name: count for name, count in zip(classes, counts, strict=True) if count},
        [(classes[true], classes[taken], count) for (true, taken), count in wrong.most_common()],
        before,
        after,
        dict(unknown),
        auroc,
        learned,
        broken,
    )
