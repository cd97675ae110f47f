"""Data sets of pictures: folders, tables, Hugging Face, and the known ones in each layout."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from proof.datasets import Dataset, Known, Labelled, known_names, open_dataset
from proof.datasets.base import Lazy
from proof.datasets.folders import pictures_below
from proof.datasets.known import check_md5, fetch, known, read_known
from proof.datasets.layouts import find_layout, without_border
from proof.datasets.splits import cut, share
from proof.errors import ProofError
from proof.streams import parse_protocol

PAPER = (
    "aircraft", "cars", "cifar100", "cub200", "food101", "imagenet-r", "objectnet", "sun397",
    "tv100", "ucf101",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's data sets."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("PROOF_DATA", str(folder))
    return folder


def touch(root: Path, *names: str) -> Path:
    """Empty files: whether they are pictures is not looked at when a data set is opened."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def many(label: str, count: int) -> list[str]:
    return [f"{label}/{number}.jpg" for number in range(count)]


def png(colour: tuple[int, int, int] = (10, 20, 30), size: tuple[int, int] = (6, 4)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def shown(part: Labelled) -> set[tuple[str, str]]:
    """Pictures by the last two parts of their paths, with their labels."""
    return {
        ("/".join(Path(str(picture)).parts[-2:]), label)
        for picture, label in zip(part.pictures, part.labels, strict=True)
    }


def class_file(folder: Path, *names: str) -> Path:
    path = folder / "classes.txt"
    path.write_text("\n".join(names) + "\n", encoding="utf-8")
    return path


# --- the split by a fraction ---

_names = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=12)
_fractions = st.floats(0, 0.99)


@given(old=_names, new=_names, fraction=_fractions, seed=st.integers())
def test_new_pictures_do_not_move_old_ones(
    old: list[str], new: list[str], fraction: float, seed: int
) -> None:
    both = sorted(set(old) | set(new))
    before = dict(zip(old, cut("cup", old, fraction, seed), strict=True))
    after = dict(zip(both, cut("cup", both, fraction, seed), strict=True))
    moved = [name for name in old if before[name] != after[name]]
    # The one exception: chance had put all of the class into the test, and one was kept back.
    if any(share("cup", name, seed) >= fraction for name in old):
        assert moved == []
    else:
        assert len(moved) <= 1
        assert all(not before[name] for name in moved)


@given(names=_names, fraction=_fractions, seed=st.integers(), order=st.randoms())
def test_the_order_of_pictures_does_not_matter(
    names: list[str], fraction: float, seed: int, order: Any
) -> None:
    shuffled = list(names)
    order.shuffle(shuffled)
    first = dict(zip(names, cut("cup", names, fraction, seed), strict=True))
    assert first == dict(zip(shuffled, cut("cup", shuffled, fraction, seed), strict=True))


@given(names=_names.filter(bool), fraction=_fractions, more=_fractions, seed=st.integers())
def test_every_class_keeps_a_training_picture(
    names: list[str], fraction: float, more: float, seed: int
) -> None:
    testing = cut("cup", names, fraction, seed)
    assert not all(testing)
    if len(names) == 1 or fraction == 0:
        assert not any(testing)
    larger = cut("cup", names, max(fraction, more), seed)
    assert sum(larger) >= sum(testing)


def test_the_fraction_is_about_right_and_the_seed_matters() -> None:
    names = [f"{number:05}.jpg" for number in range(10_000)]
    one, two = cut("cup", names, 0.2, 1993), cut("cup", names, 0.2, 7)
    assert abs(sum(one) - 2000) < 160  # four standard deviations
    agree = sum(a == b for a, b in zip(one, two, strict=True))
    assert abs(agree - 6800) < 190
    assert cut("cup", names, 0.2, 1993) != cut("mug", names, 0.2, 1993)


def test_composed_and_decomposed_letters_are_one_name() -> None:
    assert share("café", "é.jpg", 1) == share("cafe\u0301", "e\u0301.jpg", 1)


@settings(max_examples=20)
@given(old=st.integers(2, 15), new=st.integers(0, 15), seed=st.integers(0, 100))
def test_a_folder_that_grows_keeps_its_split(
    tmp_path_factory: pytest.TempPathFactory, old: int, new: int, seed: int
) -> None:
    root = tmp_path_factory.mktemp("photos")
    touch(root, "cup/sure.jpg", *many("cup", old))
    before = open_dataset(str(root), split_seed=seed, test_fraction=0.4)
    touch(root, *many("cup/more", new), *many("a mug", 3))
    after = open_dataset(str(root), split_seed=seed, test_fraction=0.4)
    natural = any(share("cup", f"{n}.jpg", seed) >= 0.4 for n in (*range(old), "sure"))
    if natural:
        assert shown(before.train) <= shown(after.train)
        assert shown(before.test) <= shown(after.test)


# --- folders ---


def test_class_folders_are_split_by_a_fraction(tmp_path: Path) -> None:
    touch(tmp_path, *many("moka_pot", 50), *many("cup", 50), *many("cup/2024/may", 50))
    data = open_dataset(str(tmp_path))
    assert data.name == tmp_path.name
    assert data.class_names == ("cup", "moka pot")
    assert data.templates == ("a photo of a {}.",)
    assert data.metadata["split"] == "0.2 of each class for testing, seed 1993"
    assert len(data.train) + len(data.test) == 150
    assert 15 <= len(data.test) <= 45
    assert set(data.train.labels) == set(data.test.labels) == {"cup", "moka pot"}
    assert all(Path(str(picture)).is_file() for picture in data.train.pictures)
    assert any("2024/may" in str(picture) for picture in data.train.pictures)
    assert not shown(data.train) & shown(data.test)
    everything = open_dataset(str(tmp_path), test_fraction=0)
    assert (len(everything.train), len(everything.test)) == (150, 0)


def test_a_class_with_one_picture_is_for_training(tmp_path: Path) -> None:
    touch(tmp_path, *(f"class {number}/only.jpg" for number in range(40)))
    data = open_dataset(str(tmp_path))
    assert (len(data.train), len(data.test)) == (40, 0)


