"""One picture: bytes to RGB pixels, or the reason why not."""

from __future__ import annotations

import importlib.util
import io
import struct
import threading
import zlib
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from proof.pictures.preprocessing import Preprocessing

MAX_PIXELS = 178_956_970  # Pillow's own limit: 537 MB as RGB, and as much again on the way
LARGE_PIXELS = 25_000_000  # above this, one picture at a time is decoded, however many cores
# What Pillow reads by itself. Not in it: formats that start other programs (EPS, WMF).
_FORMATS = (
    "JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "HEIF", "JPEG2000",
    "PPM", "TGA", "PCX", "QOI",
)  # fmt: skip
_COMMON = ("JPEG", "PNG", "GIF", "BMP", "PPM")
_ORIENTATION, _TILE_WIDTH, _TILE_LENGTH = 0x0112, 322, 323
_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_one_large_picture = threading.Lock()
# What Pillow's readers raise on damaged files, by their source and by fuzzing them.
_DAMAGE = (
    OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, AttributeError, EOFError,
    OverflowError, ArithmeticError, RuntimeError, MemoryError, struct.error, zlib.error,
    Image.DecompressionBombError,
)  # fmt: skip

Pixels = NDArray[np.uint8]


class BrokenPicture(Exception):  # noqa: N818
    """A picture that cannot be decoded rightly; the message says why, for a person."""


def decode(
    data: bytes,
    preprocessing: Preprocessing,
    one_large_picture: AbstractContextManager[object] = _one_large_picture,
) -> Pixels:
    """The pixels (height, width, 3) that an encoder takes.

    Turned as EXIF says; transparency lies on white; 16-bit grey is scaled; the first frame of an
    animation. A large picture waits for `one_large_picture`, so that many at once cannot fill the
    memory.

    >>> red = io.BytesIO()
    >>> Image.new("RGB", (40, 30), (255, 0, 0)).save(red, "PNG")
    >>> squash = Preprocessing((4, 4), "squash", mean=(0, 0, 0), std=(1, 1, 1))
    >>> decode(red.getvalue(), squash)[0, 0].tolist()
    [255, 0, 0]
    """
    if not data:
        raise BrokenPicture("the file is empty (0 bytes)")
    try:
        image = _open(data)
        pixels = image.width * image.height
        if pixels > MAX_PIXELS:
            raise BrokenPicture(_too_large(image.width, image.height))
        extent: tuple[float, float] = image.size
        if image.format in ("JPEG", "MPO"):
            extent = _decode_small(image, preprocessing)
            if not image.info.get("progressive"):  # those are held whole while they are decoded
                pixels = image.width * image.height
        if image.format == "TIFF":  # a tile may be larger than the picture
            tags = getattr(image, "tag_v2", {})
            pixels = max(pixels, tags.get(_TILE_WIDTH, 0) * tags.get(_TILE_LENGTH, 0))
            if pixels > MAX_PIXELS:
                raise BrokenPicture(f"a tile of over {MAX_PIXELS:,} pixels")
        with one_large_picture if pixels > LARGE_PIXELS else nullcontext():
            image.load()
            turn = _turn(image)
            image = to_rgb(image)
            if turn is not None:
                image = image.transpose(turn)
                extent = image.size
            return np.asarray(preprocessing.apply(image, extent))
    except BrokenPicture:
        raise
    except UnidentifiedImageError:
        raise BrokenPicture(_unidentified(data)) from None
    except _DAMAGE as error:
        raise BrokenPicture(_damaged(error)) from None


def from_pil(image: Image.Image) -> Pixels:
    """RGB pixels (height, width, 3) of a picture that PIL has opened, turned as EXIF says."""
    try:
        image.load()
        turn = _turn(image)
        rgb = to_rgb(image)
        return np.asarray(rgb if turn is None else rgb.transpose(turn))
    except _DAMAGE as error:
        raise BrokenPicture(_damaged(error)) from None


def resize_pixels(pixels: Pixels, preprocessing: Preprocessing) -> Pixels:
    """Pixels that are decoded already, (height, width, 3), at the size an encoder takes."""
    return np.asarray(preprocessing.apply(Image.fromarray(pixels)))


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB as a person would see the picture: transparency on white, 16 bits scaled to 8."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16") or image.mode == "I":
        values = np.asarray(image)
        if values.size and (values.min() < 0 or values.max() > 65535):
            raise BrokenPicture("32-bit numbers: expected 8 or 16 bits a channel")
        return Image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise BrokenPicture("floating-point numbers: expected 8 or 16 bits a channel")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _decode_small(image: Image.Image, preprocessing: Preprocessing) -> tuple[float, float]:
    """Have a large JPEG decoded at 1/2, 1/4 or 1/8, which is much less work.

    Returns what of the small picture the large one fills.
    """
    width, height = image.size
    if _turn(image) is not None and (width % 8 or height % 8):
        return image.size  # its last pixel would be in the wrong corner
    image.draft(None, preprocessing.first_size(width, height))
    scale = round(width / image.width)
    return min(width / scale, image.width), min(height / scale, image.height)


def _turn(image: Image.Image) -> Image.Transpose | None:
    """How EXIF says that a picture is to be turned."""
    try:
        return _TURN.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF is no reason to refuse the picture itself
        return None


def _open(data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=_COMMON)
    except UnidentifiedImageError:  # the others take a while to import
        return Image.open(io.BytesIO(data), formats=_formats())


@cache
def _formats() -> tuple[str, ...]:
    if "HEIF" not in Image.OPEN and importlib.util.find_spec("pillow_heif"):
        from pillow_heif import register_heif_opener

        register_heif_opener()
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _damaged(error: BaseException) -> str:
    if isinstance(error, Image.DecompressionBombError):
        return f"over {MAX_PIXELS:,} pixels: make it smaller first"
    if isinstance(error, MemoryError):
        return "not enough memory to decode it"
    return f"damaged: {error}" if str(error) else "damaged"


def _too_large(width: int, height: int) -> str:
    return f"{width} x {height} pixels are over {MAX_PIXELS:,}: make it smaller first"


def _unidentified(data: bytes) -> str:
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"mif1", b"msf1", b"heim"):
        return "a HEIC picture: `pip install pillow-heif` reads it, or convert it to JPEG"
    return "not a picture in a format that is read"
