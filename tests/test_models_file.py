"""A model's file gives back what was written, or one line that says what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from conftest import REPOSITORY
from proof import Embeddings, ProofError
from proof.models import Model, read_header, read_manifest, read_model, write_model

MANIFEST = {
    "classes": ["moka pot", "☕️ кофеварка", "فنجان", "naïve\u2028\x00\n", "x" * 100_000],
    "counts": {"moka pot": 3, "ratio": 0.1, "none": None, "yes": True, "large": 2**70},
    "log": [[], {}, [{"step": []}]],
}
TENSORS = {
    "means": torch.arange(12.0).reshape(3, 4),
    "codes": torch.tensor([5, -1]),
    "wide": torch.tensor([1.5], dtype=torch.float64),
    "half": torch.tensor([[0.5]]).half(),
    "brain": torch.tensor([2.0, 3.0]).bfloat16(),
    "bytes": torch.tensor([0, 255, 7], dtype=torch.uint8),
    "small": torch.tensor([-3], dtype=torch.int8),
    "short": torch.tensor([-300], dtype=torch.int16),
    "int": torch.tensor([70_000], dtype=torch.int32),
    "mask": torch.tensor([True, False]),
    "one": torch.tensor(4.0),
    "none": torch.empty(0, 512),
    "../../x": torch.ones(1),
}


def circle() -> dict[str, Any]:
    around: dict[str, Any] = {}
    around["around"] = around
    return around


def deep(levels: int) -> dict[str, Any]:
    value: list[Any] = []
    for _ in range(levels - 2):
        value = [value]
    return {"log": value}


def same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
        for name, tensor in wanted.items()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kitchen.proof"


def refusal(read: Callable[[], object], path: Path) -> str:
    """The one line that reading ends with."""
    with pytest.raises(ProofError) as caught:
        read()
    message = str(caught.value)
    assert message.startswith(f"cannot read '{path}': ")
    assert message.isprintable()
    return message


def attempt(path: Path) -> Model | None:
    """The model, or None where reading it ends with one line."""
    try:
        return read_model(path)
    except ProofError as error:
        message = str(error)
    assert message.startswith(f"cannot read '{path}': ")
    assert message.isprintable()
    return None


def test_a_file_gives_back_what_was_written(path: Path) -> None:
    revision = write_model(path, MANIFEST, TENSORS)
    model = read_model(path)
    assert model.manifest == read_manifest(path) == MANIFEST
    assert list(model.manifest) == list(MANIFEST)
    assert same(model.tensors, TENSORS)
    assert model.revision == read_header(path).revision == revision
    write_model(path, deep(100), {})
    assert read_model(path)[:2] == (deep(100), {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    manifest=st.dictionaries(st.text(), json_values, max_size=5),
    shapes=st.dictionaries(
        st.text(max_size=20).map("x{}".format), st.lists(st.integers(0, 3), max_size=4), max_size=4
    ),
)
def test_any_json_and_any_shape_survive(
    manifest: dict[str, Any], shapes: dict[str, list[int]]
) -> None:
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kitchen.proof"
        write_model(path, manifest, tensors)
        model = read_model(path)
    assert model.manifest == manifest
    assert same(model.tensors, tensors)


def test_tensors_need_not_lie_in_one_piece_nor_apart(path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "whole": base, "turned": base.T, "some": base[1:3, ::2], "wide": base[:1].expand(5, 6),
        "learned": torch.ones(2, requires_grad=True), "same": base,
    }  # fmt: skip
    write_model(path, {}, tensors)
    found = read_model(path).tensors
    assert same(found, {name: tensor.detach() for name, tensor in tensors.items()})
    found["whole"] += 1  # its own memory, that may be written
    assert torch.equal(found["same"], base)


def test_plain_safetensors_reads_it(path: Path) -> None:
    write_model(path, MANIFEST, TENSORS)
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["manifest"]) == MANIFEST
        assert file.metadata()["format"] == "proof 1"
        assert same({name: file.get_tensor(name) for name in file.keys()}, TENSORS)


def test_every_tensor_is_where_its_type_may_be_in_memory(path: Path) -> None:
    write_model(path, {"n": "odd"}, TENSORS)
    start = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    for entry in read_header(path).entries:
        assert (start + entry.start) % TENSORS[entry.name].element_size() == 0


def test_the_manifest_is_read_without_torch(path: Path) -> None:
    write_model(path, {"classes": ["cup"]}, TENSORS)
    code = (
        "import sys; from proof.models import locked, read_manifest, steps\n"
        "with locked(sys.argv[1]): print(read_manifest(sys.argv[1]), steps(sys.argv[1]))\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "{'classes': ['cup']} []\n"), done.stderr


def test_a_file_of_the_first_version_is_read_for_ever() -> None:
    model = read_model(REPOSITORY / "tests" / "data" / "format-1.proof")
    assert model.manifest == {
        "classes": ["moka pot", "☕️", "فنجان"],
        "counts": [20, 3, 1],
        "learned": "2025-01-31T12:00:00Z",
        "temperature": 0.01,
    }
    assert model.revision == "0123456789abcdef"
    wanted = {
        "means": torch.arange(12.0).reshape(3, 4) / 8,
        "codes": torch.tensor([0, 0, 1, 2]),
        "exemplars": torch.arange(16).reshape(4, 4).half(),
        "seen": torch.tensor([True, False, True]),
    }
    assert same(model.tensors, wanted)


NOT_WRITTEN: dict[str, tuple[Any, dict[str, Any]]] = {
    r"'\{\"classes\":\[\"cup \\ud83d\"\]\}' is not Unicode text: it holds a lone surrogate": (
        {"classes": ["cup \ud83d"]}, {}
    ),
    "lone surrogate": ({"\ude00": 1}, {}),
    "is not Unicode text": ({}, {"mean\udc80": torch.ones(1)}),
    "Out of range float": ({"loss": float("nan")}, {}),
    "Out of range float values": ({"loss": [float("-inf")]}, {}),
    "Object of type set is not JSON serializable": ({"classes": {"cup"}}, {}),
    "Object of type bytes": ({"classes": b"cup"}, {}),
    "Circular reference": (circle(), {}),
    "nested too deep": (deep(101), {}),
    "it cannot be written as JSON: maximum recursion": (deep(100_000), {}),
    "is not a JSON object": (["cup"], {}),
    "a name twice": ({1: "a", "1": "b"}, {}),
    "its header has 16,.* bytes: at most 16,777,216 fit": ({"log": "x" * 2**24}, {}),
    "tensor 'z' is complex64: expected float64, int64": (
        {}, {"z": torch.ones(1, dtype=torch.complex64)}
    ),
    "tensor 'xxx.* cannot be": ({}, {"x" * 256: torch.ones(1)}),
    "tensor 'x' cannot be": ({}, {"x": torch.ones([1] * 9)}),
    "no tensor may have the name __metadata__": ({}, {"__metadata__": torch.ones(1)}),
    "it has 20,001 tensors": ({}, {str(n): torch.empty(0) for n in range(20_001)}),
}  # fmt: skip


@pytest.mark.parametrize("message", NOT_WRITTEN)
def test_what_could_not_be_read_back_is_not_written(message: str, path: Path) -> None:
    with pytest.raises(ProofError, match=f"cannot write '{path}': .*({message})"):
        write_model(path, *NOT_WRITTEN[message])
    assert list(path.parent.iterdir()) == []


def test_names_and_places_that_are_no_model(path: Path, data: Embeddings) -> None:
    with pytest.raises(ProofError, match=r"'.*kitchen.txt': the name of a model ends in \.proof"):
        write_model(path.with_suffix(".txt"), {}, {})
    other = path.with_suffix(".safetensors")
    data.save(other)
    assert "the name of a model ends in .proof" in refusal(lambda: read_model(other), other)
    for read in (read_model, read_manifest):
        assert "No such file" in refusal(lambda read=read: read(path), path)  # type: ignore[misc]
    path.mkdir()
    assert "it is a folder" in refusal(lambda: read_model(path), path)
    path.rmdir()
    os.mkfifo(path)
    assert "it is not a file" in refusal(lambda: read_model(path), path)
    path.unlink()
    for content, message in {
        b"": "it is empty",
        b"{": "it is not a model of proof",
        b"classes: cup, moka pot\n": "it is not a model of proof",
        other.read_bytes(): "it is a safetensors file, but not a model of proof",
        b"\x02" + bytes(7) + b"[]": "it is not a model of proof",
        b"\x02" + bytes(7) + b"{}": "it is a safetensors file, but not a model of proof",
    }.items():
        path.write_bytes(content)
        assert message in refusal(lambda: read_model(path), path)
        assert message in refusal(lambda: read_manifest(path), path)
    save_file({"x": torch.ones(1)}, path, metadata={"format": "pt"})
    assert "not a model of proof" in refusal(lambda: read_model(path), path)


def test_what_is_no_model_is_not_overwritten(path: Path) -> None:
    path.write_text("my notes")
    assert "not a model of proof" in refusal(lambda: write_model(path, {}, {}), path)
    assert path.read_text() == "my notes"
    assert list(path.parent.iterdir()) == [path]


# Damage: every byte of a file matters.


def test_every_flipped_byte_is_found(path: Path) -> None:
    write_model(path, {"classes": ["cup", "فنجان"]}, {"means": TENSORS["means"]})
    whole, model = path.read_bytes(), read_model(path)
    for place in range(len(whole)):
        for flip in (0x01, 0x20):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            if found := attempt(path):
                assert (found.manifest, found.revision) == (model.manifest, model.revision)
                assert same(found.tensors, model.tensors), (place, flip)


def test_every_cut_and_every_addition_is_found(path: Path) -> None:
    write_model(path, {"classes": ["cup"]}, {"means": TENSORS["means"]})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        refusal(lambda: read_model(path), path)
        refusal(lambda: read_manifest(path), path)
    path.write_bytes(whole + b"\0")
    assert "expected 48 bytes of tensors, found 49" in refusal(lambda: read_model(path), path)
    path.write_bytes(whole[:-4] + bytes(4))
    assert "tensor 'means' is not what was written" in refusal(lambda: read_model(path), path)
    assert read_manifest(path) == {"classes": ["cup"]}