def test_train_and_test_folders_are_taken_as_they_are(tmp_path: Path) -> None:
    touch(tmp_path, "train/cup/1.jpg", "train/moka_pot/1.png", "Test/cup/2.JPEG", "val/cup/3.jpg")
    data = open_dataset(str(tmp_path))
    assert shown(data.train) == {("cup/1.jpg", "cup"), ("moka_pot/1.png", "moka pot")}
    assert shown(data.test) == {("cup/2.JPEG", "cup")}
    assert data.metadata["split"] == "given"


@pytest.mark.parametrize("name", ["val", "valid", "validation", "VAL"])
def test_validation_counts_as_test_where_there_is_no_test(tmp_path: Path, name: str) -> None:
    touch(tmp_path, "train/cup/1.jpg", f"{name}/cup/2.jpg")
    assert shown(open_dataset(str(tmp_path)).test) == {("cup/2.jpg", "cup")}


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    touch(tmp_path, *many("train", 5), *many("bus", 5))
    assert open_dataset(str(tmp_path)).class_names == ("bus", "train")


def test_other_files_are_counted_and_hidden_ones_are_not(tmp_path: Path) -> None:
    touch(tmp_path, *many("cup", 3), "cup/notes.txt", "cup/deep/movie.avi", "stray.jpg", "README")
    touch(tmp_path, "cup/.DS_Store", "cup/Thumbs.db", "cup/._1.jpg", ".git/x.jpg", "__MACOSX/a.jpg")
    data = open_dataset(str(tmp_path))
    assert data.ignored == 3  # two that are no pictures, and one that is in no class
    assert len(data.train) + len(data.test) == 3
    assert data.class_names == ("cup",)


def test_links_to_folders_are_followed_and_circles_end(tmp_path: Path) -> None:
    touch(tmp_path, "elsewhere/deep/1.jpg", "photos/cup/2.jpg", "photos/mug/3.jpg")
    photos = tmp_path / "photos"
    (photos / "pot").symlink_to(tmp_path / "elsewhere")
    (photos / "cup" / "round").symlink_to(photos)
    (photos / "cup" / "self").symlink_to(photos / "cup" / "self")
    (photos / "mug" / "away").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(photos / "mug")
    (photos / "mug" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    assert pictures_below(photos / "cup") == (["2.jpg"], 1)
    assert pictures_below(photos / "mug")[0] == ["3.jpg", "away/deep/1.jpg", "gone.jpg"]
    data = open_dataset(str(photos))
    assert data.class_names == ("cup", "mug", "pot")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "is empty: expected a folder for each class"),
        (["notes.txt"], "1 files that are no pictures, and no folders"),
        (["1.jpg", "2.jpg"], "2 pictures and no folders: expected .*a CSV file"),
        (["cup/notes.txt"], "1 folders, first 'cup', and no picture in them"),
        (["cup/1.jpg", "mug/notes.txt"], "first mug .1 other files.: put some in, or remove"),
        (["moka_pot/1.jpg", "moka pot/2.jpg"], "'moka pot' and 'moka_pot' are both called"),
        (["train/cup/1.jpg"], "folder 'train' but none called test .or val.: add it, or give"),
        (["test/cup/1.jpg"], "folder 'test' but none called train"),
        (["train/cup/1.jpg", "notes/a.txt"], "'train' but none called test"),
        (["train/cup/1.jpg", "test/mug/1.jpg"], "'mug' .1 for testing.: add some, or choose"),
        (["train/1.jpg", "test/2.jpg"], "train' has 1 pictures and no folders"),
        (["val/c/1.jpg", "valid/c/1.jpg"], "'val' and 'valid': expected one"),
        (["images/cup/1.jpg", "images/mug/1.jpg"], "one folder, 'images', with 2 folders in it"),
        (["_/1.jpg", "cup/1.jpg"], "the label '_' holds no name"),
    ],
)
def test_folders_that_are_not_right_say_why(tmp_path: Path, files: list[str], message: str) -> None:
    touch(tmp_path, *files)
    with pytest.raises(ProofError, match=message):
        open_dataset(str(tmp_path))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read all")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    touch(tmp_path, "cup/1.jpg")
    (tmp_path / "cup").chmod(0)
    with pytest.raises(ProofError, match="cannot be read"):
        open_dataset(str(tmp_path))


def test_a_file_of_classes_selects_and_orders(tmp_path: Path) -> None:
    photos = touch(tmp_path / "photos", *many("moka_pot", 4), *many("cup", 4), *many("mug", 4))
    data = open_dataset(str(photos), classes=class_file(tmp_path, "mug", "", " moka pot "))
    assert data.class_names == ("mug", "moka pot")
    assert set(data.train.labels) | set(data.test.labels) == {"mug", "moka pot"}
    by_folder = open_dataset(str(photos), classes=class_file(tmp_path, "moka_pot"))
    assert by_folder.class_names == ("moka pot",)
    assert shown(by_folder.train) <= shown(open_dataset(str(photos)).train)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["cup", "moka pt"], "no class 'moka pt': did you mean 'moka pot'"),
        (["xxxxxxx"], "no class 'xxxxxxx': there are 'cup', 'moka pot'"),
        (["moka_pot", "moka pot"], "'moka pot' stands there twice"),
        ([], "is empty: expected a class on each line"),
    ],
)
def test_a_wrong_file_of_classes(tmp_path: Path, lines: list[str], message: str) -> None:
    photos = touch(tmp_path / "photos", "moka_pot/1.jpg", "cup/1.jpg")
    with pytest.raises(ProofError, match=message):
        open_dataset(str(photos), classes=class_file(tmp_path, *lines))
    with pytest.raises(ProofError, match="cannot be read"):
        open_dataset(str(photos), classes=tmp_path / "nothing.txt")


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_a_wrong_fraction(tmp_path: Path, fraction: float) -> None:
    touch(tmp_path, "cup/1.jpg")
    with pytest.raises(ProofError, match="expected 0 or more and less than 1"):
        open_dataset(str(tmp_path), test_fraction=fraction)


@pytest.mark.parametrize("template", ["a photo", "{} and {}", "a {} of {x}"])
def test_a_wrong_template(tmp_path: Path, template: str) -> None:
    touch(tmp_path, "cup/1.jpg")
    with pytest.raises(ProofError, match="needs one"):
        open_dataset(str(tmp_path), templates=[template])


