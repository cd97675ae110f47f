"""Stochastic gradient descent over the rows of a task, as fast as the device allows."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from proof.methods.base import Progress

_WORTH_CAPTURING = 20  # fewer steps than this are done before a CUDA graph is recorded


def descend(
    loss: Callable[[Tensor], Tensor],
    parameters: list[Tensor],
    rows: int,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    momentum: float,
    generator: torch.Generator,
    progress: Progress,
) -> None:
    """Minimise `loss(row indices)` by SGD with momentum and a cosine decay to zero.

    Each epoch is a new shuffle of all rows. The shuffles are joined and cut into batches of one
    size, so that every row is seen `epochs` times (but for less than one batch at the end).
    """
    device = parameters[0].device
    batch_size = min(batch_size, rows)
    steps = max(1, epochs * rows // batch_size)
    shuffles = [torch.randperm(rows, generator=generator) for _ in range(epochs)]
    batches = torch.cat(shuffles)[: steps * batch_size].view(steps, batch_size).to(device)
    decay = [lr * 0.5 * (1 + math.cos(math.pi * step / steps)) for step in range(steps)]
    rates = torch.tensor(decay, dtype=torch.float32, device=device)
    # A step is u = momentum * u + rate * gradient, parameter -= u; u keeps the rate inside, so it
    # is brought from the last rate to this one. Nothing of it needs a temporary or the host.
    fades = momentum * rates / rates.roll(1)
    updates = [torch.zeros_like(parameter) for parameter in parameters]
    for parameter in parameters:
        parameter.requires_grad_()
    now = torch.zeros(1, dtype=torch.long, device=device)

    def step() -> None:
        gradients = torch.autograd.grad(loss(batches[now][0]) * rates[now], parameters)
        with torch.no_grad():
            torch._foreach_mul_(updates, fades[now][0])
            torch._foreach_add_(updates, gradients)
            torch._foreach_sub_(parameters, updates)
            now.add_(1)

    graph = _capture(step) if device.type == "cuda" and steps > _WORTH_CAPTURING else None
    for count in range(1 if graph else 0, steps):
        if graph:
            graph.replay()
        else:
            step()
        if count % 16 == 0:
            progress(count / steps)
    if graph:
        torch.cuda.current_stream().synchronize()
        graph.reset()  # gives its memory back
    for parameter in parameters:
        parameter.requires_grad_(False)


def _capture(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Take one step, which CUDA needs as a warm-up, then record one as a CUDA graph: its hundreds
    of small kernels are then launched at once, and nothing is left for Python to do."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph
