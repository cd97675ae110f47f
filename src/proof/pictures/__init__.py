"""Pictures: from the bytes of a file to the pixels that an encoder takes."""

from __future__ import annotations

from proof.pictures.decode import BrokenPicture, decode
from proof.pictures.preprocessing import Preprocessing

__all__ = ["BrokenPicture", "Preprocessing", "decode"]
