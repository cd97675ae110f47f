"""How methods fare where classes differ in size: from all pictures of one class to a single one.

    python benchmarks/long_tail.py cifar100-small [--methods zero-shot,proof,analytic]

The number of pictures falls evenly on a logarithmic scale over the classes, in an order of its own.
All classes are taught in one task and count the same in the accuracies.
"""

from __future__ import annotations

import argparse

import torch

from proof import Budget, Embeddings, Task, create

METHODS = "zero-shot,simplecil,ridge,lda,linear-probe,proof,analytic:features=4096,analytic"
FEW = 5  # pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings")
    parser.add_argument("--methods", default=METHODS)
    given = parser.parse_args()
    data = Embeddings.load(given.embeddings)
    names, train, test = data.class_names, data.train, data.test
    most = int(train.codes.bincount().max())
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(1)).tolist()
    counts = torch.empty(len(names))
    for place, code in enumerate(order):
        counts[code] = max(1, int(most ** (1 - place / (len(names) - 1))))
    rows = torch.cat(
        [(train.codes == code).nonzero()[: int(n), 0] for code, n in enumerate(counts)]
    )
    labels = [names[code] for code in train.codes[rows].tolist()]
    task = Task(names, data.texts, train.images[rows], labels)

    few = counts <= FEW
    print(f"{data.name}: {len(rows):,} pictures, 1 to {most} a class\n")
    print(f"| method | all {len(names)} classes | {int(few.sum())} with up to {FEW} | the others |")
    print("|---|---|---|---|")
    for method in given.methods.split(","):
        learner = create(method, budget=Budget(per_class=20))
        learner.learn(task)
        right = (learner.scores(test.images).argmax(1).cpu() == test.codes).double()
        share = torch.zeros(len(names), dtype=torch.float64).index_add_(0, test.codes, right)
        share *= 100 / test.codes.bincount(minlength=len(names))
        parts = (share.mean(), share[few].mean(), share[~few].mean())
        print(f"| `{method}` | {' | '.join(f'{part:.1f}' for part in parts)} |", flush=True)


if __name__ == "__main__":
    main()
