"""A model on disk: one `.proof` file, the versions before it, and a lock while it is changed."""

from __future__ import annotations

from proof.models.file import Model, read_header, read_manifest, read_model
from proof.models.header import Header, field
from proof.models.history import drop_history, steps, undo, write_model
from proof.models.lock import locked

__all__ = [
    "Header",
    "Model",
    "drop_history",
    "field",
    "locked",
    "read_header",
    "read_manifest",
    "read_model",
    "steps",
    "undo",
    "write_model",
]
