"""One ONNX file, opened: rows to vectors."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proof.encoders.base import Vectors
from proof.errors import ProofError
from proof.extras import import_onnx
from proof.pictures.readers import cores


class Session:
    """A model with one input and an output (n, dim). It runs on the device asked for, or not."""

    def __init__(self, file: Path, device: str, wanted: Mapping[str, Sequence[int]]) -> None:
        """`wanted` are the types that the input may have, with the shape of a row for each."""
        self.file = file
        self._session = _open(file, *_provider(device))
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        kinds = [kind for kind in wanted if len(inputs) == 1 and _fits(inputs[0], kind, wanted)]
        flat = [output for output in outputs if len(output.shape) == 2]
        if not kinds:
            expected = " or ".join(f"{kind} {_row(shape)}" for kind, shape in wanted.items())
            raise ProofError(f"'{file}' takes {_ends(inputs)}: expected one input {expected}")
        if not flat:
            raise ProofError(f"'{file}' gives {_ends(outputs)}: expected an output (n, dim)")
        self.kind = np.dtype(kinds[0] if kinds[0] != "float" else "float32")
        self.shape = tuple(wanted[kinds[0]])  # of a row
        self._input, self._output = inputs[0].name, flat[0].name
        # How many rows it must be given at once, where that is not free.
        self._fixed: int | None = _number(inputs[0].shape[0])
        # A model that is quantised while it runs takes its scales from all rows together, and a
        # vector would depend on the others of its batch (cosine 0.96): it gets one row at a time.
        self._alone = _contains(file, b"DynamicQuantize")
        self.dim: int = (
            _number(flat[0].shape[1]) or self._run(np.zeros((1, *self.shape), self.kind)).shape[1]
        )

    def vectors(
        self,
        rows: NDArray[Any],
        at_once: int,
        prepare: Callable[[NDArray[Any]], NDArray[Any]] = lambda rows: rows,
    ) -> Vectors:
        """Vectors (n, dim) of rows, each piece of which is prepared first."""
        step = 1 if self._alone else self._fixed or at_once
        pieces = (rows[start : start + step] for start in range(0, len(rows), step))
        none = np.empty((0, self.dim), np.float32)
        return np.concatenate([none, *(self._run(prepare(piece)) for piece in pieces)])

    def _run(self, rows: NDArray[Any]) -> Vectors:
        count = len(rows)
        if self._fixed:  # filled up with the last row
            rows = np.concatenate([rows, np.repeat(rows[-1:], self._fixed - count, axis=0)])
        try:
            values = self._session.run([self._output], {self._input: rows.astype(self.kind)})
        except Exception as error:
            raise ProofError(f"'{self.file}' failed: {reason(error)}") from None
        vectors: Vectors = np.asarray(values[0], np.float32)[:count]
        return vectors


def check_device(device: str) -> None:
    """Refuse a device that no ONNX encoder has."""
    _provider(device)


def reason(error: Exception) -> str:
    """One line, without the code and the file's name that onnxruntime puts before it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line.rpartition(" : ")[2].rpartition("failed:")[2].strip().rstrip(".")


def _provider(device: str) -> tuple[str, dict[str, str]]:
    kind, _, number = device.partition(":")
    if device in ("auto", "cpu"):
        return "CPUExecutionProvider", {}
    if device == "cuda" or (kind == "cuda" and number.isdecimal()):
        return "CUDAExecutionProvider", {"device_id": number or "0"}
    raise ProofError(f"device '{device}': an ONNX encoder runs on auto, cpu, cuda, cuda:1, ...")


def _open(file: Path, provider: str, options: dict[str, str]) -> Any:
    runtime = import_onnx("onnxruntime")
    if provider not in runtime.get_available_providers():
        raise ProofError(
            f"this onnxruntime cannot use the GPU, it has no {provider}: put onnxruntime-gpu in "
            f"its place, or use --device cpu"
        )
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = cores()
    settings.log_severity_level = 4  # what goes wrong is raised, and so said once
    try:
        session = runtime.InferenceSession(
            str(file), settings, providers=[(provider, options)], enable_fallback=0
        )
    except Exception as error:
        raise ProofError(f"'{file}' cannot be used: {reason(error)}") from None
    if session.get_providers()[0] != provider:
        raise ProofError(
            f"onnxruntime cannot start {provider} here: are the driver and the libraries of CUDA "
            f"those that it wants? --device cpu does without"
        )
    return session


def _fits(end: Any, kind: str, wanted: Mapping[str, Sequence[int]]) -> bool:
    """Whether an input takes rows of a type and shape; where it gives no number, any will do."""
    shape = end.shape[1:]
    return (
        end.type == f"tensor({kind})"
        and len(shape) == len(wanted[kind])
        and all(_number(a) in (None, b) for a, b in zip(shape, wanted[kind], strict=True))
    )


def _number(side: Any) -> int | None:
    return side if isinstance(side, int) and side > 0 else None


def _row(shape: Sequence[int]) -> str:
    return f"(n, {', '.join(map(str, shape))})"


def _ends(ends: Sequence[Any]) -> str:
    kinds = [end.type.removeprefix("tensor(").removesuffix(")") for end in ends]
    return (
        ", ".join(
            f"{end.name}: {kind} {_row(end.shape[1:])}"
            for end, kind in zip(ends, kinds, strict=True)
        )
        or "nothing"
    )


def _contains(file: Path, word: bytes) -> bool:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(word) >= 0
