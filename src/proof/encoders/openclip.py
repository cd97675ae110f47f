"""open_clip's models: by architecture and tag, from a file, from the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from proof.cache import Cache
from proof.encoders import memo
from proof.encoders.base import Encoder, Facts, Vectors
from proof.errors import ProofError
from proof.pictures.decode import Pixels
from proof.pictures.preprocessing import OPEN_CLIP_MODES, Preprocessing

_KEEPS = 0.9999  # half precision is used where its cosine to single precision is above this


class OpenClipEncoder(Encoder):
    """A model of open_clip. It is loaded when there is something to encode, not before."""

    def __init__(self, name: str, *, preprocess: str, device: str, cache: Cache) -> None:
        if not re.fullmatch(r"auto|cpu|mps|(cuda|xpu)(:\d+)?", device):
            raise ProofError(f"device '{device}': expected auto, cpu, cuda, cuda:1, ...")
        self._cache, self._device = cache, device
        self._loaded: _Loaded | None = None
        name = _absolute(name)
        facts = memo.recall(cache, name, _version())
        if facts is None:
            self._loaded = _load(name)
            facts = self._loaded.facts
            memo.note(cache, name, _version(), self._loaded.stamps, facts)
        super().__init__(name, facts, preprocess)
        self._half: bool | None = None  # whether half precision is near enough; None: not tried
        self._loading = threading.RLock()  # two batches may come at once
        self._local = threading.local()

    def prepare(self) -> None:
        from proof.devices import choose_device

        self._device = choose_device(self._device)
        if self._device.startswith("cuda"):
            self.batch_size, self.streams = 256, 2

    def encode_images(self, pixels: Pixels) -> Vectors:
        import torch

        self._model()
        if len(pixels) > self.batch_size:
            return self._in_pieces(pixels)
        try:
            with torch.inference_mode(), self._stream():
                batch = torch.from_numpy(pixels).to(self._device)
                with self._loading:
                    if self._half is None and self._device.startswith("cuda"):
                        self._try_half(batch[:32])
                return _to_host(self.forward(batch))
        except torch.OutOfMemoryError:
            if len(pixels) == 1:
                raise ProofError(
                    f"'{self.name}' does not fit on {self._device} even with one picture at a "
                    f"time: try --device cpu or a smaller model"
                ) from None
        torch.cuda.empty_cache()
        self.batch_size = min(self.batch_size, len(pixels) // 2)
        return self._in_pieces(pixels)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        import torch

        model, tokenizer = self._model(), self._ready().tokenizer
        parts = []
        with torch.inference_mode():
            for start in range(0, len(texts), 256):
                tokens = tokenizer(list(texts[start : start + 256])).to(self._device)
                parts.append(model.encode_text(tokens).float().cpu().numpy())
        return np.concatenate(parts)

    def _stream(self) -> AbstractContextManager[Any]:
        """A stream of its own for each thread, so that one copies while the other computes."""
        import torch

        if not self._device.startswith("cuda"):
            return nullcontext()
        if not hasattr(self._local, "stream"):
            self._local.stream = torch.cuda.Stream(self._device)
        stream: AbstractContextManager[Any] = torch.cuda.stream(self._local.stream)
        return stream

    def _in_pieces(self, pixels: Pixels) -> Vectors:
        size = self.batch_size  # which another thread may make smaller
        pieces = range(0, len(pixels), size)
        return np.concatenate([self.encode_images(pixels[at : at + size]) for at in pieces])

    def forward(self, batch: Any) -> Any:
        """The model alone, on a tensor of pixels (n, height, width, 3) that is on its device."""
        import torch

        kind = torch.float16 if self._half else torch.float32
        mean = torch.tensor(self.preprocessing.mean, device=batch.device).view(3, 1, 1)
        std = torch.tensor(self.preprocessing.std, device=batch.device).view(3, 1, 1)
        images = (batch.permute(0, 3, 1, 2).float() / 255 - mean) / std
        return self._model().encode_image(images.to(kind)).float()

    def _try_half(self, batch: Any) -> None:
        """Use half precision for pictures if it keeps their direction, as it should."""
        import torch
        from torch.nn.functional import cosine_similarity

        exact, near = self.forward(batch), None
        try:
            self._half = True
            self._model().visual.half()
            near = self.forward(batch)
        finally:
            if near is None or not bool((cosine_similarity(exact, near) > _KEEPS).all()):
                self._half = False if near is not None else None
                self._loaded = None
                self._model()  # the weights as they were
            torch.cuda.synchronize()  # seen by all streams

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            loaded = _load(self.name)
            memo.note(self._cache, self.name, _version(), loaded.stamps, loaded.facts)
            if loaded.facts.fingerprint != self.fingerprint:
                raise ProofError(
                    f"the weights of '{self.name}' are others than those that were noted: run the "
                    f"command again, and it starts anew with the new ones"
                )
            self._loaded = loaded
        return self._loaded

    def _model(self) -> Any:
        with self._loading:
            loaded = self._ready()
            if not loaded.placed:
                if self._device == "auto":
                    self.prepare()
                loaded.model.to(self._device)
                if self._device.startswith("cuda"):  # seen by all streams
                    import torch

                    torch.cuda.synchronize(self._device)
                loaded.placed = True
            return loaded.model


@dataclass
class _Loaded:
    model: Any
    tokenizer: Any
    facts: Facts
    stamps: memo.Stamps  # of its files, from before they were read
    placed: bool = False  # on its device


def _to_host(vectors: Any) -> Vectors:
    """A tensor as an array. The thread sleeps while the GPU works: the cores are for decoding."""
    import torch

    if vectors.is_cuda:
        host = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
        host.copy_(vectors, non_blocking=True)
        done = torch.cuda.Event(blocking=True)
        done.record()
        done.synchronize()
        vectors = host
    array: Vectors = vectors.numpy()
    return array


def list_pretrained() -> list[str]:
    """Every architecture and tag that open_clip knows, as `ViT-B-16/openai`."""
    return sorted(f"{arch}/{tag}" for arch, tag in _import().list_pretrained())


def _absolute(name: str) -> str:
    """The name with its path, if it has one, made absolute: `local-dir:clip` is another model in
    another folder."""
    if name.startswith("local-dir:"):
        folder = Path(name.removeprefix("local-dir:")).expanduser()
        return f"local-dir:{folder.resolve()}" if folder.is_dir() else name
    arch, _, file = name.partition("/")
    is_path = "/" in file or "." in file  # tags have neither
    path = Path(file).expanduser()
    if name.startswith("hf-hub:") or not is_path or not path.is_file():
        return name
    return f"{arch}/{path.resolve()}"


def _version() -> str:
    try:
        return f"open_clip {version('open_clip_torch')}"
    except PackageNotFoundError:
        return "open_clip"


def _import() -> Any:
    try:
        import open_clip
    except ImportError as error:
        raise ProofError(
            f"this encoder needs open_clip ({error}): pip install open_clip_torch"
        ) from None
    return open_clip


def _load(name: str) -> _Loaded:
    """The model with its weights, on the CPU in single precision. Never a random one."""
    open_clip = _import()
    with _quiet() as said:
        if name.startswith(("hf-hub:", "local-dir:")):
            model, tokenizer, stamps, config = _from_schema(open_clip, name)
        else:
            model, tokenizer, stamps, config = _from_architecture(open_clip, name)
        if any(line.startswith("Resizing position embedding") for line in said):
            raise ProofError(
                f"encoder '{name}': the weights are for pictures or texts of another size than the "
                f"architecture's: name the one that they were trained with"
            )
        model.eval().requires_grad_(False)
        facts = _facts(open_clip, model, tokenizer, config)
    return _Loaded(model, tokenizer, facts, stamps)


def _from_architecture(open_clip: Any, name: str) -> tuple[Any, Any, memo.Stamps, Any]:
    arch, stroke, source = name.partition("/")
    config = open_clip.get_model_config(arch)
    if config is None:
        raise ProofError(
            f"encoder '{name}': open_clip has no architecture '{arch}'. Expected "
            f"ARCHITECTURE/TAG such as ViT-B-16/laion400m_e32; `proof encoders` lists them"
        )
    tags = open_clip.list_pretrained_tags_by_model(arch)
    if not stroke:
        raise ProofError(
            f"encoder '{name}': which weights? Expected {arch}/TAG with one of the tags "
            f"{', '.join(tags)}, or {arch}/FILE"
        )
    tag = open_clip.get_pretrained_cfg(arch, source)
    if tag:
        file = _download(name, tag)
        if config.get("quick_gelu", False) and not tag.get("quick_gelu", False):
            raise ProofError(
                f"encoder '{name}': these weights were trained without QuickGELU: "
                f"use {arch.removesuffix('-quickgelu')}/{source}"
            )
        quick = bool(tag.get("quick_gelu", False))
    else:
        file, quick = Path(source), False
        if not file.is_file():
            raise ProofError(
                f"encoder '{name}': '{source}' is neither a file nor one of the tags of {arch}: "
                f"{', '.join(tags)}"
            )
    config["quick_gelu"] = bool(config.get("quick_gelu", False)) or quick
    stamps = memo.stamp([file])
    try:
        if _is_torchscript(file):  # OpenAI's own files
            model = open_clip.load_openai_model(str(file), precision="fp32", device="cpu")
            config["quick_gelu"] = True
        else:
            model = open_clip.create_model(
                arch,
                pretrained=source if tag else str(file),
                force_quick_gelu=quick,
                require_pretrained=True,
            )
    except Exception as error:
        raise ProofError(
            f"encoder '{name}': '{file}' does not hold weights of {arch}: {_first_line(error)}"
        ) from error
    return model, open_clip.get_tokenizer(arch), stamps, config


def _from_schema(open_clip: Any, name: str) -> tuple[Any, Any, memo.Stamps, Any]:
    schema, _, place = name.partition(":")
    try:
        if schema == "local-dir":
            folder = Path(place)
            config_file = folder / "open_clip_config.json"
            if not config_file.is_file():
                raise ProofError(f"encoder '{name}': expected a file '{config_file}'")
            kinds = (".safetensors", ".bin", ".pth")
            files = sorted(path for path in folder.iterdir() if path.suffix in kinds)
            if not files:
                raise ProofError(
                    f"encoder '{name}': no weights in '{folder}', expected one of "
                    f"open_clip_model.safetensors, open_clip_pytorch_model.bin"
                )
        else:
            from huggingface_hub import hf_hub_download
            from open_clip.pretrained import download_pretrained_from_hf

            config_file = Path(hf_hub_download(place, "open_clip_config.json"))
            files = [Path(download_pretrained_from_hf(place))]
        stamps = memo.stamp([config_file, *files, config_file.parent])
        model = open_clip.create_model(name, require_pretrained=True)
        tokenizer = open_clip.get_tokenizer(name)
        config = json.loads(config_file.read_text())["model_cfg"]
    except ProofError:
        raise
    except Exception as error:
        where = (
            "open_clip_config.json and open_clip_model.safetensors are wanted from "
            f"https://huggingface.co/{place}; download them into a folder and name that as "
            f"local-dir:FOLDER"
            if schema == "hf-hub"
            else "expected open_clip_config.json and its weights there"
        )
        raise ProofError(f"encoder '{name}': {_first_line(error)}. {where}") from error
    return model, tokenizer, stamps, config


def _download(name: str, tag: dict[str, Any]) -> Path:
    """The weights of a tag: from where open_clip keeps them, else downloaded there by it."""
    from open_clip.pretrained import download_pretrained

    try:
        return Path(download_pretrained(tag))
    except Exception as error:
        hub, url = tag.get("hf_hub", ""), tag.get("url", "")
        repository, _, file = hub.rpartition("/")
        wanted = (
            f"{file or 'open_clip_model.safetensors'} of https://huggingface.co/{repository}"
            if hub
            else url
        )
        raise ProofError(
            f"encoder '{name}': its weights are not on this machine and cannot be downloaded "
            f"({_first_line(error)}). Wanted: {wanted}. Download it elsewhere, and name the file: "
            f"{name.partition('/')[0]}/PATH"
        ) from error


def _facts(open_clip: Any, model: Any, tokenizer: Any, config: Any) -> Facts:
    import torch
    from open_clip.transform import PreprocessCfg

    own = {**asdict(PreprocessCfg()), **open_clip.get_model_preprocess_cfg(model)}
    size = own["size"]
    with torch.inference_mode():
        dim = model.encode_text(tokenizer(["a"])).shape[1]
    return Facts(
        fingerprint=_fingerprint(model, tokenizer, config),
        dim=dim,
        logit_scale=float(model.logit_scale.detach().exp()),
        preprocessing=Preprocessing(
            size=(size, size) if isinstance(size, int) else tuple(size),
            mode=OPEN_CLIP_MODES[own["resize_mode"]],
            mean=tuple(own["mean"]),
            std=tuple(own["std"]),
            interpolation="bilinear" if own["interpolation"] == "bilinear" else "bicubic",
            fill=own["fill_color"],
        ),
    )


def _fingerprint(model: Any, tokenizer: Any, config: Any) -> str:
    """A hash of every weight, of the architecture and of what the tokenizer does, whatever files
    they came from."""
    import torch

    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    digest.update(tokenizer(["a photo of a Zebra, 3 Äpfel & more."]).numpy().tobytes())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        values = tensor.detach().to(torch.float32).contiguous()
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _is_torchscript(file: Path) -> bool:
    """Whether a file is a TorchScript archive, as OpenAI's published weights are."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        lines[0] = f"{lines[0]} {lines[1][:200]}"
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """What open_clip says on the root logger goes into a list: our errors say it better."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, hub = logging.getLogger(), logging.getLogger("huggingface_hub")
    level, handlers, hub_level = logger.level, logger.handlers, hub.level
    logger.setLevel(logging.INFO)
    logger.handlers = [Listener()]
    hub.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield said
    finally:
        logger.setLevel(level)
        logger.handlers = handlers
        hub.setLevel(hub_level)
