"""What a classifier's file says, and how it is checked before it is believed.

`proof.models.header` has seen to it that the file is whole. Here every entry of the manifest and
every tensor must be possible, and fit the others, before a classifier is made of them.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import torch
from torch import Tensor

import proof
from proof.datasets.base import check_template
from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods import create, method_class, option_types
from proof.methods.base import Learner
from proof.methods.sums import SUMMED, SumsLearner
from proof.models.calibration import Calibration
from proof.models.header import field
from proof.models.knowledge import Knowledge
from proof.models.lazy_encoder import Source
from proof.models.material import check_label
from proof.models.memory import Memory
from proof.models.results import Step
from proof.pictures.preprocessing import CHOICES

KIND = "classifier 1"
_FEW = 1000  # pictures that take less room than sums of them, and little time to sum again
_LARGEST = 10**12  # of anything that is counted
_LARGEST_OPTION = 10**5  # a method may allocate by its options when it is taught on

Entry = dict[str, Any]


def describe(known: Knowledge, source: Source) -> tuple[Entry, dict[str, Tensor]]:
    """The manifest and the tensors of a file."""
    learner, calibration = known.learner, known.fitted  # not made for this: it may take long
    found = dataclasses.asdict(calibration or Calibration(learner.scale.temperature))
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
            {"name": name, "pictures": known.pictures[name], "first": first, "last": last}
            for name, (first, last) in ((name, known.dates[name]) for name in known.classes)
        ],
        "log": [dataclasses.asdict(step) | {"classes": list(step.classes)} for step in known.log],
        "calibration": {name: found[name] for name in found if name != "known"}
        | {"made": calibration is not None},
        "versions": {
            "proof": proof.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    tensors = {}
    if calibration:
        tensors["calibration"] = torch.tensor(calibration.known, dtype=torch.float64)
    left_out: tuple[str, ...] = ("exemplars", "exemplar_counts")  # they are among what is kept
    if isinstance(learner, SumsLearner) and learner.known and known.keeps_all(at_most=_FEW):
        _ = learner.solution  # is kept, so that scores stay as they are, bit for bit
        learner.recall(*known.memory.part(held=False))  # goes on just as one that is loaded
        left_out += SUMMED
    for name, tensor in learner.state().items():
        if name not in left_out:
            tensors[f"learner.{name}"] = tensor
    memory = known.memory
    place = {label: code for code, label in enumerate(known.classes)}
    if len(memory):
        tensors["kept.vectors"], tensors["kept.lessons"] = memory.vectors, memory.lessons
        tensors["kept.held"] = memory.held
        codes = [place[label] for label in memory.labels]
        tensors["kept.classes"] = torch.tensor(codes, dtype=torch.int32)
    if known.texts:
        tensors["texts"] = torch.stack([known.texts[name] for name in known.classes])
    return manifest, tensors


def rebuild(
    manifest: Entry, tensors: Mapping[str, Tensor], device: str
) -> tuple[Knowledge, Source]:
    """The inverse of `describe`. What is wrong is a ProofError that says what."""
    if field(manifest, "kind", str) != KIND:
        raise ProofError(f"its kind is '{manifest['kind'][:40]}': expected '{KIND}'")
    source = _source(field(manifest, "source", dict))
    budget = Budget.parse(field(manifest, "exemplars", str))
    lessons = _count(manifest, "lessons")
    entries = [_class(entry) for entry in field(manifest, "classes", list, of=dict)]
    classes = [name for name, *_ in entries]
    if len(set(classes)) != len(classes):
        raise ProofError("a class stands there twice")
    texts = _texts(tensors, classes, _optional(manifest, "dim", int))
    learner = _learner(field(manifest, "method", dict), tensors, classes, budget, device)
    dim = len(texts[0]) if classes else 0
    summed = f"learner.{SUMMED[0]}" in tensors
    _try(learner, dim)
    fitted = field(manifest, "calibration", dict)
    known = Knowledge(
        learner,
        budget,
        _memory(tensors, classes, dim, lessons),
        dict(zip(classes, texts, strict=True)),
        {name: count for name, count, *_ in entries},
        {name: (first, last) for name, _, first, last in entries},
        [_step(entry) for entry in field(manifest, "log", list, of=dict)],
        lessons,
        _calibration(fitted, tensors) if fitted.get("made", True) else None,
    )
    for name, count in learner.pictures.items():
        if known.pictures[name] < count:
            raise ProofError(f"class {name!a} has fewer pictures than it was taught with")
    known.rehearse()
    if isinstance(learner, SumsLearner) and learner.known and not summed:
        learner.recall(*known.memory.part(held=False))
    return known, source


def spec_of(learner: Learner) -> str:
    """What `create` takes to make such a learner: its name, and options that are not the default.

    >>> spec_of(create("proof:epochs=3:fusion=no:context=PWC"))
    'proof:fusion=no:epochs=3'
    """
    defaults, spec = method_class(learner.name).Options(), learner.name
    for name in option_types(type(learner)):
        value = getattr(learner.options, name)
        if value != getattr(defaults, name):
            text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            spec += f":{name}={text}"
    return spec


def _optional(entry: Entry, name: str, kind: type[Any]) -> Any:
    return None if entry.get(name, "") is None else field(entry, name, kind)


def _count(entry: Entry, name: str) -> int:
    value = field(entry, name, int)
    if not 0 <= value <= _LARGEST:
        raise ProofError(f"'{name}' is no number of things")
    return value


def _date(entry: Entry, name: str) -> str:
    text = field(entry, name, str)
    try:
        aware = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        aware = False
    if not aware:
        raise ProofError(f"'{name}' is no time: {text[:40]!a}")
    return text


def _percent(entry: Entry, name: str) -> float | None:
    value: float | None = _optional(entry, name, float)
    if value is not None and not 0 <= value <= 100:
        raise ProofError(f"'{name}' is not between 0 and 100")
    return value


def _source(entry: Entry) -> Source:
    source = Source(
        _optional(entry, "encoder", str),
        _optional(entry, "fingerprint", str),
        field(entry, "preprocess", str),
        _optional(entry, "preprocessing", str),
        field(entry, "template", str),
    )
    if source.preprocess not in CHOICES:
        raise ProofError(f"'preprocess' is {source.preprocess[:40]!a}: expected one of {CHOICES}")
    check_template(source.template)
    return source


def _class(entry: Entry) -> tuple[str, int, str, str]:
    name = field(entry, "name", str)
    check_label(name)
    return name, _count(entry, "pictures"), _date(entry, "first"), _date(entry, "last")


def _step(entry: Entry) -> Step:
    return Step(
        _date(entry, "when"),
        field(entry, "what", str),
        tuple(field(entry, "classes", list, of=str)),
        _count(entry, "pictures"),
        _percent(entry, "accuracy"),
    )


def _calibration(entry: Entry, tensors: Mapping[str, Tensor]) -> Calibration:
    known = _tensor(tensors, "calibration", torch.float64, (None,))
    temperature: float = field(entry, "temperature", float)
    if not 1e-30 < temperature < 1e30:
        raise ProofError(f"the temperature is {temperature}: expected a number above 0")
    return Calibration(
        float(temperature),
        _count(entry, "pictures"),
        _percent(entry, "accuracy"),
        _percent(entry, "ece_before"),
        _percent(entry, "ece_after"),
        tuple(known.sort().values.tolist()),
    )


def _texts(tensors: Mapping[str, Tensor], classes: Sequence[str], dim: int | None) -> Tensor:
    if not classes:
        return torch.zeros(0, 0, dtype=torch.float16)
    texts = _tensor(tensors, "texts", torch.float16, (len(classes), dim))
    if not dim:
        raise ProofError("its embeddings have no numbers")
    return texts


def _memory(
    tensors: Mapping[str, Tensor], classes: Sequence[str], dim: int, lessons: int
) -> Memory:
    memory = Memory()
    if not any(name.startswith("kept.") for name in tensors):
        return memory
    memory.vectors = _tensor(tensors, "kept.vectors", torch.float16, (None, dim))
    count = len(memory.vectors)
    codes = _tensor(tensors, "kept.classes", torch.int32, (count,))
    memory.lessons = _tensor(tensors, "kept.lessons", torch.int32, (count,))
    memory.held = _tensor(tensors, "kept.held", torch.bool, (count,))
    for numbers, low, high in ((codes, 0, len(classes) - 1), (memory.lessons, 1, lessons)):
        if count and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
            raise ProofError("the pictures that are kept are of no class or lesson")
    memory.labels = [classes[code] for code in codes.tolist()]
    return memory


def _tensor(
    tensors: Mapping[str, Tensor], name: str, kind: torch.dtype, shape: tuple[int | None, ...]
) -> Tensor:
    if name not in tensors:
        raise ProofError(f"tensor '{name}' is missing")
    tensor = tensors[name]
    fits = len(shape) == tensor.ndim and all(
        wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True)
    )
    if tensor.dtype != kind or not fits:
        raise ProofError(
            f"tensor '{name}' is {tensor.dtype} of shape {tuple(tensor.shape)}: expected {kind} of "
            f"{shape}"
        )
    _check_finite(name, tensor)
    return tensor


def _check_finite(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point() or not tensor.numel():
        return
    low, high = tensor.aminmax()  # many times as fast as to look at each, and NaN comes through
    if not (low.isfinite() and high.isfinite()):
        raise ProofError(f"tensor '{name}' has NaN or infinite numbers")


def _learner(
    method: Entry,
    tensors: Mapping[str, Tensor],
    classes: list[str],
    budget: Budget,
    device: str,
) -> Learner:
    name, options = field(method, "name", str), field(method, "options", dict)
    kinds = option_types(method_class(name))
    for option, value in options.items():
        kind = kinds.get(option, type(value))
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ProofError(f"option '{option}' of {name} is {type(value).__name__}")
        if isinstance(value, int) and abs(value) > _LARGEST_OPTION:
            raise ProofError(f"option '{option}' of {name} is above {_LARGEST_OPTION:,}")
    seed, tasks = _count(method, "seed"), _count(method, "tasks")
    learner = create(name, seed=seed, device=device, budget=budget, **options)
    prefix = "learner."
    state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    for key, tensor in state.items():
        _check_finite(f"{prefix}{key}", tensor)
    try:
        learner.restore(state, classes, tasks)
    except Exception as error:  # a method may fail in any way on tensors that are not its own
        raise ProofError(f"its tensors are not those of {name}: {_line(error)}") from None
    return learner


def _try(learner: Learner, dim: int) -> None:
    """Look at it all once, so that what cannot work fails now and not later."""
    if not learner.classes:
        return
    try:
        if not isinstance(learner, SumsLearner):  # whose sums may be made of pictures yet
            learner.state()
        right = learner.works(dim)
    except Exception as error:
        raise ProofError(f"its tensors do not fit together: {_line(error)}") from None
    if not right:
        raise ProofError("its tensors do not fit together: no picture can be scored")


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
