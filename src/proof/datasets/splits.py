"""Cutting test pictures off by a seeded fraction, so that a picture stays where it is.

Whether a picture is for testing depends on its name, its class and the seed, and on nothing else:
not on which other pictures there are, nor on their order. Pictures that are added later do not
move old ones.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

DEFAULT_TEST_FRACTION = 0.2
DEFAULT_SPLIT_SEED = 1993


def share(label: str, name: str, seed: int) -> float:
    """A number from 0 to 1 that stands for a picture, spread evenly.

    >>> share("cup", "1.jpg", 1993) == share("cup", "1.jpg", 1993) != share("cup", "1.jpg", 7)
    True
    """
    text = unicodedata.normalize("NFC", f"{seed}\0{label}\0{name}")  # macOS writes é in two parts
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def cut(label: str, names: Sequence[str], fraction: float, seed: int) -> list[bool]:
    """Which of the pictures of a class are for testing.

    About `fraction` of them; at least one is kept for training. Where chance would test on all,
    the one with the largest share is kept: with a fifth for testing, this meets one class in five
    of those with a single picture, one in three thousand of those with five.

    >>> names = [f"{number}.jpg" for number in range(1000)]
    >>> sum(cut("cup", names, 0.2, 1993))
    192
    >>> cut("cup", names[:7], 0.2, 1993) == cut("cup", names, 0.2, 1993)[:7]
    True
    """
    shares = [share(label, name, seed) for name in names]
    testing = [value < fraction for value in shares]
    if names and all(testing):
        testing[shares.index(max(shares))] = False
    return testing
