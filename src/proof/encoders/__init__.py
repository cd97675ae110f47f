"""The encoders, by name. Another kind is one class: see `docs/adding-an-encoder.md`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Protocol

from proof.cache import Cache
from proof.encoders.base import Encoder, Facts, Vectors
from proof.errors import ProofError

__all__ = [
    "DEFAULT",
    "Encoder",
    "Facts",
    "Vectors",
    "list_encoders",
    "load_encoder",
    "register_encoder",
]

DEFAULT = "ViT-B-16/laion400m_e32"  # the paper's


class Opener(Protocol):
    """Makes an encoder of what stands behind the colon of its name."""

    def __call__(self, name: str, *, preprocess: str, device: str, cache: Cache) -> Encoder: ...


_KINDS: dict[str, Opener] = {}


def register_encoder(kind: str) -> Callable[[Opener], Opener]:
    """Make encoders known as `kind:...`: put `@register_encoder("kind")` above what opens one."""

    def decorate(opener: Opener) -> Opener:
        _KINDS[kind] = opener
        return opener

    return decorate


def load_encoder(
    name: str = DEFAULT,
    *,
    preprocess: str = "squash",
    device: str = "auto",
    cache: Cache | None = None,
) -> Encoder:
    """Find an encoder. Its weights are loaded when there is something to encode.

    `ViT-B-16/laion400m_e32` is an architecture and a tag of open_clip, and behind the stroke may
    stand a checkpoint file instead; `hf-hub:org/model` and `local-dir:folder` are open_clip's own;
    `onnx:folder` is a pair of ONNX files. `preprocess` is `squash` (the paper's) or `model` (the
    model's own).
    """
    cache = cache or Cache()
    kind, colon, rest = name.partition(":")
    for entry in entry_points(group="proof.encoders"):
        entry.load()
    if colon and kind in _KINDS:
        return _KINDS[kind](rest, preprocess=preprocess, device=device, cache=cache)
    if kind == "onnx":
        from proof.encoders.onnx import OnnxEncoder

        return OnnxEncoder(rest, preprocess=preprocess, device=device, cache=cache)
    if colon and kind not in ("hf-hub", "local-dir") and "/" not in kind:
        known = ", ".join(f"{kind}:" for kind in ("hf-hub", "local-dir", "onnx", *sorted(_KINDS)))
        raise ProofError(
            f"encoder '{name}': no kind '{kind}:', expected ARCHITECTURE/TAG or {known}"
        )
    from proof.encoders.openclip import OpenClipEncoder

    return OpenClipEncoder(name, preprocess=preprocess, device=device, cache=cache)


def list_encoders() -> list[str]:
    """The names that need no file: every architecture and tag of open_clip."""
    from proof.encoders.openclip import list_pretrained

    return list_pretrained()
