"""Texts to tokens, without torch: cleaned as open_clip does, cut up as `tokenizer.json` says."""

from __future__ import annotations

import html
import json
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proof.errors import ProofError
from proof.extras import import_onnx

_PUNCTUATION = str.maketrans("", "", string.punctuation)
CLEANING: dict[str, Callable[[str], str]] = {  # by open_clip's names
    "lower": lambda text: " ".join(text.split()).lower(),
    "whitespace": lambda text: " ".join(text.split()),
    "canonicalize": lambda text: " ".join(
        text.replace("_", " ").translate(_PUNCTUATION).lower().split()
    ),
}


class Tokenizer:
    """Makes rows of one length: cut with the end token kept, and filled up."""

    def __init__(self, file: Path, clean: str, length: int) -> None:
        if not file.is_file():
            raise ProofError(f"for texts a tokenizer is needed: expected a file '{file}'")
        tokenizers = import_onnx("tokenizers")
        self._fix = import_onnx("ftfy").fix_text
        self._clean = CLEANING[clean]
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:
            raise ProofError(f"'{file}' cannot be read: {error}") from None
        padding = self._tokenizer.padding or _padding(file, self._tokenizer)
        self._tokenizer.enable_padding(**{**padding, "length": length})
        self._tokenizer.enable_truncation(length)
        self._length = length

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Numbers of tokens (n, length)."""
        rows = [self._tokenizer.encode(self._cleaned(text)).ids for text in texts]
        return np.array(rows, np.int64).reshape(len(texts), self._length)

    def _cleaned(self, text: str) -> str:
        return self._clean(html.unescape(html.unescape(self._fix(text))).strip())


def _padding(file: Path, tokenizer: Any) -> dict[str, Any]:
    """What to fill up with: the pad token of the file beside, else zeros, as CLIP does."""
    beside = file.with_name("tokenizer_config.json")
    if not beside.is_file():
        return {"pad_id": 0, "pad_token": tokenizer.id_to_token(0)}
    try:
        token = json.loads(beside.read_text(encoding="utf-8"))["pad_token"]
        token = token["content"] if isinstance(token, dict) else token
        number = tokenizer.token_to_id(token)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProofError(f"'{beside}': no pad token can be read ({error!r})") from None
    if number is None:
        raise ProofError(f"'{beside}': the pad token '{token}' is not in '{file}'")
    return {"pad_id": number, "pad_token": token}
