"""The methods, by name. A new one is one file: see `docs/adding-a-method.md`."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, TypeVar

from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods.base import Learner

__all__ = ["Learner", "create", "list_methods", "method_class", "register"]

_METHODS: dict[str, type[Learner]] = {}
_BUILTIN = (
    "zero_shot",
    "simplecil",
    "proof",
    "proof_reference",
    "analytic",
    "ridge",
    "lda",
    "tip_adapter",
    "oracle",
)
_L = TypeVar("_L", bound=type[Learner])


def register(name: str) -> Callable[[_L], _L]:
    """Make a learner known by `name`: put `@register("my-method")` above its class."""

    def decorate(learner: _L) -> _L:
        learner.name = name
        _METHODS[name] = learner
        return learner

    return decorate


def list_methods() -> list[str]:
    """The names of all methods: those of the package, and of installed packages that offer
    some through the entry point group `proof.methods`.

    >>> list_methods()  # doctest: +NORMALIZE_WHITESPACE
    ['analytic', 'analytic-large', 'lda', 'linear-probe', 'oracle', 'proof', 'proof-reference',
     'proof-residual', 'ridge', 'simplecil', 'tip-adapter', 'zero-shot']
    """
    for module in _BUILTIN:
        importlib.import_module(f"proof.methods.{module}")
    for entry in entry_points(group="proof.methods"):
        entry.load()
    return sorted(_METHODS)


def method_class(name: str) -> type[Learner]:
    """The learner behind a name."""
    if name not in list_methods():
        raise ProofError(f"no method '{name}': expected one of {', '.join(list_methods())}")
    return _METHODS[name]


def create(
    spec: str,
    *,
    seed: int = 0,
    device: str = "cpu",
    budget: Budget | None = None,
    **options: Any,
) -> Learner:
    """Make a learner from its name, with options behind colons or as keywords.

    >>> create("proof:context=PW:prompt_length=5", epochs=2).options.prompt_length
    5
    """
    name, *assignments = spec.split(":")
    cls = method_class(name)
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ProofError(f"'{assignment}' in method '{spec}': expected option=value")
        options[key] = _read(cls, key, value)
    fields = option_types(cls)
    for key in options:
        if key not in fields:
            has = f"it has {', '.join(fields)}" if fields else "it has none"
            raise ProofError(f"method '{name}' has no option '{key}': {has}")
    return cls(cls.Options(**options), seed=seed, device=device, budget=budget)


def option_types(cls: type[Learner]) -> dict[str, Any]:
    """The options of a method, and the type of each."""
    hints = typing.get_type_hints(cls.Options)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls.Options)}


def _read(cls: type[Learner], key: str, value: str) -> Any:
    kind = option_types(cls).get(key, str)
    if kind is bool:
        words = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
        if value.lower() not in words:
            raise ProofError(f"{cls.name}: option {key}={value}: expected yes or no")
        return words[value.lower()]
    try:
        return kind(value)
    except ValueError:
        raise ProofError(f"{cls.name}: option {key}={value}: expected {kind.__name__}") from None
