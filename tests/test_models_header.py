"""Nothing in a header is believed: here the checksums are right, and what they are of is not."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from proof import ProofError
from proof.models import field, read_manifest, read_model, write_model
from test_models_file import attempt, deep, json_values, refusal, same


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kitchen.proof"


def dump(value: Any, **options: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), **options).encode("utf-8", "surrogatepass")


def forge(
    path: Path, tensors: dict[str, Any], data: bytes = b"", sums: Any = None, **metadata: Any
) -> None:
    """Write a file as the format's description says, but of anything at all."""
    if sums is None:
        sums = {name: hashlib.sha256(data).hexdigest() for name in tensors}
    metadata = {
        "format": "proof 1", "revision": "0" * 16, "manifest": "{}",
        "sha256": dump(sums).decode(), **metadata,
    }  # fmt: skip
    said = {
        "metadata": metadata,
        "tensors": {
            name: [tensor.get("dtype"), tensor.get("shape")] if isinstance(tensor, dict) else []
            for name, tensor in tensors.items()
        },
    }
    checksum = hashlib.sha256(dump(said, sort_keys=True, ensure_ascii=False)).hexdigest()
    header = dump({"__metadata__": {**metadata, "checksum": checksum}, **tensors})
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def tensor(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_forged_file_is_read_where_it_is_right(path: Path) -> None:
    data = torch.tensor([2.5]).numpy().tobytes()
    forge(path, {"../../x": tensor()}, data, manifest='{"a": 1}', parent="f" * 16)
    assert read_model(path).manifest == {"a": 1}
    assert same(read_model(path).tensors, {"../../x": torch.tensor([2.5])})
    assert list(path.parent.iterdir()) == [path]


IMPOSSIBLE = {
    "dtype": tensor("F33"), "no dtype": tensor(None), "list of dtypes": tensor(["F32"]),
    "pickle": tensor("O"), "wrong width": tensor("F64"), "float8": tensor("F8_E4M3"),
    "huge shape": tensor(shape=[2**62, 2**62]), "negative": tensor(shape=[-1]),
    "two negatives": tensor(shape=[-1, -1]), "float": tensor(shape=[1.0]),
    "text": tensor(shape="1"), "truth": tensor(shape=[True]), "null": tensor(shape=None),
    "many dimensions": tensor(shape=[1] * 9),
    "huge and empty": tensor(shape=[0, 2**33, 2**33], offsets=[0, 0]),
    "huge number": tensor(shape=[10**400]), "beyond": tensor(offsets=[0, 2**63]),
    "before": tensor(offsets=[-4, 0]), "backwards": tensor(offsets=[4, 0]),
    "one offset": tensor(offsets=[0]), "three": tensor(offsets=[0, 4, 4]),
    "more": {**tensor(), "more": 1}, "less": {"dtype": "F32"}, "number": 1, "list": [],
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_tensor_that_cannot_be_is_refused(case: str, path: Path) -> None:
    forge(path, {"x": IMPOSSIBLE[case]}, bytes(4))
    message = "tensor 'x' cannot be as the header describes it"
    assert message in refusal(lambda: read_model(path), path)
    assert message in refusal(lambda: read_manifest(path), path)


FORGED: dict[str, dict[str, Any]] = {
    "do not lie one behind the other": {"tensors": {"x": tensor(), "y": tensor()}},
    "they do not lie|one behind the other": {"tensors": {"x": tensor(offsets=(4, 8))}},
    "expected 4 bytes of tensors, found 5": {"tensors": {"x": tensor()}, "data": bytes(5)},
    "expected 4 bytes of tensors, found 3": {"tensors": {"x": tensor()}, "data": bytes(3)},
    "tensor 'x' has truth values other": {"tensors": {"x": tensor("BOOL", [4])}, "data": b"\2" * 4},
    "tensor 'x' is not what was": {"tensors": {"x": tensor()}, "sums": {"x": "0" * 64}},
    "tensor 'x' cannot be": {"tensors": {"x": tensor()}, "sums": {"x": 7}},
    "checksums are not those of its tensors": {"tensors": {"x": tensor()}, "sums": {}},
    "its checksums are not those": {"sums": {"x": "0" * 64}, "data": b""},
    "not a JSON object": {"sums": []},
    "revision is not 16": {"revision": "../../../../x"},
    "its revision is not 16 hex": {"parent": "../../../../x"},
    "it was written by a newer proof: pip install -U proof-vlm": {"format": "proof 2"},
    "newer proof": {"format": "proof 2", "manifest": "<new>", "revision": "another"},
    "not a model of proof": {"format": "proof"},
    "but not a model of proof": {"format": 1},
    "safetensors file, but not": {"manifest": {"a": 1}},
    "header cannot be read": {"manifest": "{oops"},
    "or its manifest is not a JSON object": {"manifest": "[]"},
    "its JSON has NaN for a number": {"manifest": '{"a": NaN}'},
    "its JSON has -Infinity for a number": {"manifest": '{"a": [-Infinity]}'},
    "its JSON has 1e999 for a number": {"manifest": '{"a": 1e999}'},
    "Exceeds the limit": {"manifest": '{"a": ' + "1" * 5000 + "}"},
    "a name twice in one object": {"manifest": '{"a": {"b": 1, "b": 1}}'},
    "its JSON is nested too deep": {"manifest": json.dumps(deep(101))},
    "nested too deep": {"manifest": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"},
    r"a lone surrogate": {"manifest": r'{"a": "\ud800"}'},
    "not Unicode text": {"manifest": "\ud800{}"},
}


@pytest.mark.parametrize("message", FORGED)
def test_a_forged_file_is_refused(message: str, path: Path) -> None:
    forge(path, **{"tensors": {}, "data": b"", **_with_data(FORGED[message])})
    with pytest.raises(ProofError, match=f"cannot read '{path}': .*({message})") as caught:
        read_model(path)
    assert str(caught.value).isprintable()


def _with_data(case: dict[str, Any]) -> dict[str, Any]:
    return {"data": bytes(4), **case} if case.get("tensors") else case


def test_a_header_with_a_name_twice_is_refused(path: Path) -> None:
    forge(path, {"x": tensor(), "y": tensor(shape=[0], offsets=[4, 4])}, bytes(4))
    path.write_bytes(path.read_bytes().replace(b'"y":', b'"x":'))
    assert "a name twice" in refusal(lambda: read_model(path), path)


def test_a_header_too_large_is_not_read(path: Path) -> None:
    for length in (2**24 + 1, 2**40, 2**63, 2**64 - 1):
        with path.open("wb") as file:
            file.write(length.to_bytes(8, "little") + b"{")
            file.truncate(2**25)  # takes no room on the disk
        assert "not a model of proof" in refusal(lambda: read_model(path), path)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process's memory")
def test_memory_is_not_filled_by_a_file_of_nothing(path: Path) -> None:
    """A sparse file claims gigabytes and has none; more than 16 of them are not even tried."""
    import resource

    size = 15 * 2**30
    forge(path, {"x": tensor("U8", [size], [0, size])}, sums={"x": "0" * 64})
    header = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, limits[1]))
    try:
        os.truncate(path, header + size)
        assert "it does not fit in memory" in refusal(lambda: read_model(path), path)
        os.truncate(path, header + 2**35)
        assert "not a model of proof" in refusal(lambda: read_model(path), path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


junk = json_values | st.sampled_from(
    [2**63, -1, 10**30, "F32", "proof 2", "../x", "\ud800", '{"a":NaN}', "[" * 5000, [0, 2**40]]
)


@settings(max_examples=300, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    where=st.sampled_from(
        ["dtype", "shape", "data_offsets", "sums", "format", "revision", "parent", "manifest"]
    ),
    put=junk,
)
def test_whatever_is_read_is_what_safetensors_reads(
    shapes: list[list[int]], where: str, put: Any
) -> None:
    tensors, data, sums = {}, b"", {}
    for number, shape in enumerate(shapes):
        content = torch.randn(shape).numpy().tobytes()
        name, start = f"tensor {number}", len(data)
        data += content
        tensors[name] = tensor("F32", shape, [start, len(data)])
        sums[name] = hashlib.sha256(content).hexdigest()
    metadata = {}
    if where in ("dtype", "shape", "data_offsets"):
        for described in tensors.values():
            described[where] = put
    elif where == "sums":
        sums = put
    else:
        metadata[where] = put
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kitchen.proof"
        forge(path, tensors, data, sums, **metadata)
        if not (model := attempt(path)):
            return
        with safe_open(path, framework="pt") as file:
            assert same(model.tensors, {name: file.get_tensor(name) for name in file.keys()})
        write_model(path, model.manifest, model.tensors)


def test_a_field_of_the_wrong_kind_is_refused_saying_where() -> None:
    manifest = {"classes": ["cup", 3], "count": True, "pictures": {"cup": 1, "pot": "2"}}
    assert field(manifest, "count", bool) is True
    assert field(manifest, "pictures", dict) == {"cup": 1, "pot": "2"}
    assert field({"empty": []}, "empty", list, of=str) == []
    for (name, kind, of), message in {
        ("nothing", str, None): "'nothing' is missing",
        ("count", int, None): "'count' is bool: expected int",
        ("classes", dict, None): "'classes' is list: expected dict",
        ("classes", list, str): "'classes' holds int: expected list of str",
        ("pictures", dict, int): "'pictures' holds str: expected dict of int",
    }.items():
        with pytest.raises(ProofError, match=f"^kitchen.proof: {message}$"):
            field(manifest, name, kind, of=of, where=Path("kitchen.proof"))
