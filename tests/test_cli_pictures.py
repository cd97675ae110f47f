"""From pictures to a table on the command line, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proof import Embeddings
from proof.cache import Cache
from proof.encoding import encode_pictures, encode_texts
from simple_encoder import Means

pytest.importorskip("open_clip")


def run(*arguments: object, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "proof", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == status, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four classes of twenty pictures each, every class with a look of its own."""
    rng = np.random.default_rng(0)
    for name in ("moka_pot", "cup", "kettle", "Löffel (groß)"):
        look = rng.integers(0, 256, (3, 3, 3))
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(20):
            noisy = np.clip(look + rng.integers(-30, 30, look.shape), 0, 255).astype(np.uint8)
            image = Image.fromarray(noisy).resize((90, 60), Image.Resampling.BICUBIC)
            image.save(folder / f"photo {number}.jpg")
    return tmp_path / "photos"


def test_pictures_in_table_out(photos: Path, tiny_clip: Path, tmp_path: Path) -> None:
    encoder = ("--encoder", f"local-dir:{tiny_clip}", "--device", "cpu")
    run("embed", "photos", *encoder, "-o", "photos.safetensors", cwd=tmp_path)
    data = Embeddings.load(tmp_path / "photos.safetensors")
    assert data.class_names == ("Löffel (groß)", "cup", "kettle", "moka pot")
    assert len(data.train) + len(data.test) == 80
    assert data.metadata["preprocess"] == "squash 32x32 bicubic"
    stream = ("--methods", "zero-shot,simplecil", "--protocol", "B0-Inc2")
    from_file = run("bench", "photos.safetensors", *stream, cwd=tmp_path).stdout
    from_pictures = run("bench", "photos", *encoder, *stream, cwd=tmp_path).stdout
    rows = [[line for line in shown.splitlines() if "simplecil" in line][-1]
            for shown in (from_file, from_pictures)]  # fmt: skip
    assert rows[0] == rows[1]
    assert "100.0" in rows[0]
    shown = run("cache", cwd=tmp_path).stdout
    assert "80" in shown
    assert "squash" in shown


def test_broken_pictures_are_listed_or_stop_it(
    photos: Path, tiny_clip: Path, tmp_path: Path
) -> None:
    (photos / "cup" / "empty.jpg").touch()
    (photos / "cup" / "words.png").write_text("no picture")
    command = ("embed", "photos", "--encoder", f"local-dir:{tiny_clip}", "-o", "out.safetensors")
    said = run(*command, cwd=tmp_path).stderr
    assert "2 broken pictures" in said
    assert f"{Path('photos') / 'cup' / 'empty.jpg'}: the file is empty" in said
    assert "words.png: not a picture" in said
    assert "--strict stops" in run(*command, "--strict", cwd=tmp_path, status=2).stderr


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_interrupted_it_goes_on(photos: Path, tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "slow.py").write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from proof.encoders import register_encoder\n"
        "from simple_encoder import Means\n"
        "register_encoder('slow')(lambda name, **_: Means(seconds=0.5))\n"
    )
    command = [
        sys.executable, "-m", "proof", "embed", "photos", "--encoder", "slow:",
        "--plugin", "slow.py", "-o", "out.safetensors",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not any(space.rows for space in Cache(own_cache).spaces()):
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130, said
    assert "goes on from there" in said
    assert "Traceback" not in said
    kept = sum(space.rows for space in Cache(own_cache).spaces())
    assert 8 <= kept < 80
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert Embeddings.load(tmp_path / "out.safetensors").dim == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("embed", "photos", "-o", "x.safetensors", "--encoder", "ViT-B-16"), "which weights"),
        (("embed", "photos", "-o", "x.safetensors", "--encoder", "ViT-B-16/no.pt"), "neither"),
        (("embed", "photos", "-o", "x.safetensors", "--preprocess", "fold"), "squash or model"),
        (("embed", "nowhere", "-o", "x.safetensors"), "nowhere"),
        (("embed", "photos", "-o", "x.npz"), "ends in .safetensors"),
        (("embed", "photos", "-o", "x.safetensors", "--device", "gpu"), "expected auto, cpu, cuda"),
        (("embed", "broken", "-o", "x.safetensors", "--encoder", "TINY"), "no training picture"),
        (("bench", "photos", "--encoder", "TINY", "--protocol", "B0-Inc3"), "does not add up to 4"),
        (("bench", "photos", "--encoder", "TINY", "--seeds", "x"), "whole numbers"),
        (("bench", "cifar100-small", "--encoder", "ViT-B-16/openai"), "holds embeddings already"),
        (("bench", "cifar100-small", "--strict"), "holds embeddings already"),
        (("cache", "prune"), "prune what"),
        (("cache", "prune", "--max-size", "much"), "500MB or 10GB"),
        (("cache", "prune", "--encoder", "none"), "not in the cache"),
        (("encoders", "--grep", "nothing-like-this"), "no encoder"),
        (("data", "show", "cub2000"), "cub200"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, photos: Path, tiny_clip: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken" / "cup").mkdir(parents=True)
    for number in range(9):
        (tmp_path / "broken" / "cup" / f"{number}.jpg").touch()
    given = [f"local-dir:{tiny_clip}" if word == "TINY" else word for word in arguments]
    said = run(*given, cwd=tmp_path, status=2).stderr.splitlines()
    assert message in said[-1]
    assert said[-1].startswith("error: ")
    assert len(said) == 1 or "broken" in given
    assert not (tmp_path / "x.safetensors").exists()


def test_the_cache_can_be_pruned_and_cleared(photos: Path, tmp_path: Path, own_cache: Path) -> None:
    pictures = sorted(photos.rglob("*.jpg"))
    encode_pictures(pictures, Means())
    encode_texts(["cup"], Means())
    assert "removed 0" in run("cache", "prune", "--unused-for", "1", cwd=tmp_path).stdout
    assert "removed 0" in run("cache", "prune", "--max-size", "1GB", cwd=tmp_path).stdout
    for space in Cache().spaces():
        os.utime(space.folder / "about.json", (1e9, 1e9))
    pruned = run("cache", "prune", "--unused-for", "30", cwd=tmp_path).stdout
    assert "removed 81 embeddings" in pruned
    assert Cache().spaces() == []
    assert encode_pictures(pictures, Means()).fresh == 80
    run("cache", "clear", cwd=tmp_path, status=1)  # asks, and nobody answers
    assert len(Cache().spaces()) == 1
    run("cache", "clear", "--yes", cwd=tmp_path)
    assert Cache().spaces() == []