def test_a_data_set_holds_together() -> None:
    one = Labelled(["1.jpg"], ["cup"])
    with pytest.raises(ProofError, match="'cup' is none of the class names"):
        Dataset("x", one, one, ("mug",))
    with pytest.raises(ProofError, match="'cup' stands there twice"):
        Dataset("x", one, one, ("cup", "cup"))
    with pytest.raises(ProofError, match="no class"):
        Dataset("x", Labelled([], []), Labelled([], []), ())
    with pytest.raises(ProofError, match="1 pictures with 2 labels"):
        Labelled(["1.jpg"], ["cup", "cup"])


# --- the grammar of sources ---


def test_a_path_wins_over_a_known_name_only_where_it_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProofError, match="cub200 is not on this machine"):
        open_dataset("cub200")
    touch(tmp_path, "cub200/cup/1.jpg", "photos/cup/1.jpg")
    with pytest.raises(ProofError, match=r"also lies in this folder: write ./cub200"):
        open_dataset("cub200")
    assert open_dataset("./cub200").class_names == ("cup",)
    assert open_dataset("cub200/").class_names == ("cup",)
    assert open_dataset("photos").name == "photos"
    monkeypatch.chdir(tmp_path / "photos")
    assert open_dataset(".").name == "photos"
    assert open_dataset("../cub200").name == "cub200"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("cub2000", "did you mean 'cub200'"),
        ("./cub200", "neither a file or folder nor a known data set"),
        ("", "neither a file or folder"),
        ("cub200:nowhere", "no folder 'nowhere': expected the folder of cub200"),
        ("cub200:", "no folder ''"),
        ("cub200#split=random", "split 'random': expected official or fraction"),
        ("x.safetensors", "is an embeddings file: expected pictures"),
        ("x.tar.gz", "is an archive: unpack it"),
        ("x.json", "is a .json file: expected a folder"),
    ],
)
def test_sources_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "x.safetensors", "x.tar.gz", "x.json")
    with pytest.raises(ProofError, match=message):
        open_dataset(source)


# --- tables ---


def table(folder: Path, text: str, name: str = "list.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_csv_with_a_split(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "path,label,split\n"
        "a/1.jpg,moka_pot,train\n"
        f"{tmp_path}/b/2.jpg,cup,Training\n"
        '"with, comma.jpg",cup,TEST\n'
        "\n"
        "c.jpg,cup,val\n",
    )
    data = open_dataset(str(path))
    assert data.name == "list"
    assert data.class_names == ("cup", "moka pot")
    assert list(data.train.pictures) == [str(tmp_path / "a/1.jpg"), str(tmp_path / "b/2.jpg")]
    assert list(data.test.pictures) == [str(tmp_path / "with, comma.jpg")]
    assert data.metadata["unused"] == "1 pictures for validation"


def test_validation_rows_are_for_testing_where_there_are_no_others(tmp_path: Path) -> None:
    path = table(tmp_path, "path,label,split\n1.jpg,cup,train\n2.jpg,cup,validation\n")
    assert len(open_dataset(str(path)).test) == 1


@pytest.mark.parametrize("column", ["image", "file", "filename", "PATH", " file_name "])
@pytest.mark.parametrize(("name", "comma"), [("x.csv", ","), ("x.csv", ";"), ("x.tsv", "\t")])
def test_spellings_of_tables(tmp_path: Path, column: str, name: str, comma: str) -> None:
    rows = [["id", column, "Class"], *([str(n), f"{n}.jpg", "cup"] for n in range(30))]
    path = table(tmp_path, "\ufeff" + "\r\n".join(comma.join(row) for row in rows), name)
    data = open_dataset(str(path))
    assert len(data.train) + len(data.test) == 30
    assert len(data.test) > 0


def test_a_table_that_is_moved_or_grows_keeps_its_split(tmp_path: Path) -> None:
    lines = [f"{number}.jpg,cup" for number in range(60)]
    tests = []
    for place, some in (("one", lines[:40]), ("two", lines)):
        (tmp_path / place).mkdir()
        data = open_dataset(str(table(tmp_path / place, "\n".join(["path,label", *some]))))
        tests.append({Path(str(picture)).name for picture in data.test.pictures})
    assert tests[0] <= tests[1]
    assert len(tests[0]) > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column for the path: its first line is ''"),
        ("a/1.jpg,cup\n", "no column for the path: its first line is 'a/1.jpg,cup'; expected"),
        ("path,name\n", "no column for the label"),
        ("path,label\n", "no picture in it"),
        ("image,file,label\n", "image and file could both be the path: call one"),
        ("path,label,label\n", "could both be the label"),
        ("path,label\n1.jpg\n", "line 2: 1 values, but the first line names 2"),
        ("path,label\n1.jpg,cup\n\n2.jpg, \n", "line 4: the label is empty"),
        ("file,label\n,cup\n", "line 2: the file is empty"),
        ("path,label,split\n1.jpg,cup,tain\n", "line 2: split 'tain': expected train, test or val"),
        ("path,label,split\n1.jpg,cup,test\n", "no picture is for training"),
        ("path,label\n1.jpg,cup\n1.jpg,mug\n", "'cup' .line 2. and 'mug' .line 3.: expected one"),
        ("path,label,split\n1.jpg,a,train\n./1.jpg,a,test\n", "'train' .line 2. and 'test'"),
        ("path,label,split\n1.jpg,a,train\n2.jpg,b,test\n", "'b' .1 for testing."),
        ('path,label\n"1.jpg,cup\n', "line 2: unexpected end of data"),
    ],
)
def test_tables_that_are_not_right_say_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ProofError, match=message):
        open_dataset(str(table(tmp_path, text)))


def test_a_table_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("path,label\n1.jpg,caf\u00e9\n".encode("latin-1"))
    with pytest.raises(ProofError, match="not text in UTF-8"):
        open_dataset(str(tmp_path / "x.csv"))


def parquet(path: Path, columns: dict[str, Any], rows_a_group: int = 7, **schema: Any) -> Path:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    content = pa.table(columns)
    if schema:
        content = content.replace_schema_metadata(schema)
    pq.write_table(content, path, row_group_size=rows_a_group)
    return path


def test_parquet_with_paths(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "x.parquet",
        {"path": ["1.jpg", "a/2.jpg"], "label": ["cup", "moka_pot"], "split": ["train", "train"]},
    )
    data = open_dataset(str(path))
    assert data.class_names == ("cup", "moka pot")
    assert list(data.train.pictures) == [str(tmp_path / "1.jpg"), str(tmp_path / "a/2.jpg")]


