"""A small encoder without a model, and rows for a store; imports little, so that processes that the
tests kill are up at once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from proof.cache import Store
from proof.encoders.base import Encoder, Facts, Vectors
from proof.pictures.decode import Pixels
from proof.pictures.preprocessing import Preprocessing
from proof.pictures.reader import KEY

FACTS = Facts("f" * 64, 12, 100.0, Preprocessing((16, 16), "crop", (0, 0, 0), (1, 1, 1)))


class Means(Encoder):
    """A real encoder, if a simple one: the mean colours of the four quarters."""

    batch_size, streams = 8, 2

    def __init__(self, facts: Facts = FACTS, log: Path | None = None, seconds: float = 0.0) -> None:
        super().__init__("means", facts)
        self.pictures = self.texts = 0
        self.log, self.seconds = log, seconds

    def encode_images(self, pixels: Pixels) -> Vectors:
        time.sleep(self.seconds)
        self.pictures += len(pixels)
        if self.log:
            with self.log.open("a") as file:
                file.write(f"{len(pixels)}\n")
        quarters = pixels.reshape(len(pixels), 2, 8, 2, 8, 3).mean((2, 4))
        return quarters.reshape(len(pixels), 12).astype(np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return np.array([[len(text)] * 12 for text in texts], np.float32)


WIDTH = 8


def with_tests_on_path() -> dict[str, str]:
    """The environment for a process that imports from here."""
    path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def keys_of(numbers: list[int]) -> np.ndarray:
    digests = [hashlib.sha256(str(number).encode()).digest() for number in numbers]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, KEY)


def values_of(numbers: list[int]) -> np.ndarray:
    return np.repeat((np.array(numbers)[:, None] % 1000).astype(np.float16), WIDTH, axis=1)


def put(store: Store, numbers: list[int]) -> None:
    store.append(keys_of(numbers), values_of(numbers))
