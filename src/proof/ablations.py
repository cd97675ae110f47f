"""The paper's ablations (its section "Ablation Study"), as data: a question each, and the runs that
answer it.

`proof ablate NAME DATA` runs one. The settings are the paper's; what it does not say is left at
our defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proof.errors import ProofError
from proof.paper import table


@dataclass(frozen=True)
class Ablation:
    """A question, and the runs that answer it."""

    asks: str
    axis: str  # what is varied, in words
    methods: dict[str, str]  # a label, and what `proof bench --methods` takes
    varies: Literal["method", "data", "protocol"] = "method"  # data: behind several encoders
    numbers: bool = False  # whether the labels are numbers, to be drawn as a line over them


_COMPARED = {name: name for name in ("zero-shot", "simplecil", "proof")}

ABLATIONS = {
    "components": Ablation(
        "What does each part of PROOF add?",
        "parts",
        {
            "CLIP alone": "zero-shot",
            "projections": "proof:fusion=no",
            "fusion": "proof:projection=none:context=PW",
            "projections, fusion": "proof:context=PW",
            "projections, fusion, prompts": "proof",
        },
    ),
    "prompt-length": Ablation(
        "How long must the context prompt of a task be?",
        "prompt length",
        {str(c): f"proof:prompt_length={c}" for c in (*range(1, 11), 30, 50, 100)},
        numbers=True,
    ),
    "context": Ablation(
        "What should the fusion see: prototypes P, texts W, prompts C?",
        "context",
        {
            "[P]": "proof:context=P",
            "[W]": "proof:context=W",
            "[P, W]": "proof:context=PW",
            "[P, W, C]": "proof:context=PWC",
        },
    ),
    "projection": Ablation(
        "Which kind of projection is best?",
        "projection",
        {
            "SSF": "proof:projection=ssf",
            "adapter": "proof:projection=adapter",
            "linear": "proof:projection=linear",
        },
    ),
    "backbone": Ablation(
        "Does PROOF stay ahead behind other encoders?",
        "encoder",
        _COMPARED,
        "data",
    ),
    "task-sizes": Ablation(
        "Does PROOF stay ahead with more, fewer or unequal tasks?",
        "protocol",
        _COMPARED,
        "protocol",
    ),
}

_MOST_TASKS = 20


def find_ablation(name: str) -> Ablation:
    """An ablation by its name.

    >>> find_ablation("projection").methods["SSF"]
    'proof:projection=ssf'
    """
    if name not in ABLATIONS:
        raise ProofError(f"no ablation '{name}': expected one of {', '.join(ABLATIONS)}")
    return ABLATIONS[name]


def task_cuts(classes: int) -> list[str | list[int]]:
    """Ways to cut so many classes into tasks: 2 to 20 equal ones, and the paper's unequal ones
    where they add up.

    >>> task_cuts(100)  # doctest: +NORMALIZE_WHITESPACE
    ['B0-Inc5', 'B0-Inc10', 'B0-Inc20', 'B0-Inc25', 'B0-Inc50',
     [12, 13, 10, 14, 5, 13, 13, 14, 6]]
    """
    equal = [size for size in range(1, classes) if not classes % size]
    cuts: list[str | list[int]] = [
        f"B0-Inc{size}" for size in equal if classes // size <= _MOST_TASKS
    ]
    streams = dict.fromkeys(row.protocol for row in table("varied").rows)
    published = [[int(size) for size in stream.split(",")] for stream in streams]
    cuts += [sizes for sizes in published if sum(sizes) == classes]
    if not cuts:
        raise ProofError(
            f"{classes} classes cannot be cut into 2 to {_MOST_TASKS} equal tasks: name the ways, "
            f"such as --protocols B{classes % 10}-Inc10,B{classes % 20}-Inc20"
        )
    return cuts
