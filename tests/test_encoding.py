"""From pictures to vectors: nothing is encoded twice, and nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import make_pictures
from proof import ProofError
from proof.cache import Cache
from proof.encoders.base import Facts, Vectors
from proof.encoding import Encoded, _Work, encode_pictures, encode_texts
from proof.pictures.decode import Pixels
from simple_encoder import FACTS, Means, with_tests_on_path


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    paths = make_pictures(tmp_path / "photos", 100)
    for path in paths:  # as if they had been there for a while
        os.utime(path, (1e9, 1e9))
    return paths


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the time stamps of files that were made just now."""
    monkeypatch.setattr("proof.encoding._SETTLED", -1)


def same(a: Encoded, b: Encoded) -> bool:
    return np.array_equal(a.vectors, b.vectors) and np.array_equal(a.good, b.good)


def test_nothing_is_encoded_twice(pictures: list[Path], tmp_path: Path) -> None:
    encoder = Means()
    first = encode_pictures(pictures, encoder)
    assert (first.fresh, encoder.pictures) == (100, 100)
    moved = tmp_path / "elsewhere"
    shutil.move(pictures[0].parent, moved)
    renamed = [(moved / path.name).rename(moved / f"{path.stem}-new.jpeg") for path in pictures]
    again = encode_pictures(renamed, encoder)
    assert again.fresh == 0
    assert encoder.pictures == 100
    assert same(first, again)
    data = [path.read_bytes() for path in renamed]
    assert same(first, encode_pictures(data, encoder))
    assert encoder.pictures == 100


def test_the_same_content_twice_in_one_run_is_encoded_once(pictures: list[Path]) -> None:
    copies = [shutil.copy(path, path.with_name(f"copy-{path.name}")) for path in pictures[:60]]
    encoder = Means()
    encoded = encode_pictures([*pictures, *copies, *pictures], encoder)
    assert encoder.pictures == 100
    assert np.array_equal(encoded.vectors[:60], encoded.vectors[100:160])
    assert np.array_equal(encoded.vectors[:100], encoded.vectors[160:])


@pytest.mark.parametrize("few", [True, False])
def test_order_and_company_do_not_matter(pictures: list[Path], few: bool) -> None:
    paths = pictures[:20] if few else pictures  # in this process, or in others
    first = encode_pictures(paths, Means())
    Cache().clear()
    second = encode_pictures(paths[::-1], Means())
    assert np.array_equal(first.vectors, second.vectors[::-1])
    alone = encode_pictures(paths[3:4], Means(), cache=Cache(paths[0].parent / "other"))
    assert np.array_equal(alone.vectors[0], first.vectors[3])