def test_parquet_with_pictures_inside_reads_them_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [png((number, 0, 0)) for number in range(20)]
    images = [{"bytes": data, "path": None} for data in contents]
    images[3] = {"bytes": None, "path": "3.jpg"}
    features = {"info": {"features": {"label": {"names": ["moka_pot", "cup"]}}}}
    path = parquet(
        tmp_path / "x.parquet",
        {"image": images, "label": [n % 2 for n in range(20)], "split": ["train"] * 20},
        huggingface=json.dumps(features),
    )
    data = open_dataset(str(path))
    assert data.class_names == ("cup", "moka pot")
    assert isinstance(data.train.pictures, Lazy)
    assert data.train.pictures[0] == contents[0]
    assert data.train.pictures[3] == str(tmp_path / "3.jpg")
    assert data.train.pictures[-1] == contents[19]
    assert data.train.pictures[7:10] == contents[7:10]
    assert data.train.labels[:2] == ["moka pot", "cup"]


def test_pictures_inside_a_file_are_split_by_their_content(tmp_path: Path) -> None:
    contents = [png((number, 9, 0)) for number in range(60)]
    tests = []
    for name, some in (("one", contents[:40]), ("two", contents[::-1])):
        columns = {"image": some, "label": ["cup"] * len(some)}
        data = open_dataset(str(parquet(tmp_path / f"{name}.parquet", columns)))
        assert len(data.train) + len(data.test) == len(some)
        tests.append(set(data.test.pictures))
    assert tests[0] <= tests[1]
    assert len(tests[0]) > 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1]}, "no column for the path"),
        ({"path": ["1.jpg"], "label": [3]}, "row 0: the label is 3: expected the name of a class"),
        ({"path": ["1.jpg", None], "label": ["a", "a"]}, "row 1: the path is None"),
        ({"path": ["1.jpg"], "label": ["a"], "split": ["x"]}, "row 0: split 'x'"),
        ({"path": ["1.jpg"] * 2, "label": ["a", "b"]}, "'a' .row 0. and 'b' .row 1."),
    ],
)
def test_parquet_that_is_not_right(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ProofError, match=message):
        open_dataset(str(parquet(tmp_path / "x.parquet", columns)))


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.parquet").write_text("path,label")
    with pytest.raises(ProofError, match="cannot be read as a Parquet file"):
        open_dataset(str(tmp_path / "x.parquet"))


# --- Hugging Face ---


@pytest.fixture
def hf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    return datasets


def hf_table(hf: Any, count: int, label: Any = None, **more: Any) -> Any:
    """Rows of pictures of alternating classes."""
    label = label or hf.ClassLabel(names=["moka_pot", "cup"])
    values = [n % 2 for n in range(count)]
    if not isinstance(label, hf.ClassLabel):
        values = [("moka_pot", "cup")[value] for value in values]
    images = [{"bytes": png((number, 0, 7)), "path": None} for number in range(count)]
    features = {
        "image": hf.Image(),
        "label": label,
        **{name: kind for name, (kind, _) in more.items()},
    }
    columns = {"image": images, "label": values, **{name: v for name, (_, v) in more.items()}}
    return hf.Dataset.from_dict(columns, features=hf.Features(features))


def test_a_hugging_face_folder_is_read_as_bytes_on_demand(hf: Any, tmp_path: Path) -> None:
    splits = {"train": hf_table(hf, 6), "test": hf_table(hf, 4), "validation": hf_table(hf, 2)}
    hf.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    data = open_dataset(f"hf:{tmp_path / 'saved'}")
    assert data.name == "saved"
    assert data.class_names == ("moka pot", "cup")  # the order of the data set
    assert (len(data.train), len(data.test)) == (6, 4)
    assert isinstance(data.train.pictures, Lazy)
    assert data.train.pictures[5] == png((5, 0, 7))
    assert data.test.labels == ["moka pot", "cup"] * 2
    other = open_dataset(f"hf:{tmp_path / 'saved'}#test=validation")
    assert len(other.test) == 2


def test_hugging_face_without_a_test_split_is_cut_by_content(hf: Any, tmp_path: Path) -> None:
    whole = hf_table(hf, 60)
    whole.save_to_disk(tmp_path / "whole")
    whole.select(range(39, -1, -1)).save_to_disk(tmp_path / "part")  # with an index of rows
    data, part = (open_dataset(f"hf:{tmp_path / name}") for name in ("whole", "part"))
    assert len(data.train) + len(data.test) == 60
    assert len(part.test) > 0
    assert set(part.test.pictures) <= set(data.test.pictures)


def test_a_hugging_face_folder_of_files(hf: Any, tmp_path: Path) -> None:
    repository = tmp_path / "flowers"
    (repository / "data").mkdir(parents=True)
    for split in ("train", "test"):
        hf_table(hf, 4).to_parquet(repository / "data" / f"{split}-00000-of-00001.parquet")
    data = open_dataset(f"hf:{repository}")
    assert (len(data.train), len(data.test)) == (4, 4)
    assert data.train.pictures[0] == png((0, 0, 7))
    folders = tmp_path / "photos"
    for name in ("train/cup", "train/mug", "test/cup"):
        (folders / name).mkdir(parents=True)
        (folders / name / "1.png").write_bytes(png())
    photos = open_dataset(f"hf:{folders}")
    assert photos.class_names == ("cup", "mug")
    assert Path(str(photos.test.pictures[0])) == folders / "test/cup/1.png"


def test_hugging_face_columns_are_named_where_there_are_several(hf: Any, tmp_path: Path) -> None:
    coarse = hf.ClassLabel(names=["thing"])
    hf_table(hf, 4, coarse=(coarse, [0] * 4), note=(hf.Value("string"), ["x"] * 4)).save_to_disk(
        tmp_path / "two"
    )
    source = f"hf:{tmp_path / 'two'}"
    with pytest.raises(
        ProofError, match=r"2 columns could be the label: possible are label, coars"
    ):
        open_dataset(source)
    with pytest.raises(ProofError, match="#label=label"):
        open_dataset(source)
    assert open_dataset(f"{source}#label=coarse").class_names == ("thing",)
    assert open_dataset(f"{source}#image=image,label=note").class_names == ("x",)
    for wrong, message in (
        ("#label=image", "'image' is no column of class names"),
        ("#image=label,label=label", "'label' is no column of pictures"),
        ("#colour=red", "'colour=red' behind the #: expected some of image=COLUMN"),
        ("#label=coarse,test=validation", "no split 'validation': it has train"),
    ):
        with pytest.raises(ProofError, match=message):
            open_dataset(source + wrong)


