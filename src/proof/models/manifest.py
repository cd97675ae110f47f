"""What a classifier's file says, and how it is checked before it is believed."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import proof
from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods import create, method_class, option_types
from proof.methods.base import Learner
from proof.models.calibration import Calibration
from proof.models.header import field
from proof.models.knowledge import Knowledge
from proof.models.memory import Memory
from proof.models.results import Step

KIND = "classifier 1"


@dataclass(frozen=True)
class Source:
    """Where embeddings come from. What is not known is None."""

    encoder: str | None
    fingerprint: str | None = None
    preprocess: str = "squash"
    preprocessing: str | None = None
    template: str = "a photo of a {}."


def describe(known: Knowledge, source: Source) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The manifest and the tensors of a file."""
    learner, calibration = known.learner, known.calibration
    pictures = known.pictures
    manifest = {
        "kind": KIND,
        "source": dataclasses.asdict(source),
        "dim": known.dim or 0,
        "method": {
            "name": learner.name,
            "options": dataclasses.asdict(learner.options),
            "seed": learner.seed,
            "tasks": learner.tasks,
        },
        "exemplars": str(known.budget),
        "lessons": known.lessons,
        "classes": [
            {"name": name, "pictures": pictures[name], "first": first, "last": last}
            for name, (first, last) in ((name, known.dates[name]) for name in known.classes)
        ],
        "log": [dataclasses.asdict(step) | {"classes": list(step.classes)} for step in known.log],
        "calibration": {
            name: value
            for name, value in dataclasses.asdict(calibration).items()
            if name != "known"
        },
        "versions": {
            "proof": proof.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    state = learner.state()
    for name in ("exemplars", "exemplar_counts"):  # they are among those that are kept
        state.pop(name, None)
    tensors = {f"learner.{name}": tensor for name, tensor in state.items()}
    kept = known.memory.state(known.classes)
    tensors |= {f"kept.{name}": tensor for name, tensor in kept.items()}
    if known.texts:
        tensors["texts"] = torch.stack([known.texts[name] for name in known.classes])
    tensors["calibration"] = torch.tensor(calibration.known)
    return manifest, tensors


def rebuild(
    manifest: dict[str, Any], tensors: Mapping[str, Tensor], where: str, device: str
) -> tuple[Knowledge, Source]:
    """The inverse of `describe`; what cannot be is an error in one line."""
    if field(manifest, "kind", str, where=where) != KIND:
        raise ProofError(f"{where}: '{manifest['kind'][:40]}' is no {KIND}")
    source = Source(**field(manifest, "source", dict, where=where))
    method = field(manifest, "method", dict, where=where)
    budget = Budget.parse(field(manifest, "exemplars", str, where=where))
    entries = field(manifest, "classes", list, of=dict, where=where)
    classes = [field(entry, "name", str, where=where) for entry in entries]
    learner = fresh_learner(method, device, budget)
    state = {k.removeprefix("learner."): v for k, v in tensors.items() if k.startswith("learner.")}
    learner.restore(state, classes, method["tasks"])
    memory = Memory()
    kept = {k.removeprefix("kept."): v for k, v in tensors.items() if k.startswith("kept.")}
    memory.restore(kept, classes)
    steps = [Step(**{**s, "classes": tuple(s["classes"])}) for s in manifest["log"]]
    known = Knowledge(
        learner,
        budget,
        memory,
        dict(zip(classes, tensors["texts"], strict=True)) if classes else {},
        {entry["name"]: (entry["first"], entry["last"]) for entry in entries},
        steps,
        manifest["lessons"],
    )
    numbers = manifest["calibration"]
    known.restore_calibration(Calibration(**numbers, known=tuple(tensors["calibration"].tolist())))
    known.rehearse()
    return known, source


def fresh_learner(method: dict[str, Any], device: str, budget: Budget) -> Learner:
    """A learner of the method that a manifest describes, that has learned nothing."""
    return create(
        method["name"], seed=method["seed"], device=device, budget=budget, **method["options"]
    )


def spec_of(learner: Learner) -> str:
    """What `create` takes to make such a learner: its name, and options that are not the default.

    >>> spec_of(create("proof:epochs=3:fusion=yes"))
    'proof:epochs=3'
    """
    defaults = method_class(learner.name).Options()
    changed = [
        f":{name}={getattr(learner.options, name)}"
        for name in option_types(type(learner))
        if getattr(learner.options, name) != getattr(defaults, name)
    ]
    return learner.name + "".join(changed)
