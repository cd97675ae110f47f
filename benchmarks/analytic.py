"""What adding a class to a large model takes, from file to file, beside teaching it all anew.

    python benchmarks/analytic.py [--classes 1000] [--pictures 100] [--dim 512]

The model is the classifier's default, on made-up embeddings: how long it takes does not depend on
what they mean. "anew" is what one has to do without sums: teach all pictures again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

import proof


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--exemplars", default="50/class")
    given = parser.parse_args()

    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(given.classes + given.repeat, given.dim, generator=generator)

    def pictures(code: int) -> torch.Tensor:
        noise = torch.randn(given.pictures, given.dim, generator=generator)
        return centres[code] + noise

    lesson = {f"class {code}": pictures(code) for code in range(given.classes)}
    model = proof.Classifier(encoder=None, device="cpu", exemplars=given.exemplars)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.proof"
        start = time.perf_counter()
        model.learn(lesson)
        model.save(path)
        anew = time.perf_counter() - start
        size = path.stat().st_size / 1e6
        print(f"{given.classes} classes of {given.pictures} pictures, {size:,.0f} MB")
        for turn in range(given.repeat):
            more = {f"new {turn}": pictures(given.classes + turn)}
            start = time.perf_counter()
            taught = proof.load(path, device="cpu")
            loaded = time.perf_counter()
            taught.learn(more)
            learned = time.perf_counter()
            taught.save(path)
            end = time.perf_counter()
            print(
                f"one class more {end - start:.2f} s (load {loaded - start:.2f}, learn "
                f"{learned - loaded:.2f}, save {end - learned:.2f}), all anew {anew:.1f} s: "
                f"{anew / (end - start):.0f} times as long"
            )
        start = time.perf_counter()
        answer = taught.predict(centres[:1])
        print(f"first prediction after it {time.perf_counter() - start:.2f} s: {answer[0]}")


if __name__ == "__main__":
    main()
