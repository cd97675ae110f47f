"""Packages that only ONNX encoders need."""

from __future__ import annotations

import importlib
from typing import Any

from proof.errors import ProofError


def import_extra(module: str) -> Any:
    """A package of the extra `onnx`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ProofError(
            f"an ONNX encoder needs {module} ({error}): pip install 'proof-vlm[onnx]'"
        ) from None
