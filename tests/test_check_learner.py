"""The public suite of checks runs over every method, and finds what is wrong with a bad one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from proof import create, list_methods, register
from proof.methods import _METHODS
from proof.methods.simplecil import SimpleCIL
from proof.testing import CHECKS, Check, check_learner

ABLATIONS = [
    "proof:fusion=no",
    "proof:projection=none",
    "proof:prompt_length=0",
    "proof:context=P",
    "proof:context=W",
    "proof:context=PW",
    "proof:projection=ssf",
    "proof:projection=adapter:adapter_width=4",
    "proof:balanced=no",
    "proof:prompt_length=7",
]
BY_NAMES = ("known_by_name", "five_thousand", "language", "before_learning", "interrupted", "votes")
NOT_FOR = {  # check and method: why
    ("check_five_thousand_classes", "proof-reference"): "it copies all classes for each picture",
}


@pytest.mark.parametrize("method", list_methods())
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_method(check: Check, method: str) -> None:
    if reason := NOT_FOR.get((check.__name__, method)):
        pytest.skip(reason)
    check(method)


@pytest.mark.parametrize("method", ABLATIONS)
def test_ablation(method: str) -> None:
    check_learner(
        method, skip=[c.__name__ for c in CHECKS if any(n in c.__name__ for n in BY_NAMES)]
    )


# --- Methods that are wrong, each in one way -----------------------------------------------------


class Batchy(SimpleCIL):
    """Its scores depend on the batch."""

    def _scorer(self, texts: Tensor | None) -> Any:
        inner = super()._scorer(texts)
        return lambda images: inner(images) - inner(images).mean(0)


class Renumbering(SimpleCIL):
    """Sorts its classes."""

    def learn(self, task: Any, progress: Any = None) -> None:
        super().learn(task, progress)
        self.classes.sort()


class Forgetful(SimpleCIL):
    """Saves not all of what it learned."""

    def _tensors(self) -> dict[str, Tensor]:
        return {"prototypes": self.prototypes.half().float()}


class Random(SimpleCIL):
    """Draws from the global generator."""

    def _learn(self, *arguments: Any) -> None:
        super()._learn(*arguments)
        self.prototypes = self.prototypes + 1e-3 * torch.randn_like(self.prototypes)


class Clinging(SimpleCIL):
    """Says that it forgets exactly, and moves another class instead."""

    def _forget(self, code: int, images: Tensor | None) -> None:
        super()._forget(code, images)
        self.prototypes = self.prototypes.roll(1, dims=1)


class Optimistic(SimpleCIL):
    """Leaves nothing out."""

    def loo_scores(self, images: Tensor, labels: Any) -> Tensor:
        return self.scores(images)


@pytest.fixture
def wrong(request: pytest.FixtureRequest) -> Iterator[str]:
    register("wrong")(request.param)
    yield "wrong"
    _METHODS.pop("wrong")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Batchy, "expected the same score alone as in a batch"),
        (Renumbering, "expected the order of the task's classes"),
        (Forgetful, "expected the same scores after saving"),
        (Random, "expected the same scores for the same seed"),
        (Clinging, "expected no trace of a class"),
        (Optimistic, "expected the score without the picture"),
    ],
    indirect=["wrong"],
)
def test_a_wrong_method_is_found(wrong: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_learner(wrong)


def test_a_method_may_declare_that_it_depends_on_the_batch() -> None:
    assert create("proof-reference").depends_on_batch
    assert not create("proof").depends_on_batch