def test_hugging_face_labels_of_text_are_sorted(hf: Any, tmp_path: Path) -> None:
    hf_table(hf, 4, hf.Value("string")).save_to_disk(tmp_path / "texts")
    assert open_dataset(f"hf:{tmp_path / 'texts'}").class_names == ("cup", "moka pot")


def test_hugging_face_that_cannot_be_used(hf: Any, tmp_path: Path) -> None:
    hf.Dataset.from_dict({"text": ["a"], "label": ["b"]}).save_to_disk(tmp_path / "texts")
    with pytest.raises(
        ProofError, match=r"0 columns of pictures: none is possible .all columns: t"
    ):
        open_dataset(f"hf:{tmp_path / 'texts'}")
    both = {"a": hf_table(hf, 2), "b": hf_table(hf, 2)}
    hf.DatasetDict(both).save_to_disk(tmp_path / "odd")
    with pytest.raises(ProofError, match=r"splits a, b: say which .*#train=a,test=b"):
        open_dataset(f"hf:{tmp_path / 'odd'}")
    assert len(open_dataset(f"hf:{tmp_path / 'odd'}#train=a,test=b").test) == 2
    unlabelled = {"train": hf_table(hf, 2), "test": hf_table(hf, 2)}
    unlabelled["test"] = unlabelled["test"].map(lambda row: {"label": -1})
    hf.DatasetDict(unlabelled).save_to_disk(tmp_path / "secret")
    with pytest.raises(ProofError, match="split 'test', row 0: the label is -1"):
        open_dataset(f"hf:{tmp_path / 'secret'}")
    with pytest.raises(ProofError, match="hf:no-such-org/nothing cannot be loaded: "):
        open_dataset("hf:no-such-org/nothing", download=False)
    with pytest.raises(ProofError, match="expected hf:NAME"):
        open_dataset("hf:")


# --- the known data sets ---


def test_the_data_sets_of_the_paper_are_known() -> None:
    assert set(known_names()) >= set(PAPER)


@pytest.mark.parametrize("name", PAPER)
def test_what_is_known_of_each(name: str) -> None:
    what = known(name)
    for text in (what.title, what.about, what.homepage, what.licence, what.citation, what.split):
        assert text
    assert what.layout
    assert what.homepage.startswith("https://")
    assert what.use > 0
    assert what.files
    for file in what.files:
        assert file.url.startswith("http")
        assert len(file.md5) in (0, 32)
    assert all(template.count("{}") == 1 for template in what.templates)
    for protocol in what.protocols:
        assert sum(parse_protocol(protocol, what.use)[0]) == what.use
    if what.classes:
        assert len(what.used) == what.use <= len(what.classes)
        for official, readable in what.classes.items():
            assert what.find(official) == what.find(readable) == official
            assert what.find(readable.upper().replace(" ", "-")) == official
            assert what.find(official.replace("/", "_")) == official
    assert what.find("no such class") is None


FolderName = Callable[[Known, str], str]


def official_names(what: Known, official: str) -> str:
    return official.replace("/", "_")


def readable_names(what: Known, official: str) -> str:
    return what.classes[official].replace("/", "-")


@pytest.mark.parametrize("naming", [official_names, readable_names])
@pytest.mark.parametrize("name", [name for name in PAPER if name != "tv100"])
def test_plain_folders_of_every_known_data_set(
    tmp_path: Path, name: str, naming: FolderName
) -> None:
    what = known(name)
    for official in what.used:
        touch(
            tmp_path / "outer",
            *(f"{part}/{naming(what, official)}/1.jpg" for part in ("train", "test")),
        )
    data = open_dataset(f"{name}:{tmp_path}")
    assert data.name == name
    assert data.class_names == tuple(what.classes[official] for official in what.used)
    assert data.templates == what.templates
    assert (len(data.train), len(data.test)) == (what.use, what.use)
    assert data.metadata["layout"] == "class folders in train/ and test/"


def few(monkeypatch: pytest.MonkeyPatch, name: str, *classes: str) -> Known:
    """A known data set with a few of its classes only, so that it can be made on the spot."""
    what = known(name)
    small = replace(
        what, use=len(classes), classes={label: what.classes[label] for label in classes}
    )
    monkeypatch.setattr("proof.datasets.sources.known", lambda name: small)
    return small


def test_cub200_by_its_official_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "cub200", "001.Black_footed_Albatross", "009.Brewer_Blackbird")
    root = tmp_path / "CUB_200_2011"
    pictures = [
        "001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg",
        "001.Black_footed_Albatross/Black_Footed_Albatross_0009_34.jpg",
        "009.Brewer_Blackbird/Brewer_Blackbird_0117_2278.jpg",
    ]
    touch(root / "images", *pictures)
    table(root, "".join(f"{n} {path}\n" for n, path in enumerate(pictures, 1)), "images.txt")
    table(root, "1 0\n2 1\n3 1\n", "train_test_split.txt")
    table(root, "1 001.Black_footed_Albatross\n2 009.Brewer_Blackbird\n", "classes.txt")
    for folder in (tmp_path, root):
        data = open_dataset(f"cub200:{folder}#split=official")
        assert shown(data.train) == {
            (pictures[1], "black-footed albatross"),
            (pictures[2], "Brewer's blackbird"),
        }
        assert shown(data.test) == {(pictures[0], "black-footed albatross")}
        assert all(Path(str(path)).is_file() for path in data.train.pictures)
    by_chance = open_dataset(f"cub200:{root}#split=fraction", test_fraction=0)
    assert (len(by_chance.train), len(by_chance.test)) == (3, 0)
    table(root, "1 0\n2 1\n", "train_test_split.txt")
    with pytest.raises(ProofError, match="picture 3: expected a line with 0 or 1"):
        open_dataset(f"cub200:{root}")


