"""A pair of ONNX files, one for pictures and one for texts. Runs without torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proof.cache import Cache
from proof.encoders import memo
from proof.encoders.base import Encoder, Facts, Vectors
from proof.encoders.onnx_folder import read_folder
from proof.encoders.onnx_session import Session, check_device
from proof.encoders.tokens import Tokenizer
from proof.errors import ProofError
from proof.pictures.decode import Pixels

_TEXTS = 64  # at a time


class OnnxEncoder(Encoder):
    """The files of a folder, see `onnx_folder`. Each is opened when it is first needed."""

    batch_size = 16  # the size makes no difference that could be measured on a CPU

    def __init__(self, rest: str, *, preprocess: str, device: str, cache: Cache) -> None:
        check_device(device)
        self._cache, self._device = cache, device
        self.fingerprint = ""  # not known yet
        self._folder = read_folder(Path(rest).expanduser().resolve())
        super().__init__(f"onnx:{rest}", self._facts(), preprocess)

    def encode_images(self, pixels: Pixels) -> Vectors:
        kind = self._image.kind
        if kind == np.uint8:  # the model itself scales the numbers
            return self._image.vectors(pixels, self.batch_size)
        mean = 255 * np.array(self.preprocessing.mean, np.float32)[:, None, None]
        std = 255 * np.array(self.preprocessing.std, np.float32)[:, None, None]

        def planes(batch: NDArray[Any]) -> NDArray[Any]:
            values = np.ascontiguousarray(batch.transpose(0, 3, 1, 2), np.float32)
            values -= mean
            values /= std
            return values

        return self._image.vectors(pixels, self.batch_size, planes)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        return self._text.vectors(self.tokenize(texts), _TEXTS)

    def tokenize(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of the tokens, (n, context length)."""
        return self._tokenizer(texts)

    @cached_property
    def _image(self) -> Session:
        height, width = self._folder.preprocessing.size
        wanted = {
            "float": (3, height, width),
            "float16": (3, height, width),
            "uint8": (height, width, 3),
        }
        session = Session(self._folder.image, self._device, wanted)
        self._check_unchanged()
        return session

    @cached_property
    def _text(self) -> Session:
        length = self._folder.context_length
        if not self._folder.text.is_file() or length is None:
            raise ProofError(
                f"encoder '{self.name}' has no file for texts: expected '{self._folder.text}'"
            )
        session = Session(self._folder.text, self._device, {"int64": (length,), "int32": (length,)})
        if session.dim != self.dim:
            raise ProofError(
                f"'{session.file}' gives vectors of {session.dim} numbers, and "
                f"'{self._folder.image}' of {self.dim}: they are not a pair"
            )
        self._check_unchanged()
        return session

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self._folder.tokenizer, self._folder.clean, self._text.shape[0])

    def _facts(self) -> Facts:
        """As they were noted, so that the files are hashed once for as long as they stay."""
        facts = self._noted()
        if facts is None:
            stamps = memo.stamp(self._folder.files())
            facts = Facts(
                fingerprint=self._hash(),
                dim=self._image.dim,
                logit_scale=self._folder.logit_scale,
                preprocessing=self._folder.preprocessing,
            )
            memo.note(self._cache, self._key, self._version(), stamps, facts)
        return facts

    def _noted(self) -> Facts | None:
        return memo.recall(self._cache, self._key, self._version())

    def _hash(self) -> str:
        return memo.hash_files(self._folder.files(), self._version())

    def _version(self) -> str:
        """Other files are another version: one may have come since."""
        names = [path.relative_to(self._folder.path).as_posix() for path in self._folder.files()]
        return f"onnx 1: {', '.join(names)}"

    @property
    def _key(self) -> str:
        return f"onnx:{self._folder.path}"  # whatever folder the user is in

    def _check_unchanged(self) -> None:
        """What was opened now must be what the fingerprint was taken of."""
        if not self.fingerprint:
            return
        noted = self._noted()
        if (noted.fingerprint if noted else self._hash()) != self.fingerprint:
            raise ProofError(
                f"the files of '{self.name}' were changed in the meantime: run the command again, "
                f"and it starts anew with the new ones"
            )
