"""The three kinds of projection: linear (the paper's), SSF and adapter.

A projection is a dictionary of tensors. It starts either at the identity or at zero, so that the
sum over tasks (Eq. 6) starts each task where the last one ended and only the new part moves.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proof.equations import aggregate_projections, merge_projections

KINDS = ("linear", "ssf", "adapter", "none")

Projection = dict[str, Tensor]


def start(
    kind: str, d: int, width: int, identity: bool, generator: torch.Generator, device: torch.device
) -> Projection:
    """A new projection of `d` numbers, at the identity or at zero.

    linear: x W^T. ssf: scale * x + shift. adapter: skip * x + relu(x down^T) up^T through `width`
    numbers. none: skip * x, with nothing to learn.
    """
    one = torch.full((), float(identity))
    if kind == "linear":
        projection = {"weight": one * torch.eye(d)}
    elif kind == "ssf":
        projection = {"scale": one.expand(d).clone(), "shift": torch.zeros(d)}
    elif kind == "adapter":
        down = torch.randn(width, d, generator=generator) / math.sqrt(d)
        projection = {"skip": one, "down": down, "up": torch.zeros(d, width)}
    else:
        projection = {"skip": one}
    return {name: tensor.to(device) for name, tensor in projection.items()}


def trainable(projection: Projection) -> list[Tensor]:
    """The tensors of a projection that are learned."""
    return [tensor for name, tensor in projection.items() if name != "skip"]


def project(projection: Projection, x: Tensor) -> Tensor:
    """Apply one projection to x (n, d)."""
    if "weight" in projection:
        return x @ projection["weight"].T
    if "scale" in projection:
        return projection["scale"] * x + projection["shift"]
    if "down" in projection:
        hidden = torch.relu(x @ projection["down"].T)
        return projection["skip"] * x + hidden @ projection["up"].T
    return projection["skip"] * x


def project_all(projections: list[Projection], x: Tensor) -> Tensor:
    """Eq. 6: the sum of what all projections give; zero where there is none yet."""
    if not projections:
        return torch.zeros_like(x)
    return aggregate_projections([project(projection, x) for projection in projections])


def merge(projections: list[Projection]) -> list[Projection]:
    """Eq. 11: a single projection that gives what all of them together give.

    Adapters are not linear and stay as they are.
    """
    if not projections or "down" in projections[0]:
        return projections
    names = projections[0].keys()
    return [{name: merge_projections([p[name] for p in projections]) for name in names}]
