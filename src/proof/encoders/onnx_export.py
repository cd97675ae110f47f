"""From a model of open_clip to the folder of an ONNX encoder."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from proof.cache import Cache
from proof.encoders import load_encoder
from proof.encoders.base import Vectors
from proof.encoders.onnx import OnnxEncoder
from proof.encoders.onnx_session import reason
from proof.encoders.openclip import OpenClipEncoder
from proof.encoders.tokens import CLEANING
from proof.errors import ProofError
from proof.extras import import_onnx
from proof.files import check_writable

_KEEPS = 0.9999  # the least cosine between the model's vectors and those of the files
_OPSET = 17  # the first with layer normalisation; onnxruntime knows it since 1.12
_TEXTS = (
    "a photo of a cat.",
    "",
    "It's 2 O'Clock, they'll say: 3.14!",
    "Crème brûlée & “naïve” café — ½ ÅNGSTRÖM",
    "数百の猫 🐈\u200d⬛ ΣΊΣΥΦΟΣ",
    "a very long text " * 40,
)


def export(name: str, folder: Path, *, cache: Cache | None = None) -> float:
    """Write an encoder of open_clip as the folder of an `onnx:` encoder, whole or not at all.

    The files are compared to the model. Returns the least cosine that was found.
    """
    folder = folder.resolve()
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ProofError(f"'{folder}' is there already: name a new folder, or remove it first")
    check_writable(folder / "encoder.json" if folder.is_dir() else folder)
    import_onnx("onnxruntime")
    import_onnx("onnx")
    encoder = load_encoder(name, preprocess="model", device="cpu", cache=cache)
    if not isinstance(encoder, OpenClipEncoder):
        raise ProofError(f"'{name}' cannot be exported: expected a model of open_clip")
    model, tokenizer = encoder._model(), encoder._ready().tokenizer
    with _whole(folder) as partial:
        description = _write_tokenizer(name, tokenizer, partial / "tokenizer.json")
        description |= dataclasses.asdict(encoder.preprocessing)
        description["logit_scale"] = encoder.logit_scale
        (partial / "encoder.json").write_text(json.dumps(description, indent=1) + "\n")
        height, width = encoder.preprocessing.size
        _write_model(model.encode_image, model, (2, 3, height, width), partial / "image.onnx")
        _write_model(
            model.encode_text, model, (2, description["context_length"]), partial / "text.onnx"
        )
        return _compare(encoder, tokenizer, partial)


def _write_model(encode: Any, model: Any, shape: tuple[int, ...], file: Path) -> None:
    """Trace one half of a model. torch's other exporter would need a package more."""
    import torch

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model  # so that the exporter sees the weights

        def forward(self, rows: Any) -> Any:
            return encode(rows)

    # Tokens are int32: onnxruntime finds the end token, the largest, in int64 only of late.
    rows = torch.zeros(shape) if len(shape) == 4 else torch.zeros(shape, dtype=torch.int32)
    taken = "image" if len(shape) == 4 else "tokens"
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its one large operation is not ONNX's
    with tempfile.TemporaryDirectory(dir=file.parent) as place:
        written = Path(place) / file.name
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    Half().eval(),
                    (rows,),
                    str(written),
                    dynamo=False,
                    opset_version=_OPSET,
                    input_names=[taken],
                    output_names=["vectors"],
                    dynamic_axes={taken: {0: "n"}, "vectors": {0: "n"}},
                )
        except Exception as error:
            raise ProofError(f"torch cannot write this model as ONNX: {reason(error)}") from error
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
        gather(written, file)


def gather(written: Path, file: Path) -> None:
    """Move a model to its place. One over 2 GB has a file for each weight beside it: these become
    one."""
    if list(written.parent.iterdir()) == [written]:
        written.replace(file)
        return
    onnx = import_onnx("onnx")
    weights = file.with_name(f"{file.name}.data")
    onnx.save_model(
        onnx.load(str(written)), str(file), save_as_external_data=True, location=weights.name
    )
    weights.chmod(file.stat().st_mode)  # onnx lets nobody else read it


def _write_tokenizer(name: str, tokenizer: Any, file: Path) -> dict[str, Any]:
    """open_clip's own tokenizer as a file of the tokenizers library; what that file cannot say."""
    known = importlib.import_module("open_clip.tokenizer")
    if type(tokenizer) is not known.SimpleTokenizer or tokenizer.reduction_fn is not None:
        raise ProofError(
            f"'{name}' cannot be exported: its tokenizer is {type(tokenizer).__name__}, and only "
            f"CLIP's own, SimpleTokenizer, can be written to a file"
        )
    tokenizers = import_onnx("tokenizers")
    start, end = (tokenizer.decoder[number] for number in tokenizer.all_special_ids[:2])
    special = [tokenizer.decoder[number] for number in tokenizer.all_special_ids]
    written = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab=tokenizer.encoder,
            merges=sorted(tokenizer.bpe_ranks, key=tokenizer.bpe_ranks.get),
            end_of_word_suffix="</w>",
        )
    )
    written.add_special_tokens(special)
    words = tokenizers.Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+")
    pre = tokenizers.pre_tokenizers
    written.pre_tokenizer = pre.Sequence(
        [
            pre.Split(words, behavior="removed", invert=True),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    written.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{start} $A {end}",
        special_tokens=[(token, tokenizer.encoder[token]) for token in (start, end)],
    )
    length = tokenizer.context_length
    written.enable_truncation(length)
    written.enable_padding(length=length, pad_id=0, pad_token=tokenizer.decoder[0])
    written.save(str(file))
    clean = next(way for way in CLEANING if known.get_clean_fn(way) is tokenizer.clean_fn)
    return {"context_length": length, "clean": clean}


def _compare(encoder: OpenClipEncoder, tokenizer: Any, folder: Path) -> float:
    """The least cosine between a model's vectors and those of the files; too small is an error."""
    with tempfile.TemporaryDirectory() as cache:
        made = OnnxEncoder(str(folder), preprocess="model", device="cpu", cache=Cache(cache))
        for text in _TEXTS:
            if not np.array_equal(made.tokenize([text]), tokenizer([text]).numpy()):
                raise ProofError(f"the tokens of '{text}' are others than those of open_clip")
        pixels = np.random.default_rng(0).integers(
            0, 256, (5, *encoder.preprocessing.size, 3), np.uint8
        )
        least = min(
            _least_cosine(encoder.encode_images(pixels), made.encode_images(pixels)),
            _least_cosine(encoder.encode_texts(_TEXTS), made.encode_texts(_TEXTS)),
        )
    if not least > _KEEPS:  # NaN, too
        raise ProofError(
            f"the ONNX files do not give the vectors of '{encoder.name}': a cosine of {least:.6f} "
            f"is not above {_KEEPS}"
        )
    return least


def _least_cosine(a: Vectors, b: Vectors) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / lengths).min())


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to fill, which then takes the place of `folder` in one step."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in partial.iterdir():
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        if folder.is_dir():
            folder.rmdir()  # it is empty
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
