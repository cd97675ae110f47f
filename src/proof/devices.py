"""Where torch computes."""

from __future__ import annotations

import torch

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
