"""Where torch computes."""

from __future__ import annotations

import torch
from torch import Tensor

from proof.errors import ProofError


def choose_device(name: str) -> str:
    """`auto` is the GPU where there is one; a device that is asked for must be there and work."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.ones(1, 1, device=device) @ torch.ones(1, 1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ProofError(
            f"device '{name}' cannot be used here ({reason}): try --device auto"
        ) from None
    return str(device)


def add_rows(total: Tensor, codes: Tensor, rows: Tensor) -> None:
    """Add row i of `rows` to row `codes[i]` of `total`, the same to the last bit each time.

    On a GPU `index_add_` adds in whatever order its threads arrive.
    """
    if total.device.type == "cpu":
        total.index_add_(0, codes, rows)
    else:
        total.index_put_((codes,), rows, accumulate=True)
