"""What many classes with many features take, beside learning all of them anew for one class more.

    python benchmarks/many_classes.py [--classes 5000] [--features 10240] [--device cuda]

On made-up embeddings: how long it takes does not depend on what they mean.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from proof import Task, create


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=5000)
    parser.add_argument("--pictures", type=int, default=20)
    parser.add_argument("--features", type=int, default=10240)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()

    gpu = given.device.startswith("cuda")
    generator = torch.Generator().manual_seed(0)
    names = tuple(f"class {code}" for code in range(given.classes + 1))
    centres = torch.randn(len(names), given.dim, generator=generator)

    def pictures(codes: torch.Tensor) -> torch.Tensor:
        return centres[codes] + torch.randn(len(codes), given.dim, generator=generator)

    def task(first: int, last: int) -> Task:
        codes = torch.arange(first, last).repeat_interleave(given.pictures)
        labels = [names[code] for code in codes.tolist()]
        return Task(names[first:last], centres[first:last], pictures(codes), labels)

    def seconds(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        if gpu:
            torch.cuda.synchronize(given.device)
        return time.perf_counter() - start

    method = f"analytic:features={given.features}"
    create(method, device=given.device).learn(task(0, 2))  # so that libraries are loaded
    learner = create(method, device=given.device)
    all_but_one, one = task(0, given.classes), task(given.classes, given.classes + 1)
    print(f"{given.classes:,} classes of {given.pictures} pictures, {given.features:,} features")
    learned = seconds(lambda: learner.learn(all_but_one))
    print(f"learn {learned:.2f} s")
    some = torch.arange(1000) % given.classes
    solved = seconds(lambda: learner.scores(pictures(some)))
    print(f"solve, and score {len(some):,} pictures {solved:.2f} s")
    more = seconds(lambda: learner.learn(one))
    print(f"one class more {more:.3f} s: all anew takes {learned / more:.0f} times as long")
    if gpu:
        print(f"peak memory {torch.cuda.max_memory_allocated(given.device) / 1e9:.1f} GB")
    right = learner.scores(pictures(some)).argmax(1).cpu() == some
    print(f"{100 * right.double().mean():.1f} % of these pictures right")


if __name__ == "__main__":
    main()
