"""The exact fusion beside the plain attention form, and its cost as classes grow.

    python benchmarks/fusion.py [--device cuda]

One run, ratios in one process: a forward and backward pass of the fusion and both matchings, batch
64, d = 512. Then, on a GPU, learning and predicting with up to 10,000 classes at batch 256.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from proof import Task, create
from proof.equations import Attention, fuse_context, fuse_plainly, fuse_queries

D, BATCH, PROMPTS = 512, 64, 30


def seconds(work: Callable[[], object], device: str, repeats: int) -> float:
    """The shortest time of `work`: what else the machine does only adds to it."""
    times = []
    for _ in range(repeats):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def captured(work: Callable[[], object], device: str) -> Callable[[], object]:
    """On a GPU, `work` as a CUDA graph, as training runs it: no time goes into launching."""
    if device == "cpu":
        return work
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    return graph.replay


def exact_against_plain(classes: int, device: str) -> None:
    torch.manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return (torch.randn(*shape) / D**0.5).to(device).requires_grad_()

    images, context = randn(BATCH, D), randn(2 * classes + PROMPTS, D)
    attention = Attention(randn(3 * D, D))
    inputs, targets = [images, context, *attention], 2 * classes

    def exact() -> Tensor:
        reading, context_reading = attention.read(torch.cat([images, context])).split(BATCH)
        return fuse_queries(images, reading, fuse_context(context, context_reading, targets))[1]

    def plain() -> Tensor:
        adapted, tokens = fuse_plainly(images, context, attention)
        return F.cosine_similarity(adapted[:, None], tokens[:, :targets], dim=-1)

    difference = (exact() - plain()).abs().max().item()
    exact_step = captured(lambda: torch.autograd.grad(exact().sum(), inputs), device)
    plain_step = captured(lambda: torch.autograd.grad(plain().sum(), inputs), device)
    fast = slow = float("inf")
    for _ in range(8):  # in turns, so that a busy spell of the machine meets both
        fast = min(fast, seconds(exact_step, device, 12))
        slow = min(slow, seconds(plain_step, device, 2))
    print(
        f"{classes:>6} classes: exact {fast * 1e3:7.2f} ms   plain {slow * 1e3:8.1f} ms   "
        f"ratio {slow / fast:5.1f}   largest difference {difference:.1e}",
        flush=True,
    )


def cost_of_classes(classes: int, device: str) -> None:
    names, steps = tuple(map(str, range(classes))), 40
    rows = max(classes, 256 * steps)
    images = torch.randn(rows, D)
    task = Task(names, torch.randn(classes, D), images, [names[i % classes] for i in range(rows)])
    spent = []
    # Twice, with one and with three epochs: the difference is steps alone, without the start-up.
    for epochs in (1, 1, 3):
        torch.cuda.reset_peak_memory_stats()
        learner = create(f"proof:epochs={epochs}:batch_size=256", device=device)
        start = time.perf_counter()
        learner.learn(task)
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - start)
    step = (spent[2] - spent[1]) / (2 * (rows // 256))
    memory = torch.cuda.max_memory_allocated() / 1e9
    torch.cuda.reset_peak_memory_stats()
    score = seconds(lambda: learner.scores(images[:4096]), device, 3)
    score_memory = torch.cuda.max_memory_allocated() / 1e9
    print(
        f"{classes:>6} classes: {step * 1e3:7.2f} ms a training step, {memory:5.2f} GB   "
        f"{score * 1e3:7.1f} ms for 4096 pictures, {score_memory:5.2f} GB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    name = (
        torch.cuda.get_device_name()
        if device != "cpu"
        else f"{torch.get_num_threads()} CPU threads"
    )
    print(f"torch {torch.__version__}, {name}, batch {BATCH}, d {D}")
    for classes in (100, 300):
        exact_against_plain(classes, device)
    if device != "cpu":
        print("\nproof, batch 256:")
        for classes in (100, 300, 1000, 3000, 10_000):
            cost_of_classes(classes, device)


if __name__ == "__main__":
    main()
