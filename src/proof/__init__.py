"""Keep teaching a vision-language model: class-incremental learning on a frozen CLIP.

>>> import proof
>>> stream = proof.Stream.of(proof.Embeddings.load("cifar100-small"), "B0-Inc10")
>>> learner = proof.create("simplecil")
>>> learner.learn(stream.task(0))
>>> learner.learn(stream.task(1))
>>> learner.predict(stream.test(1).images[::120])
['bear', 'lamp', 'tractor']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from proof.embeddings import Embeddings as Embeddings
    from proof.errors import ProofError as ProofError
    from proof.exemplars import Budget as Budget
    from proof.methods import Learner as Learner
    from proof.methods import create as create
    from proof.methods import list_methods as list_methods
    from proof.methods import register as register
    from proof.models.classifier import Classifier as Classifier
    from proof.models.classifier import load as load
    from proof.runs import Run as Run
    from proof.streams import Stream as Stream
    from proof.streams import Task as Task

# Where each public name lives. They are imported when first used, so that `proof --help` and
# `import proof` do not wait for torch.
_HOME = {
    "Budget": "proof.exemplars",
    "Classifier": "proof.models.classifier",
    "Embeddings": "proof.embeddings",
    "Learner": "proof.methods",
    "ProofError": "proof.errors",
    "Run": "proof.runs",
    "Stream": "proof.streams",
    "Task": "proof.streams",
    "create": "proof.methods",
    "list_methods": "proof.methods",
    "load": "proof.models.classifier",
    "register": "proof.methods",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'proof' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
