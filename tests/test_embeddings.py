from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from proof import Embeddings, ProofError
from proof.embeddings import Split, builtin_data


def test_a_file_gives_back_what_was_saved(data: Embeddings, tmp_path: Path) -> None:
    data.save(tmp_path / "made.safetensors")
    again = Embeddings.load(tmp_path / "made.safetensors")
    assert again.class_names == data.class_names
    assert again.metadata == data.metadata
    assert again.name == "made"
    assert torch.equal(again.train.images, data.train.images)
    assert torch.equal(again.test.codes, data.test.codes)
    assert again.fingerprint == data.fingerprint


def test_a_file_can_be_read_by_others_as_the_umask_says(data: Embeddings, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    data.save(tmp_path / "made.safetensors")
    assert (tmp_path / "made.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_builtin_data_are_small_and_whole() -> None:
    assert builtin_data() == ["cifar100-small"]
    data = Embeddings.load("cifar100-small")
    assert torch.bincount(data.train.codes).tolist() == [60] * 100
    assert torch.bincount(data.test.codes).tolist() == [30] * 100
    path = Path(__file__).parents[1] / "src/proof/data/cifar100-small.safetensors"
    assert path.stat().st_size < 10_000_000


def _set(tensors: dict[str, torch.Tensor], name: str, row: int, value: float) -> None:
    tensors[name] = tensors[name].clone()
    tensors[name][row] = value


DAMAGE = {
    "no tensor 'text'": lambda t, m: t.pop("text"),
    "no tensor 'test.label'": lambda t, m: t.pop("test.label"),
    "'train.image' has NaN or infinite numbers in 1 of its 240 rows, first in row 5": (
        lambda t, m: _set(t, "train.image", 5, float("nan"))
    ),
    "'text' has NaN or infinite": lambda t, m: _set(t, "text", 2, float("inf")),
    "'test.image' is all zeros in 1 of its 96 rows, first in row 9": (
        lambda t, m: _set(t, "test.image", 9, 0.0)
    ),
    "'train.label' has 12 in row 7: expected 0 to 11": lambda t, m: _set(t, "train.label", 7, 12),
    "'test.label' has -1 in row 0": lambda t, m: _set(t, "test.label", 0, -1),
    r"'test.image' has shape \(96, 8\): expected \(n, 16\)": (
        lambda t, m: t.update({"test.image": t["test.image"][:, :8].contiguous()})
    ),
    r"'train.label' is torch.int16 of shape \(239,\): expected one whole number for each of": (
        lambda t, m: t.update({"train.label": t["train.label"][1:].clone()})
    ),
    "'train.label' is torch.float32": lambda t, m: t.update(
        {"train.label": t["train.label"].float()}
    ),
    "'train.image' is torch.int32: expected floating point": (
        lambda t, m: t.update({"train.image": t["train.image"].int()})
    ),
    r"'text' has shape \(11, 16\): expected one row for each of the 12 class names": (
        lambda t, m: t.update({"text": t["text"][1:].clone()})
    ),
    "'test.image' is torch.float8_e4m3fn: expected floating point": (
        lambda t, m: t.update({"test.image": t["test.image"].to(torch.float8_e4m3fn)})
    ),
    "the list of class names is empty": lambda t, m: m.update(class_names="[]"),
    "has no 'class_names'": lambda t, m: m.pop("class_names"),
    "is not JSON": lambda t, m: m.update(class_names="[oops"),
    "is not a list of strings": lambda t, m: m.update(class_names="[1, 2]"),
    "class name 'class 1' stands 2 times among the 12 names": (
        lambda t, m: m.update(
            class_names=json.dumps(["class 1", "class 1", *(f"class {i}" for i in range(2, 12))])
        )
    ),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damaged_files_are_refused_saying_what_and_where(
    message: str, data: Embeddings, tmp_path: Path
) -> None:
    path = tmp_path / "made.safetensors"
    data.save(path)
    tensors = load_file(path)
    metadata = {"class_names": json.dumps(data.class_names)}
    DAMAGE[message](tensors, metadata)
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ProofError, match=message) as caught:
        Embeddings.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cut=st.floats(0, 0.999), flip=st.integers(0, 3000), value=st.integers(0, 255))
def test_truncated_and_flipped_files_never_end_in_another_error(
    data: Embeddings, tmp_path: Path, cut: float, flip: int, value: int
) -> None:
    path = tmp_path / "made.safetensors"
    data.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(cut * len(whole))])
    with pytest.raises(ProofError, match="cannot be read as a safetensors file"):
        Embeddings.load(path)
    path.write_bytes(whole[:flip] + bytes([value]) + whole[flip + 1 :])
    with contextlib.suppress(ProofError):  # or the byte did no harm
        Embeddings.load(path)


def test_labels_of_any_whole_number_type_are_read(data: Embeddings, tmp_path: Path) -> None:
    path = tmp_path / "made.safetensors"
    for kind in (torch.uint8, torch.uint16, torch.int32, torch.int64):
        data.save(path)
        tensors = {**load_file(path), "train.label": data.train.codes.to(kind)}
        save_file(tensors, path, metadata={"class_names": json.dumps(data.class_names)})
        assert torch.equal(Embeddings.load(path).train.codes, data.train.codes)


def test_names_that_stand_twice_are_refused_in_memory_too(data: Embeddings) -> None:
    names = ("one", "one", *data.class_names[2:])
    train, test = (Split(s.images, s.codes, names) for s in (data.train, data.test))
    with pytest.raises(ProofError, match="class name 'one' stands 2 times among the 12 names"):
        Embeddings(train, test, data.texts)


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"no embeddings at 'nowhere'.*cifar100-small"):
        Embeddings.load("nowhere")
    with pytest.raises(ProofError, match="is a folder"):
        Embeddings.load(tmp_path)
