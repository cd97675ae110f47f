"""Methods and encoders from a Python file of the user's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from proof.errors import ProofError


def load_plugin(path: Path) -> None:
    """Run a Python file that registers methods or encoders."""
    if not path.is_file():
        raise ProofError(f"no plugin at '{path}': expected a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ProofError(f"plugin '{path}' is not a Python file (.py)")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
