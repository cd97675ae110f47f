"""The table of docs/results.md: CIFAR-100, B0-Inc10, 2000 exemplars, order seed 1993, three seeds.

    python benchmarks/cifar100.py cifar100.safetensors [--device cuda] [--methods proof,simplecil]

Prints a Markdown table. `proof-reference` takes half a minute a seed on a GPU and about an hour on
two CPU cores; leave it out there with --methods.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from proof import Budget, Embeddings, Run, Stream
from proof.reports.groups import settings_of
from proof.reports.tables import with_deviation

METHODS = "zero-shot,simplecil,proof-reference,proof"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    stream = Stream.of(Embeddings.load(given.embeddings), "B0-Inc10")
    records = []
    for method in given.methods.split(","):
        for seed in map(int, given.seeds.split(",")):
            run = Run(method, stream, seed=seed, budget=Budget(total=2000), device=given.device)
            while not run.done:
                run.step()
            records.append(run.record())
            if given.json:
                given.json.write_text(json.dumps(records, indent=1))
    print(f"{stream.data.name}, {stream.protocol}, seeds {given.seeds}, {records[0]['device']}\n")
    print("| method | average | last | forgetting | seconds a run |\n|---|---|---|---|---|")
    for entry in settings_of(records)[0].entries:
        keys = ("average", "last", "forgetting")
        cells = [with_deviation(entry.value(key), len(entry.records)) for key in keys]
        seconds = ", ".join(f"{run['seconds']:.1f}" for run in entry.records)
        print(f"| `{entry.label}` | {' | '.join(cells)} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