def test_unchanged_files_are_not_even_read(
    pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    encoder = Means()
    first = encode_pictures(pictures, encoder)

    def no_readers(*arguments: object, **options: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr("proof.encoding.Readers", no_readers)
    assert same(first, encode_pictures(pictures, encoder))


def test_a_changed_file_is_encoded_anew(
    pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    encoder = Means()
    first = encode_pictures(pictures, encoder)
    times = pictures[5].stat()
    data = bytearray(pictures[5].read_bytes())
    Image.new("RGB", (60, 40), "red").save(pictures[5], "JPEG")
    pictures[5].write_bytes(pictures[5].read_bytes().ljust(len(data), b"\0")[: len(data)])
    os.utime(pictures[5], ns=(times.st_atime_ns, times.st_mtime_ns))  # size and mtime as before
    second = encode_pictures(pictures, encoder)
    assert second.fresh == 1
    assert not np.array_equal(first.vectors[5], second.vectors[5])


def test_another_encoder_or_preprocessing_is_another_space(pictures: list[Path]) -> None:
    encode_pictures(pictures, Means())
    other = Means(Facts("e" * 64, 12, 100.0, FACTS.preprocessing))
    assert encode_pictures(pictures, other).fresh == 100
    model = Means()
    model.preprocessing = FACTS.preprocessing.choose("model")
    assert encode_pictures(pictures, model).fresh == 100
    assert sorted(space.rows for space in Cache().spaces()) == [100, 100, 100]


def test_the_same_mode_with_other_numbers_is_another_space(pictures: list[Path]) -> None:
    encode_pictures(pictures[:5], Means())
    own = FACTS.preprocessing
    for other in (replace(own, mean=(1, 1, 1)), replace(own, size=(32, 16))):
        store = Cache().space(Means(replace(FACTS, preprocessing=other)), "images")
        assert len(store.view) == 0


def test_the_same_weights_under_another_name_are_the_same(pictures: list[Path]) -> None:
    encode_pictures(pictures, Means())
    renamed = Means()
    renamed.name = "local-dir:/elsewhere"
    assert encode_pictures(pictures, renamed).fresh == 0


def test_a_file_that_has_just_changed_is_not_trusted(
    pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the time stamps' grain a second change would not show."""
    monkeypatch.setattr("proof.encoding.file_status", lambda status: (1, 1, 1, 1, 1))
    monkeypatch.setattr("proof.pictures.reader.file_status", lambda s: (1, 1, 1, s.st_mtime_ns, 1))
    now = time.time_ns()
    few = pictures[:10]
    for path in few:
        os.utime(path, ns=(now, now))
    encode_pictures(few, Means())
    assert len(Cache().files().view) == 0


def test_of_two_copies_the_one_that_is_left_is_encoded(
    pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are known to be the same, one is to be read, and just then it goes."""
    settle(monkeypatch)
    both = [pictures[0], Path(shutil.copy(pictures[0], pictures[0].with_name("zzz.jpg")))]
    encode_pictures(both, Means())
    Cache().remove(Cache().spaces())
    recognise = _Work._recognise

    def and_then_it_goes(work: _Work, slab: range) -> None:
        recognise(work, slab)
        pictures[0].unlink()

    monkeypatch.setattr(_Work, "_recognise", and_then_it_goes)
    encoded = encode_pictures(both, Means())
    assert [broken.index for broken in encoded.broken] == [0]
    assert encoded.good.tolist() == [1]


def test_pictures_of_pil_may_be_broken_too(tmp_path: Path) -> None:
    whole = make_pictures(tmp_path, 1)[0]
    (tmp_path / "cut.jpg").write_bytes(whole.read_bytes()[:-100])
    given = [Image.open(whole), Image.open(tmp_path / "cut.jpg"), Image.new("F", (4, 4))]
    encoded = encode_pictures(given, Means())
    assert encoded.good.tolist() == [0]
    assert [broken.picture for broken in encoded.broken] == ["picture 1", "picture 2"]


def test_broken_pictures_are_listed_and_the_run_goes_on(pictures: list[Path]) -> None:
    folder = pictures[0].parent
    empty, words, copy, gone = (folder / name for name in ("e.jpg", "w.jpg", "w2.jpg", "gone.jpg"))
    empty.touch()
    words.write_text("words")
    copy.write_text("words")
    given = [empty, *pictures[:50], words, gone, *pictures[50:], copy]
    encoded = encode_pictures(given, Means())
    listed = [broken.picture for broken in encoded.broken]
    assert listed == [str(path) for path in (empty, words, gone, copy)]
    assert [broken.index for broken in encoded.broken] == [0, 51, 52, 103]
    assert "empty" in str(encoded.broken[0])
    assert len(encoded.vectors) == len(encoded.good) == 100
    assert np.array_equal(encoded.vectors, encode_pictures(pictures, Means()).vectors)
    with pytest.raises(ProofError, match="strict"):
        encode_pictures(given, Means(), strict=True)


def test_all_broken_or_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").touch()
    assert encode_pictures([tmp_path / "x.jpg"] * 3, Means()).vectors.shape == (0, 12)
    assert encode_pictures([], Means()).vectors.shape == (0, 12)
    assert encode_texts([], Means()).shape == (0, 12)


def test_texts_are_encoded_once_too() -> None:
    encoder = Means()
    vectors = encode_texts(["a cat", "a dog!", "a cat"], encoder)
    assert vectors[:, 0].tolist() == [5, 6, 5]
    assert encode_texts(["a dog!", "Ähre 🌾"], encoder)[:, 0].tolist() == [6, 6]
    assert encoder.texts == 3
    with pytest.raises(ProofError, match="not Unicode"):
        encode_texts(["\udcff"], encoder)


def test_progress_counts_to_the_end(pictures: list[Path]) -> None:
    seen: list[tuple[int, int]] = []
    encode_pictures(pictures, Means(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (100, 100)
    assert seen == sorted(seen)


def test_an_encoder_that_fails_ends_the_run_with_its_error(pictures: list[Path]) -> None:
    class Failing(Means):
        def encode_images(self, pixels: Pixels) -> Vectors:
            raise ProofError("out of order")

    class Overflowing(Means):
        def encode_images(self, pixels: Pixels) -> Vectors:
            return np.full((len(pixels), 12), 1e9, np.float32)

    with pytest.raises(ProofError, match="out of order"):
        encode_pictures(pictures, Failing())
    with pytest.raises(ProofError, match="very large"):
        encode_pictures(pictures, Overflowing())


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProofError, match="PROOF_CACHE"):
        encode_texts(["a"], Means(), cache=Cache(tmp_path / "file"))


ENCODE = """
import sys
import time
from dataclasses import replace
from pathlib import Path
from simple_encoder import Means
from proof.encoding import encode_pictures
print("up", flush=True)
encode_pictures(sorted(Path(sys.argv[1]).iterdir()), Means(log=Path(sys.argv[2]), seconds=0.04))
print("done", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
def test_killed_at_random_moments_it_goes_on(tmp_path: Path, own_cache: Path) -> None:
    """However often it is killed, at most the batches in flight are encoded again."""
    rng = random.Random(1)
    make_pictures(tmp_path / "photos", 400, (20, 20))
    log = tmp_path / "log"
    log.touch()
    environment = with_tests_on_path()
    command = [sys.executable, "-c", ENCODE, tmp_path / "photos", log]
    kills = 0
    while True:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        try:
            process.wait(0.25 + rng.random() * 0.4 if kills < 10 else None)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(random.choice([signal.SIGKILL, signal.SIGINT]))
            process.wait()
            kills += 1
    assert process.returncode == 0
    assert kills >= 3
    encoded = sum(map(int, log.read_text().split()))
    assert 400 <= encoded <= 400 + kills * Means.batch_size * Means.streams
    done = encode_pictures(sorted((tmp_path / "photos").iterdir()), Means())
    assert (done.fresh, len(done.good)) == (0, 400)
    Cache().clear()
    assert same(done, encode_pictures(sorted((tmp_path / "photos").iterdir()), Means()))


@pytest.mark.skipif(os.name != "posix", reason="looks at processes")
def test_two_processes_encode_the_same_at_once(tmp_path: Path) -> None:
    make_pictures(tmp_path / "photos", 200, (20, 20))
    environment = with_tests_on_path()
    command = [sys.executable, "-c", ENCODE, tmp_path / "photos", tmp_path / "log"]
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    done = encode_pictures(sorted((tmp_path / "photos").iterdir()), Means())
    assert (done.fresh, len(done.good)) == (0, 200)