def test_a_default_split_may_be_by_chance_but_folders_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = few(monkeypatch, "cub200", "009.Brewer_Blackbird")
    chance = replace(what, default_split="fraction")
    monkeypatch.setattr("proof.datasets.sources.known", lambda name: chance)
    root = tmp_path / "lists"
    paths = [f"009.Brewer_Blackbird/{number}.jpg" for number in range(30)]
    touch(root / "images", *paths)
    table(root, "".join(f"{n} {path}\n" for n, path in enumerate(paths)), "images.txt")
    table(root, "".join(f"{n} 1\n" for n in range(30)), "train_test_split.txt")
    assert 0 < len(open_dataset(f"cub200:{root}").test) < 15
    assert len(open_dataset(f"cub200:{root}#split=official").test) == 0
    folders = touch(tmp_path / "folders", *(f"test/{path}" for path in paths), f"train/{paths[0]}")
    assert len(open_dataset(f"cub200:{folders}").test) == 30


def test_aircraft_by_its_variant_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "aircraft", "707-320", "737-200")
    data_folder = touch(tmp_path / "fgvc-aircraft-2013b" / "data", "images/0034309.jpg")
    table(data_folder, "0034309 707-320\n1025794 737-200\n", "images_variant_trainval.txt")
    table(data_folder, "0062765 737-200\n", "images_variant_test.txt")
    data = open_dataset(f"aircraft:{tmp_path}")
    assert data.class_names == ("Boeing 707-320", "Boeing 737-200")
    assert str(data.train.pictures[0]) == str(data_folder / "images/0034309.jpg")
    assert shown(data.test) == {("images/0062765.jpg", "Boeing 737-200")}


def test_food101_by_its_json_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "food101", "apple_pie", "churros")
    meta = tmp_path / "food-101" / "meta"
    meta.mkdir(parents=True)
    lists = {"churros": ["churros/1", "churros/2"], "apple_pie": ["apple_pie/7"]}
    table(meta, json.dumps(lists), "train.json")
    table(meta, json.dumps({"churros": ["churros/3"], "apple_pie": []}), "test.json")
    data = open_dataset(f"food101:{tmp_path}")
    assert data.class_names == ("apple pie", "churros")
    assert (len(data.train), len(data.test)) == (3, 1)
    assert data.test.pictures == [str(tmp_path / "food-101" / "images" / "churros" / "3.jpg")]
    table(meta, "[]", "test.json")
    with pytest.raises(ProofError, match=r"test.json' is not a list of pictures by class"):
        open_dataset(f"food101:{tmp_path}")


def test_cars_by_their_matlab_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    names = ["AM General Hummer SUV 2000", "Ram C/V Cargo Van Minivan 2012"]
    few(monkeypatch, "cars", *names)
    root = tmp_path / "stanford_cars"
    (root / "devkit").mkdir(parents=True)
    scipy_io.savemat(
        root / "devkit" / "cars_meta.mat", {"class_names": np.array(names, dtype=object)}
    )

    def annotations(path: Path, rows: list[tuple[int, str]]) -> None:
        kind = [("bbox_x1", object), ("class", object), ("fname", object)]
        values = np.array([(39, number, name) for number, name in rows], dtype=kind)
        scipy_io.savemat(path, {"annotations": values})

    annotations(root / "devkit" / "cars_train_annos.mat", [(1, "00001.jpg"), (2, "00002.jpg")])
    with pytest.raises(ProofError, match="labels of the pictures in cars_test/ are in it"):
        open_dataset(f"cars:{tmp_path}")
    annotations(root / "cars_test_annos_withlabels.mat", [(2, "00001.jpg"), (1, "00002.jpg")])
    data = open_dataset(f"cars:{tmp_path}")
    assert data.class_names == ("2000 AM General Hummer SUV", known("cars").classes[names[1]])
    assert data.train.pictures[0] == str(root / "cars_train" / "00001.jpg")
    assert data.test.labels == [data.class_names[1], data.class_names[0]]
    annotations(root / "cars_test_annos_withlabels.mat", [(3, "00001.jpg"), (1, "00002.jpg")])
    with pytest.raises(ProofError, match="class 3: expected 1 to 2"):
        open_dataset(f"cars:{tmp_path}")


def test_cifar100_as_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torchvision = pytest.importorskip("torchvision.datasets")
    few(monkeypatch, "cifar100", "apple", "aquarium_fish")
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    rng = np.random.default_rng(0)
    sums = {}
    for name, count in (("train", 4), ("test", 2)):
        rows = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        content = pickle.dumps({"data": rows, "fine_labels": [n % 2 for n in range(count)]})
        (folder / name).write_bytes(content)
        sums[name] = hashlib.md5(content).hexdigest()
    content = pickle.dumps({"fine_label_names": ["apple", "aquarium_fish"]})
    (folder / "meta").write_bytes(content)
    with pytest.raises(ProofError, match=r"corrupted.*remove the folder to download it anew"):
        open_dataset(f"cifar100:{tmp_path}")  # a pickle is opened only if its checksum is known
    monkeypatch.setattr(torchvision.CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(torchvision.CIFAR100, "test_list", [["test", sums["test"]]])
    meta = {"filename": "meta", "key": "fine_label_names", "md5": hashlib.md5(content).hexdigest()}
    monkeypatch.setattr(torchvision.CIFAR100, "meta", meta)
    for place in (tmp_path, folder):
        data = open_dataset(f"cifar100:{place}")
        assert data.class_names == ("apple", "aquarium fish")
        assert data.train.labels == ["apple", "aquarium fish"] * 2
        picture = data.test.pictures[1]
        assert isinstance(picture, np.ndarray)
        assert (picture.shape, picture.dtype) == ((32, 32, 3), np.uint8)


def test_sun397_by_letters_and_nested_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, "sun397", "a/abbey", "a/apartment_building/outdoor")
    for official in ("a/abbey", "a/apartment_building/outdoor"):
        touch(tmp_path / "SUN397" / official, *(f"sun_{n}.jpg" for n in range(20)))
    touch(tmp_path / "SUN397", "ClassName.txt")
    data = open_dataset(f"sun397:{tmp_path}")
    assert data.class_names == ("abbey", "outdoor apartment building")
    assert Counter(data.train.labels) + Counter(data.test.labels) == {
        "abbey": 20,
        "outdoor apartment building": 20,
    }
    assert len(data.test) > 0
    assert data.metadata["layout"] == "SUN397, folders by letters"
    plain = touch(tmp_path / "plain", *many("abbey", 20), *many("apartment_building_outdoor", 20))
    assert open_dataset(f"sun397:{plain}").class_names == data.class_names


