"""Data sets of pictures: from folders, tables, Hugging Face and known names.

The way of the data: a source gives a `Listing` (`folders`, `tables`, `huggingface`, `layouts`),
and `base.finish` makes a `Dataset` of it. `docs/adding-a-data-set.md` is for users.
"""

from __future__ import annotations

from proof.datasets.base import DEFAULT_TEMPLATES, Dataset, Labelled
from proof.datasets.known import Known, known_names
from proof.datasets.sources import open_dataset

__all__ = [
    "DEFAULT_TEMPLATES",
    "Dataset",
    "Known",
    "Labelled",
    "known_names",
    "open_dataset",
]
