"""How long a model's file takes to write and to read, with its checksums.

python benchmarks/model_file.py [--megabytes 100] [--tensors 8]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from proof.models import read_manifest, read_model, write_model


def best(work: Callable[[], object], times: int = 5) -> float:
    """The least of a few, in milliseconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return 1000 * min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--tensors", type=int, default=8)
    arguments = parser.parse_args()
    rows = arguments.megabytes * 1_000_000 // (4 * 512 * arguments.tensors)
    tensors = {f"tensor {n}": torch.randn(rows, 512) for n in range(arguments.tensors)}
    manifest = {"classes": [{"name": f"class {n}", "pictures": 20} for n in range(1000)]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kitchen.proof"
        print(f"{arguments.megabytes} MB in {arguments.tensors} tensors, in milliseconds")
        print(f"write              {best(lambda: write_model(path, manifest, tensors)):6.0f}")
        print(f"read               {best(lambda: read_model(path)):6.0f}")
        print(f"read the manifest  {best(lambda: read_manifest(path)):6.1f}")


if __name__ == "__main__":
    main()