def test_all_of_sun397(tmp_path: Path) -> None:
    what = known("sun397")
    touch(tmp_path / "SUN397", *(f"{official}/sun_1.jpg" for official in what.classes))
    data = open_dataset(f"sun397:{tmp_path}")
    assert data.class_names == tuple(what.classes[official] for official in what.used)
    assert len(data.train) == 300


def test_ucf101_by_its_lists_or_by_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "ucf101", "ApplyEyeMakeup", "HandstandPushups")
    videos = [f"ApplyEyeMakeup/v_ApplyEyeMakeup_g{n:02}_c01" for n in range(1, 9)]
    videos += ["HandstandPushups/v_HandStandPushups_g01_c01"]
    touch(tmp_path, *(f"UCF-101/{video}.avi" for video in videos))
    with pytest.raises(ProofError, match="does not hold ucf101 in a layout that is known"):
        open_dataset(f"ucf101:{tmp_path}")
    frames = tmp_path / "UCF-101-midframes"
    for video in videos:  # folders are spelt as CoOp spells them
        touch(frames, f"{video}.jpg".replace("ApplyEyeMakeup/", "Apply_Eye_Makeup/"))
    touch(frames, "Apply_Eye_Makeup/v_ApplyEyeMakeup_g99_c01.jpg")
    assert open_dataset(f"ucf101:{tmp_path}").metadata["split"].startswith("0.2 of each class")
    lists = tmp_path / "ucfTrainTestlist"
    lists.mkdir()
    last = "HandstandPushups/v_HandstandPushups_g01_c01"
    table(lists, "".join(f"{v}.avi 1\n" for v in [*videos[1:8], last]), "trainlist01.txt")
    table(lists, f"{videos[0]}.avi\r\n", "testlist01.txt")
    data = open_dataset(f"ucf101:{tmp_path}")
    assert shown(data.test) == {
        ("Apply_Eye_Makeup/v_ApplyEyeMakeup_g01_c01.jpg", "apply eye makeup")
    }
    assert len(data.train) == 8
    assert data.ignored == 1  # in no list


def test_imagenet_r_by_word_net_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "imagenet-r", "n01443537", "n01484850")
    root = touch(
        tmp_path / "imagenet-r", "README.txt", *many("n01443537", 30), *many("n01484850", 30)
    )
    data = open_dataset(f"imagenet-r:{tmp_path}")
    assert data.class_names == ("goldfish", "great white shark")
    readable = touch(tmp_path / "other", *many("goldfish", 30), *many("great_white_shark", 30))
    other = open_dataset(f"imagenet-r:{readable}")
    names = [{Path(str(p)).name for p in d.test.pictures} for d in (data, other)]
    assert names[0] == names[1]  # the split goes by the class, not by the folder
    assert root.is_dir()


def test_tv100_takes_its_classes_from_the_folders(tmp_path: Path) -> None:
    for part in ("train", "test"):
        touch(tmp_path / "TV100" / part, "The_Last_of_Us_TV_Series/1.jpg", "Andor_TV_Series/1.jpg")
    data = open_dataset(f"tv100:{tmp_path}")
    assert data.class_names == ("Andor", "The Last of Us")
    assert data.templates[0].format(data.class_names[0]) == "a photo of the TV series Andor."


def test_objectnet_without_its_red_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "objectnet", "air_freshener")
    folder = tmp_path / "objectnet-1.0" / "images" / "air_freshener"
    folder.mkdir(parents=True)
    inside = np.random.default_rng(1).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    framed = np.full((9, 13, 3), (255, 0, 0), np.uint8)
    framed[2:-2, 2:-2] = inside
    Image.fromarray(framed).convert("RGBA").save(folder / "a.png")
    Image.fromarray(inside).save(folder / "b.png")
    (folder / "c.png").write_bytes(b"broken")
    Image.new("RGB", (3, 3), (255, 0, 0)).save(folder / "d.png")
    data = open_dataset(f"objectnet:{tmp_path}", test_fraction=0)
    assert data.class_names == ("air freshener",)
    first, *others = (data.train.pictures[index] for index in range(4))
    assert np.array_equal(np.asarray(first), inside)
    assert others == [str(folder / f"{name}.png") for name in "bcd"]
    assert without_border(str(folder / "nothing.png")) == str(folder / "nothing.png")


def test_what_is_missing_or_strange_in_a_known_data_set_is_named(tmp_path: Path) -> None:
    used = known("cub200").used
    for official in used[:-1]:
        touch(tmp_path, f"train/{official}/1.jpg", f"test/{official}/1.jpg")
    with pytest.raises(ProofError, match="1 of 200 classes of cub200 are not there, first 'common"):
        open_dataset(f"cub200:{tmp_path}")
    chosen = class_file(tmp_path, "Laysan albatross", "001.Black_footed_Albatross")
    data = open_dataset(f"cub200:{tmp_path}", classes=chosen)
    assert data.class_names == ("Laysan albatross", "black-footed albatross")
    with pytest.raises(ProofError, match="no class 'dodo'"):
        open_dataset(f"cub200:{tmp_path}", classes=class_file(tmp_path, "dodo"))
    touch(tmp_path, "train/dodo/1.jpg", "train/moa/1.jpg")
    with pytest.raises(ProofError, match="'dodo' is no class of cub200, nor are 1 others"):
        open_dataset(f"cub200:{tmp_path}")


def test_an_official_split_is_not_replaced_by_chance_in_silence(tmp_path: Path) -> None:
    for official in known("cub200").used:
        touch(tmp_path / "images", *many(official, 3))
    with pytest.raises(
        ProofError, match=r"without the lists of its official split.*#split=fraction"
    ):
        open_dataset(f"cub200:{tmp_path}#split=official")
    assert len(open_dataset(f"cub200:{tmp_path}").class_names) == 200  # as the paper splits it


def test_a_data_set_that_is_not_there_says_where_to_get_it(home: Path) -> None:
    with pytest.raises(ProofError) as raised:
        open_dataset("cub200")
    for part in ("CUB_200_2011.tgz", "https://data.caltech.edu", str(home / "cub200"), "data show"):
        assert part in str(raised.value)
    touch(home / "cub200", "CUB_200_2011.tgz", "papers/x.pdf")
    with pytest.raises(ProofError, match=r"it has papers/; CUB_200_2011.tgz lies there: unpack it"):
        open_dataset("cub200")
    with pytest.raises(ProofError, match="food101 is not on this machine"):
        open_dataset("food101", download=False)


