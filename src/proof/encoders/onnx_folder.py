"""The folder of an ONNX encoder: which files there are, and what they say of the model.

Two layouts are known. `proof encoders export` writes the first; immich publishes models in the
second, on the Hugging Face hub.

    image.onnx                     visual/model.onnx
    text.onnx                      textual/model.onnx
    tokenizer.json                 textual/tokenizer.json
    encoder.json                   visual/preprocess_cfg.json, config.json

Nothing is guessed: what the files do not say is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proof.encoders.tokens import CLEANING
from proof.errors import ProofError
from proof.pictures.preprocessing import OPEN_CLIP_MODES, Preprocessing

_CLIP_SCALE = 100.0  # CLIP's training holds the scale to this, and ends there
_CLIP_LENGTH = 77  # open_clip's, where a model does not give its own
_NUMBERS = (
    '"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711], '
    '"interpolation": "bicubic"'
)
_OURS = (
    f'{{"size": [224, 224], "mode": "crop", {_NUMBERS}, "logit_scale": 100.0, '
    f'"context_length": 77}}'
)
_IMMICH = f'{{"size": [224, 224], "resize_mode": "shortest", {_NUMBERS}}}'


@dataclass(frozen=True)
class Folder:
    """An encoder's files and their description."""

    path: Path
    image: Path
    text: Path  # may not be there
    tokenizer: Path
    descriptions: tuple[Path, ...]
    preprocessing: Preprocessing
    logit_scale: float
    context_length: int | None  # None: not said
    clean: str  # how texts are cleaned before they are cut into tokens

    def files(self) -> list[Path]:
        """All that the vectors depend on. Weights of large models are in `*.data` beside."""
        models = [model for model in (self.image, self.text) if model.is_file()]
        beside = {model.parent: None for model in models}
        weights = [
            path for parent in beside for path in sorted(parent.iterdir()) if _is_weights(path)
        ]
        written = (self.tokenizer, *self.descriptions)
        return [*models, *weights, *(path for path in written if path.is_file())]


def read_folder(path: Path) -> Folder:
    """Find the files of an encoder and read the descriptions."""
    if (path / "image.onnx").is_file():
        return _read_ours(path)
    if (path / "visual" / "model.onnx").is_file():
        return _read_immich(path)
    raise ProofError(
        f"no ONNX encoder in '{path}': expected a file image.onnx there, as `proof encoders "
        f"export` writes it, or visual/model.onnx, as immich publishes it"
    )


def _read_ours(path: Path) -> Folder:
    description, text = path / "encoder.json", path / "text.onnx"
    wanted = ["size", "mode", "mean", "std", "interpolation", "logit_scale"]
    if text.is_file():
        wanted.append("context_length")
    values = _read(description, wanted, _OURS)
    with _blaming(description):
        return Folder(
            path=path,
            image=path / "image.onnx",
            text=text,
            tokenizer=path / "tokenizer.json",
            descriptions=(description,),
            preprocessing=_preprocessing(values, values["mode"], values.get("fill", 0)),
            logit_scale=_positive(values["logit_scale"]),
            context_length=_length(values.get("context_length")),
            clean=_cleaning(values.get("clean", "lower")),
        )


def _read_immich(path: Path) -> Folder:
    visual, textual = path / "visual", path / "textual"
    description, config_file = visual / "preprocess_cfg.json", path / "config.json"
    values = _read(description, ["size", "mean", "std", "interpolation"], _IMMICH)
    config = _read(config_file, ["text_cfg"], '{"text_cfg": {"context_length": 77}}')
    with _blaming(config_file):
        if "init_logit_bias" in config and "logit_scale" not in config:
            raise ValueError(
                'a model with a bias on its logits has no standard scale: add "logit_scale"'
            )
        text_config = config["text_cfg"]
        usual = "whitespace" if text_config.get("hf_tokenizer_name") else "lower"
        options = {"clean": usual, **text_config.get("tokenizer_kwargs", {})}
        clean = _cleaning(options.pop("clean"))
        if options:
            raise ValueError(f"tokenizer_kwargs {options}: only clean is supported")
        logit_scale = _positive(config.get("logit_scale", _CLIP_SCALE))
        context_length = _length(text_config.get("context_length", _CLIP_LENGTH))
    with _blaming(description):
        # Before open_clip had the word, all its models cut out the middle.
        mode = OPEN_CLIP_MODES.get(values.get("resize_mode", "shortest"), values.get("resize_mode"))
        preprocessing = _preprocessing(values, mode, values.get("fill_color", 0))
    return Folder(
        path=path,
        image=visual / "model.onnx",
        text=textual / "model.onnx",
        tokenizer=textual / "tokenizer.json",
        descriptions=(description, config_file, textual / "tokenizer_config.json"),
        preprocessing=preprocessing,
        logit_scale=logit_scale,
        context_length=context_length,
        clean=clean,
    )


def _read(file: Path, wanted: list[str], example: str) -> dict[str, Any]:
    """A description, with all that is wanted in it."""
    if not file.is_file():
        raise ProofError(
            f"nothing says how this model wants its input: write a file '{file}' with the model's "
            f"own values, such as {example}"
        )
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProofError(f"'{file}' cannot be read: {error}") from None
    missing = [key for key in wanted if not isinstance(values, dict) or key not in values]
    if missing:
        raise ProofError(
            f"'{file}' does not say {', '.join(missing)}: expected the model's own values, such "
            f"as {example}"
        )
    found: dict[str, Any] = values
    return found


@contextmanager
def _blaming(file: Path) -> Iterator[None]:
    """What is wrong with a value is said with the file that it stands in."""
    try:
        yield
    except (ProofError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ProofError(f"'{file}': {error}") from None


def _preprocessing(values: dict[str, Any], mode: Any, fill: Any) -> Preprocessing:
    size = values["size"]
    height, width = (size, size) if isinstance(size, int) else size
    red, green, blue = (float(value) for value in values["mean"])
    std = tuple(_positive(value) for value in values["std"])
    return Preprocessing(
        size=(int(height), int(width)),
        mode=mode,
        mean=(red, green, blue),
        std=(std[0], std[1], std[2]),
        interpolation=values["interpolation"],
        fill=int(fill),
    )


def _positive(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{value}: expected a number above 0")
    return number


def _length(value: Any) -> int | None:
    return None if value is None else int(_positive(value))


def _cleaning(name: Any) -> str:
    if name not in CLEANING:
        raise ValueError(f"clean '{name}': expected one of {', '.join(CLEANING)}")
    return str(name)


def _is_weights(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".data", "_data"))
