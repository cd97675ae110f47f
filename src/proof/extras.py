"""Packages that not everybody needs: they are imported where they are used, and not before."""

from __future__ import annotations

import importlib
from typing import Any

from proof.errors import ProofError


def import_extra(module: str, extra: str, what: str) -> Any:
    """A package, or a part of one, of the extra `extra`, which `what` needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ProofError(
            f"{what} needs the package {package} ({error}): pip install 'proof-vlm[{extra}]'"
        ) from None


def import_onnx(module: str) -> Any:
    """A package that ONNX encoders need."""
    return import_extra(module, "onnx", "an ONNX encoder")