def archive(path: Path, files: dict[str, bytes]) -> str:
    """A .tar.gz, and its checksum."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a server that gives what lies in `tmp_path`."""
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def test_downloads_are_whole_or_not_there(
    tmp_path: Path,
    served: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torchvision = pytest.importorskip("torchvision.datasets")
    what = few(monkeypatch, "food101", "churros")
    path = tmp_path / "food-101.tar.gz"
    lists = json.dumps({"churros": ["churros/1"]}).encode()
    md5 = archive(
        path,
        {
            "food-101/meta/train.json": lists,
            "food-101/meta/test.json": lists,
            "food-101/images/churros/1.jpg": png(),
        },
    )
    monkeypatch.setattr("proof.datasets.known._ROOM", 0)  # what is served here is small
    monkeypatch.setattr(torchvision.Food101, "_URL", f"{served}/food-101.tar.gz")
    monkeypatch.setattr(torchvision.Food101, "_MD5", "0" * 32)
    with pytest.raises(ProofError, match=r"food101 could not be downloaded .*Get food-101.tar.gz"):
        open_dataset("food101")
    monkeypatch.setattr(torchvision.Food101, "_MD5", md5)
    with pytest.raises(ProofError, match="another checksum than known"):
        open_dataset("food101")
    assert list(home.iterdir()) == []
    right = replace(what, files=(replace(what.files[0], md5=md5),))
    monkeypatch.setattr("proof.datasets.sources.known", lambda name: right)
    (home / "food101").mkdir()
    data = open_dataset("food101")
    assert Path(str(data.train.pictures[0])).read_bytes() == png()
    assert [entry.name for entry in home.iterdir()] == ["food101"]
    assert "downloading Food-101" in capsys.readouterr().err
    path.unlink()
    assert open_dataset("food101").class_names == ("churros",)  # it is there now
    monkeypatch.setattr("proof.datasets.known._ROOM", 1e12)
    with pytest.raises(ProofError, match=r"needs .* GB for its archive .* set PROOF_DATA"):
        fetch(right, tmp_path / "elsewhere")


def test_checksums(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    seen: list[int] = []
    assert check_md5(tmp_path / "x", hashlib.md5(b"abc").hexdigest(), seen.append)
    assert seen == [3]
    assert not check_md5(tmp_path / "x", "0" * 32)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("pyarrow", "x.parquet"),
        ("datasets", "hf:flowers"),
        ("torchvision", "food101"),
        ("torchvision.datasets", "cifar100:cifar"),
        ("scipy.io", "cars:cars"),
    ],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "x.parquet", "cars/stanford_cars/devkit/cars_meta.mat")
    touch(tmp_path / "cifar" / "cifar-100-python", "train", "test", "meta")
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    name = package.partition(".")[0]
    with pytest.raises(
        ProofError, match=rf"package {name} \(.+\): pip install 'proof-vlm\[data\]'$"
    ):
        open_dataset(source)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, proof.datasets, proof.cli.data; "
        "heavy = {'torch', 'torchvision', 'datasets', 'pyarrow', 'scipy', 'numpy', 'PIL'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- data sets of one's own ---


def test_a_toml_file_in_the_folder_of_data_sets_adds_one(home: Path) -> None:
    (home / "kitchen.toml").write_text(
        'title = "My kitchen"\ntemplates = ["a {} in a kitchen."]\n'
        '[classes]\n"k01" = "moka pot"\n"k02" = "cup"\n'
    )
    touch(home / "kitchen", *many("k02", 20), *many("k01", 20))
    (home / "plain.toml").write_text('title = "Without a list of classes"\n')
    nested = [f"a_b/{number}/1.jpg" for number in range(5)]
    touch(home / "plain", *nested, *many("c", 2))
    assert open_dataset("plain").class_names == ("a b", "c")
    assert "kitchen" in known_names()
    data = open_dataset("kitchen")
    assert data.class_names == ("moka pot", "cup")
    assert data.templates == ("a {} in a kitchen.",)
    assert len(data.test) > 0
    (home / "cub200.toml").write_text('title = "Mine"\n')
    with pytest.raises(ProofError, match="which the package knows already: rename the file"):
        known("cub200")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "not a TOML file"),
        ("about = 'x'", "no title"),
        ("title = 3", "'title' is 3: expected a text"),
        ("title = 'x'\nuse = -1", "'use' is -1: expected a whole number"),
        ("title = 'x'\nuse = true", "'use' is True: expected a whole number"),
        ("title = 'x'\ncolour = 1", "unknown key 'colour'"),
        ("title = 'x'\ntemplates = [1]", "'templates' is not a list of texts"),
        ("title = 'x'\nuse = 3\n[classes]\na = 'b'", "use = 3, but it has 1 classes"),
        ("title = 'x'\n[classes]\na = 'b'\nc = 'b'", "two classes are called 'b'"),
        ("title = 'x'\n[classes]\na = 1", "a name that is no text"),
        ("title = 'x'\n[[files]]\nlink = 'y'", "expected name, url, bytes and md5"),
        ("title = 'x'\n[[files]]\nname = 1", "expected name, url, bytes and md5"),
        ("title = 'x'\ndefault_split = 'y'", "expected 'official' or 'fraction'"),
    ],
)
def test_toml_files_that_are_not_right(tmp_path: Path, text: str, message: str) -> None:
    path = table(tmp_path, text, "x.toml")
    with pytest.raises(ProofError, match=message):
        read_known(path, "x")


def test_layouts_are_found_a_little_below_and_no_deeper(tmp_path: Path) -> None:
    what = replace(known("imagenet-r"), classes={"n01443537": "goldfish"}, use=1)
    touch(tmp_path, *many("a/b/n01443537", 2))
    found = find_layout(what, tmp_path)
    assert found is not None
    assert found.base == tmp_path / "a" / "b"
    assert find_layout(what, tmp_path / "nowhere") is None
    touch(tmp_path / "deep", *many("a/b/c/d/n01443537", 2))
    assert find_layout(what, tmp_path / "deep") is None
