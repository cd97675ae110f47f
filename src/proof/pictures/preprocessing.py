"""How a picture is brought to the size that an encoder takes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from PIL import Image

from proof.errors import ProofError

CHOICES = ("squash", "model")
OPEN_CLIP_MODES = {"shortest": "crop", "longest": "pad", "squash": "squash"}  # its words, ours
_DECODING = 1  # another number where pictures are decoded otherwise: a part of the cache's key
_FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
_MODES = {
    "squash": "the whole picture, its sides scaled apart",
    "crop": "the short side scaled, the middle cut out",
    "pad": "the long side scaled, the rest filled",
}


@dataclass(frozen=True)
class Preprocessing:
    """Size, way of resizing and scale of the numbers. A part of the cache's key.

    >>> clip = Preprocessing((224, 224), "crop", mean=(0.48, 0.46, 0.41), std=(0.27, 0.26, 0.28))
    >>> str(clip), str(clip.choose("squash"))
    ('crop 224x224 bicubic', 'squash 224x224 bicubic')
    """

    size: tuple[int, int]  # height, width
    mode: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str = "bicubic"
    fill: int = 0  # the grey that `pad` fills with

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ProofError(f"preprocessing '{self.mode}': expected one of {', '.join(_MODES)}")
        if self.interpolation not in _FILTERS:
            raise ProofError(
                f"interpolation '{self.interpolation}': expected one of {', '.join(_FILTERS)}"
            )
        if len(self.size) != 2 or not all(0 < side <= 4096 for side in self.size):
            raise ProofError(f"picture size {self.size}: expected a height and a width to 4096")

    def __str__(self) -> str:
        height, width = self.size
        return f"{self.mode} {height}x{width} {self.interpolation}"

    @property
    def fingerprint(self) -> str:
        values = [_DECODING, dataclasses.asdict(self)]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]

    def choose(self, choice: str) -> Preprocessing:
        """This one (`model`), or the paper's (`squash`): exactly the size, whatever the shape."""
        if choice not in CHOICES:
            raise ProofError(f"--preprocess {choice}: expected {' or '.join(CHOICES)}")
        if choice == "model":
            return self
        return dataclasses.replace(self, mode="squash", interpolation="bicubic", fill=0)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Preprocessing:
        """The inverse of `dataclasses.asdict`, by way of JSON."""
        tuples = {name: tuple(values[name]) for name in ("size", "mean", "std")}
        return cls(**{**values, **tuples})

    def apply(self, image: Image.Image, extent: tuple[float, float] | None = None) -> Image.Image:
        """Resize an RGB picture. `extent` is the part that it fills, from the upper left corner:
        a JPEG that was decoded at 1/8 may end within its last pixel."""
        height, width = self.size
        how = _FILTERS[self.interpolation]
        extent = extent or image.size
        if self.mode == "squash":
            return image.resize((width, height), how, box=(0, 0, *extent))
        if self.mode == "crop":
            return image.resize((width, height), how, box=self._crop_box(*extent))
        scale = min(width / extent[0], height / extent[1])
        inner = (max(1, round(extent[0] * scale)), max(1, round(extent[1] * scale)))
        padded = Image.new("RGB", (width, height), (self.fill,) * 3)
        corner = (round((width - inner[0]) / 2), round((height - inner[1]) / 2))
        padded.paste(image.resize(inner, how, box=(0, 0, *extent)), corner)
        return padded

    def _crop_box(self, width: float, height: float) -> tuple[float, float, float, float]:
        """The part of a picture that is left after scaling it to cover the size, cut in the middle.

        Resizing this part alone gives the pixels of resizing all and cutting, to within rounding,
        and a picture of 200,000 by 10 pixels then needs no more memory than another.
        """
        target_height, target_width = self.size
        if target_height == target_width:  # torchvision's Resize(side): the long side rounds down
            short = min(width, height)
            scaled = (int(target_width * width / short), int(target_height * height / short))
        else:
            scale = max(target_width / width, target_height / height)
            scaled = (round(width * scale), round(height * scale))
        left = round((scaled[0] - target_width) / 2) * width / scaled[0]
        top = round((scaled[1] - target_height) / 2) * height / scaled[1]
        right = left + target_width * width / scaled[0]
        bottom = top + target_height * height / scaled[1]
        return left, top, min(right, width), min(bottom, height)

    def first_size(self, width: int, height: int) -> tuple[int, int]:
        """The smallest size, width and height, that a JPEG may be decoded at.

        Twice what resizing needs: smaller would show in the embedding (`docs/encoding.md`).
        """
        if self.mode == "squash":
            return 2 * self.size[1], 2 * self.size[0]
        sides = (self.size[1] / width, self.size[0] / height)
        scale = 2 * (max(sides) if self.mode == "crop" else min(sides))
        return max(1, int(width * scale)), max(1, int(height * scale))
