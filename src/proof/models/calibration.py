"""What is known of a model's probabilities from pictures that it did not learn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from proof.metrics import accuracy, hits
from proof.probabilities import Scale, calibration_error, fit_temperature


@dataclass(frozen=True)
class Calibration:
    """A temperature, and how good the model is. Where there were no pictures, `pictures` is 0 and
    the temperature is the method's own."""

    temperature: float
    pictures: int = 0
    accuracy: float | None = None  # in percent
    ece_before: float | None = None  # calibration error in percent, at the method's temperature
    ece_after: float | None = None
    known: tuple[float, ...] = ()  # the familiarity of each picture, sorted

    @classmethod
    def fit(cls, scores: Tensor, codes: Tensor, scale: Scale) -> Calibration:
        """From scores (n, classes) of pictures that were not learned, and their classes (n,)."""
        if not len(codes):
            return cls(scale.temperature)
        scores = scores.cpu()
        temperature = fit_temperature(scale.logits(scores), codes, scale.temperature)
        fitted = replace(scale, temperature=temperature)
        return cls(
            temperature,
            len(codes),
            accuracy(hits(scores, codes)),
            calibration_error(scale.probabilities(scores), codes),
            calibration_error(fitted.probabilities(scores), codes),
            tuple(scale.familiarity(scores).sort().values.tolist()),
        )

    def threshold(self, share: float) -> float:
        """The familiarity that pictures of known classes reach with a probability of `share` or
        more: one of the values that were seen (split conformal prediction)."""
        rank = math.floor((1 - share) * (len(self.known) + 1))
        return self.known[rank - 1] if rank else -math.inf
