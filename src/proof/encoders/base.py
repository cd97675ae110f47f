"""What an encoder is: a frozen model that turns pictures and texts into vectors of one space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proof.pictures.decode import Pixels
from proof.pictures.preprocessing import Preprocessing

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Facts:
    """What is known of an encoder without running it."""

    fingerprint: str  # of its weights and architecture, hexadecimal
    dim: int
    logit_scale: float  # what cosines are multiplied by, before the softmax
    preprocessing: Preprocessing  # the model's own


class Encoder(ABC):
    """A frozen dual encoder. Another kind is a subclass, registered with `register_encoder`."""

    def __init__(self, name: str, facts: Facts, preprocess: str = "squash") -> None:
        self.name = name  # what `load_encoder` takes
        self.dim = facts.dim
        self.logit_scale = facts.logit_scale
        self.fingerprint = facts.fingerprint
        self.preprocessing = facts.preprocessing.choose(preprocess)

    batch_size: int = 16  # pictures at a time
    streams: int = 1  # batches under way at once

    def prepare(self) -> None:  # noqa: B027
        """Choose the device; sets `batch_size` and `streams`. Weights may wait for a picture."""

    @abstractmethod
    def encode_images(self, pixels: Pixels) -> Vectors:
        """Vectors (n, dim), not normalised, of pixels (n, height, width, 3) as `preprocessing`
        makes them. A picture's vector does not depend on the others."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Vectors (n, dim), not normalised."""
