"""Pictures: decoded rightly where they can be, and never the end of a run."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conftest import make_pictures
from proof import ProofError
from proof.pictures import BrokenPicture, Preprocessing, decode
from proof.pictures.reader import Reader, content_key, plain, read_file
from proof.pictures.readers import Readers, RemoteReader

SQUASH = Preprocessing((32, 32), "squash", (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
CROP = Preprocessing((32, 32), "crop", (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photo(width: int = 90, height: int = 60) -> Image.Image:
    """Smooth colours, no two corners alike."""
    corners = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [200, 200, 0]]], np.uint8)
    return Image.fromarray(corners).resize((width, height), Image.Resampling.BILINEAR)


def chunk(kind: bytes, body: bytes) -> bytes:
    """A piece of a PNG file."""
    check = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)


def near(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(int) - b.astype(int)).mean())


PLAIN = decode(saved(photo(), "PNG"), SQUASH)


def test_wrong_extension_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(saved(photo(), "PNG"))
    rows = np.zeros((1, 32, 32, 3), np.uint8)
    reader = Reader(SQUASH, rows)
    reader.read([str(path)])
    assert reader.decode([(0, 0)]) == [""]
    assert np.array_equal(rows[0], PLAIN)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_undone(orientation: int) -> None:
    how = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    turned = photo().transpose(how[orientation]) if orientation > 1 else photo()
    exif = Image.Exif()
    exif[0x0112] = orientation
    for kind in ("JPEG", "PNG", "WEBP"):
        data = saved(turned, kind, exif=exif, quality=95)
        assert near(decode(data, SQUASH), PLAIN) < 3, (kind, orientation)


def test_16_bit_grey_is_scaled_not_clipped() -> None:
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64)
    data = saved(Image.fromarray(ramp.astype(np.uint16)), "PNG")
    eight = saved(Image.fromarray((ramp / 257).astype(np.uint8)), "PNG")
    assert near(decode(data, SQUASH), decode(eight, SQUASH)) < 1


def test_16_bit_colour() -> None:
    """A PNG of 16 bits a channel, which Pillow reads and cannot write."""
    values = np.asarray(photo(40, 30)).astype(">u2") * 257
    lines = b"".join(b"\0" + line.tobytes() for line in values)

    data = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 30, 16, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )  # fmt: skip
    assert near(decode(data, SQUASH), decode(saved(photo(40, 30), "PNG"), SQUASH)) < 1


def test_cmyk() -> None:
    assert near(decode(saved(photo().convert("CMYK"), "JPEG", quality=95), SQUASH), PLAIN) < 4


def test_transparency_lies_on_white() -> None:
    """Also in a palette, as in the GIFs and PNGs of cut-out products."""
    cutout = Image.new("RGBA", (60, 60), (0, 0, 0, 0))
    cutout.paste((255, 0, 0, 255), (20, 20, 40, 40))
    palette = Image.new("P", (60, 60), 0)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.paste(1, (20, 20, 40, 40))
    for data in (
        saved(cutout, "PNG"),
        saved(cutout, "WEBP", lossless=True),
        saved(palette, "PNG", transparency=bytes([0, 255])),
        saved(palette, "GIF", transparency=0),
    ):
        pixels = decode(data, SQUASH)
        assert pixels[0, 0].tolist() == [255, 255, 255]
        assert pixels[16, 16].tolist() == [255, 0, 0]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation(kind: str) -> None:
    frames = [Image.new("RGB", (50, 50), colour) for colour in ("red", "lime", "blue")]
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=50)
    assert np.abs(decode(data, SQUASH)[5, 5].astype(int) - [255, 0, 0]).max() < 5


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "YCbCr"])
def test_other_modes(mode: str) -> None:
    kind = "JPEG" if mode == "YCbCr" else "PNG"
    assert decode(saved(photo().convert(mode), kind), SQUASH).shape == (32, 32, 3)


@pytest.mark.parametrize("preprocessing", [SQUASH, CROP])
@pytest.mark.parametrize("size", [(30_000, 40), (40, 30_000), (1, 1), (30_000, 1)])
def test_extreme_shapes(size: tuple[int, int], preprocessing: Preprocessing) -> None:
    wide = Image.new("RGB", size, (10, 200, 30))
    tracemalloc.start()
    for kind in ("PNG", "JPEG"):
        pixels = decode(saved(wide, kind), preprocessing)
        assert np.abs(pixels.astype(int) - [10, 200, 30]).max() < 4
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def bomb(width: int, height: int) -> bytes:
    """A small PNG that claims to be huge."""

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0" * 1_000_000)) + chunk(b"IEND", b"")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"These are words.", "not a picture"),
        (saved(photo(), "JPEG")[:400], "damaged|not a picture"),
        (saved(photo(300, 200), "JPEG", quality=95)[:-900], "damaged"),
        (saved(photo(300, 200), "PNG")[:900], "damaged"),
        (bomb(60_000, 60_000), "pixels"),
        (bomb(2**31 - 1, 2**31 - 1), "pixels|damaged"),
        (saved(photo(), "EPS"), "not a picture"),  # reading it would start another program
        (b"\0\0\0\x18ftypheic" + bytes(100), "HEIC"),
        (saved(Image.new("F", (20, 20)), "TIFF"), "floating"),
    ],
)
def test_broken_pictures_say_why(data: bytes, reason: str) -> None:
    with pytest.raises(BrokenPicture, match=reason):
        decode(data, SQUASH)


SEEDS = [
    saved(photo(40, 30), kind) for kind in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8),
    st.floats(0, 1),
)
def test_damage_never_ends_the_run(data: bytes, flips: list[tuple[float, int]], cut: float) -> None:
    damaged = bytearray(data)
    for place, value in flips:
        damaged[int(place * (len(damaged) - 1))] = value
    try:
        assert decode(bytes(damaged[: int(cut * len(damaged))]), SQUASH).shape == (32, 32, 3)
    except BrokenPicture as error:
        assert str(error)  # noqa: PT017


def test_large_jpegs_are_decoded_small_and_look_the_same() -> None:
    rng = np.random.default_rng(0)
    scene = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    large = scene.resize((1999, 1501), Image.Resampling.BICUBIC)
    data = saved(large, "JPEG", quality=95)
    for preprocessing in (SQUASH, CROP):
        exact = decode(saved(Image.open(io.BytesIO(data)), "PNG"), preprocessing)
        assert near(decode(data, preprocessing), exact) < 1.5


@pytest.mark.parametrize("size", [(500, 375), (37, 91), (32, 32), (200, 33), (64, 300)])
def test_crop_is_what_torchvision_does(size: tuple[int, int]) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    bicubic = transforms.InterpolationMode.BICUBIC
    image = photo(*size)
    both = transforms.Compose([transforms.Resize(32, bicubic), transforms.CenterCrop(32)])
    theirs = np.asarray(both(image)).astype(int)
    assert np.abs(decode(saved(image, "PNG"), CROP).astype(int) - theirs).max() <= 2
    squashed = np.asarray(transforms.Resize((32, 32), bicubic)(image))
    assert np.array_equal(decode(saved(image, "PNG"), SQUASH), squashed)


def test_pad_keeps_the_shape_and_fills() -> None:
    pad = Preprocessing((32, 32), "pad", (0, 0, 0), (1, 1, 1), fill=7)
    pixels = decode(saved(photo(90, 30), "PNG"), pad)
    assert (pixels[:9] == 7).all()
    assert (pixels[-9:] == 7).all()
    assert (pixels[16] != 7).any()


def test_wrong_preprocessing_is_refused() -> None:
    with pytest.raises(ProofError, match="squash or model"):
        SQUASH.choose("stretch")
    with pytest.raises(ProofError, match="squash, crop, pad"):
        Preprocessing((32, 32), "fold", (0, 0, 0), (1, 1, 1))


def test_pictures_in_memory_are_pictures() -> None:
    image = photo()
    array = np.asarray(image)
    assert content_key(plain(image)) == content_key(plain(array))
    assert plain(array[:, :, 0]).shape == array.shape  # type: ignore[union-attr]
    with pytest.raises(ProofError, match="float64"):
        plain(array / 255)  # type: ignore[arg-type]
    with pytest.raises(ProofError, match=r"\(4, 4, 4\)"):
        plain(np.zeros((4, 4, 4), np.uint8))


@pytest.mark.skipif(os.name != "posix", reason="readers are threads there")
def test_readers_in_processes_do_what_a_reader_does(tmp_path: Path) -> None:
    paths = [str(path) for path in make_pictures(tmp_path, 6)]
    (tmp_path / "broken.jpg").write_bytes(b"no")
    os.mkfifo(tmp_path / "pipe.jpg")
    given = [*paths, str(tmp_path / "broken.jpg"), str(tmp_path / "pipe.jpg"), str(tmp_path),
             "/nowhere.jpg", SEEDS[0], np.asarray(photo())]  # fmt: skip
    readers = Readers(SQUASH, len(given), 1000, workers=1)
    try:
        remote = readers.all[0]
        here = Reader(SQUASH, np.zeros_like(readers.rows))
        theirs, ours = remote.read(given), here.read(given)
        assert theirs.broken == ours.broken
        for name in ("keys", "files", "changed"):
            assert np.array_equal(getattr(theirs, name), getattr(ours, name))
        wanted = [(index, index) for index in [0, 1, 2, 3, 4, 5, 6, 10, 11]]
        assert remote.decode(wanted) == here.decode(wanted)
        assert np.array_equal(readers.rows, here.rows)
        assert ours.broken == {
            7: "not a file",
            8: "Is a directory",
            9: "No such file or directory",
        }
    finally:
        readers.close()


@pytest.mark.skipif(os.name != "posix", reason="readers are threads there")
def test_a_reader_that_dies_is_started_again(tmp_path: Path) -> None:
    paths = [str(path) for path in make_pictures(tmp_path, 3)]
    readers = Readers(SQUASH, 3, 1000, workers=1)
    try:
        remote = readers.all[0]
        assert isinstance(remote, RemoteReader)
        remote.read(paths)
        remote._process.kill()
        assert remote.decode([(0, 0), (2, 2)]) == ["", ""]
        assert readers.rows[2].any()
        remote._process.kill()
        assert remote.read(paths).keys.any(axis=1).all()
    finally:
        readers.close()


@pytest.mark.skipif(os.name != "posix", reason="readers are threads there")
def test_a_reader_that_died_while_reading_decodes_the_right_pictures(tmp_path: Path) -> None:
    paths = [str(path) for path in make_pictures(tmp_path, 5)]
    readers = Readers(SQUASH, 5, 1000, workers=1)
    try:
        remote = readers.all[0]
        assert isinstance(remote, RemoteReader)
        remote.read([])
        remote._process.kill()
        remote.read(paths)
        assert remote.decode([(1, 1), (3, 3)]) == ["", ""]
        for index in (1, 3):
            assert np.array_equal(
                readers.rows[index], decode(Path(paths[index]).read_bytes(), SQUASH)
            )
        remote._process.kill()
        Image.new("RGB", (9, 9)).save(paths[4])  # another picture now
        assert remote.decode([(4, 4)]) == ["it was changed while it was read"]
    finally:
        readers.close()


@pytest.mark.skipif(os.name != "posix", reason="readers are threads there")
def test_a_reader_imports_nothing_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported')")
    paths = [str(path) for path in make_pictures(tmp_path, 2)]
    monkeypatch.chdir(tmp_path)
    readers = Readers(SQUASH, 2, 1000, workers=1)
    try:
        assert readers.all[0].read(paths).broken == {}
    finally:
        readers.close()


@pytest.mark.skipif(os.name != "posix", reason="readers are threads there")
def test_a_reader_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.pictures.readers._START", "raise SystemExit(3)")
    readers = Readers(SQUASH, 2, 1000, workers=1)
    try:
        with pytest.raises(ProofError, match="does not start"):
            readers.all[0].read(["x.jpg"])
    finally:
        readers.close()


class Spy:
    """A lock that tells whether it was taken."""

    taken = False

    def __enter__(self) -> None:
        self.taken = True

    def __exit__(self, *error: object) -> None:
        pass


def test_large_pictures_wait_for_each_other() -> None:
    large = Image.new("L", (5200, 5000))
    for data, waits in (
        (saved(large, "PNG"), True),
        (saved(large, "JPEG", progressive=True), True),  # held whole while it is decoded
        (saved(large, "JPEG"), False),  # decoded at an eighth
        (saved(photo(), "PNG"), False),
    ):
        spy = Spy()
        decode(data, SQUASH, spy)
        assert spy.taken is waits


def test_a_large_chunk_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.pictures.reader._HOLD", 1500)
    paths = [str(path) for path in make_pictures(tmp_path, 4)]
    rows = np.zeros((4, 32, 32, 3), np.uint8)
    reader = Reader(SQUASH, rows)
    reader.read(paths)
    assert sum(len(held) for held in reader._held if isinstance(held, bytes)) <= 1500
    Image.new("RGB", (9, 9)).save(paths[2])
    assert reader.decode([(i, i) for i in range(4)]) == [
        "", "", "it was changed while it was read", "",
    ]  # fmt: skip
    assert np.array_equal(rows[3], decode(Path(paths[3]).read_bytes(), SQUASH))


def test_a_file_that_changes_while_it_is_read_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_pictures(tmp_path, 1)[0]
    states = iter([(1, 1, 1, 1, 1), (1, 1, 2, 1, 1)])
    monkeypatch.setattr("proof.pictures.reader.file_status", lambda status: next(states))
    with pytest.raises(BrokenPicture, match="changed"):
        read_file(str(path))


def test_odd_paths_and_times_do_not_end_the_run(tmp_path: Path) -> None:
    path = make_pictures(tmp_path, 1)[0]
    os.utime(path, ns=(0, 2**62 * 2 - 1))
    contents = Reader(SQUASH, np.zeros((2, 32, 32, 3), np.uint8)).read([str(path), "a\0b.jpg"])
    assert list(contents.broken) == [1]


def test_transparency_of_a_colour_lies_on_white_too() -> None:
    image = Image.new("RGB", (40, 40), (0, 0, 0))
    image.paste((255, 0, 0), (10, 10, 30, 30))
    pixels = decode(saved(image, "PNG", transparency=(0, 0, 0)), SQUASH)
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[16, 16].tolist() == [255, 0, 0]


def test_the_edge_of_a_jpeg_that_is_decoded_small_stays_where_it_is() -> None:
    """513 pixels at an eighth are 64.125: the last pixel is only an eighth full."""
    image = Image.new("RGB", (513, 513), (0, 0, 255))
    image.paste((255, 255, 0), (0, 0, 256, 513))
    exact = decode(saved(Image.open(io.BytesIO(saved(image, "JPEG"))), "PNG"), SQUASH)
    assert near(decode(saved(image, "JPEG"), SQUASH), exact) < 0.6
