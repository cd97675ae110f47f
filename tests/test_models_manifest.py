"""What a file says is believed only where it can be true: damage and malice give one line."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import proof
from conftest import make_data
from proof import Classifier, ProofError, list_methods
from proof.models import read_model, write_model

DATA = make_data(classes=6, d=8, train=12)
GOLDEN = Path(__file__).parent / "data" / "classifier-1.proof"

Parts = tuple[dict[str, Any], dict[str, Tensor]]


def parts(method: str, folder: Path) -> Parts:
    """The manifest and tensors of a model of everything: two lessons, a class by name, a log."""
    classifier = Classifier(None, method=method, device="cpu")
    for start in (0, 3):
        names = DATA.class_names[start : start + 3]
        classifier.learn({name: DATA.train.of((name,)).images for name in names})
    classifier.learn({"teapot": []}, texts={"teapot": torch.ones(8)})
    classifier.rename("class 4", "class four")
    path = folder / "model.proof"
    classifier.calibrate()
    classifier.save(path)
    model = read_model(path)
    return model.manifest, model.tensors


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return parts("simplecil", tmp_path_factory.mktemp("simple"))


def reload(manifest: dict[str, Any], tensors: dict[str, Tensor], path: Path) -> Classifier:
    path.unlink(missing_ok=True)
    write_model(path, manifest, tensors)
    return proof.load(path, device="cpu")


def change(*keys: Any, to: Any) -> Callable[[dict[str, Any], dict[str, Tensor]], None]:
    def apply(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        inner: Any = manifest
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return apply


def tensor(name: str, to: Callable[[Tensor], Tensor]) -> Any:
    return lambda manifest, tensors: tensors.update({name: to(tensors[name])})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change("kind", to="classifier 2"), "'classifier 2': expected 'classifier 1'"),
        (change("classes", to="moka pot"), "'classes' is str: expected list"),
        (change("classes", 0, to=3), "'classes' holds int"),
        (change("classes", 1, "name", to="class 0"), "a class stands there twice"),
        (change("classes", 0, "name", to=""), "is empty"),
        (change("classes", 0, "pictures", to=-1), "'pictures' is no number of things"),
        (change("classes", 0, "pictures", to=1), "fewer pictures than it was taught with"),
        (change("classes", 0, "pictures", to=10**400), "'pictures' is no number"),
        (change("classes", 0, "first", to="yesterday"), "'first' is no time"),
        (change("classes", 0, "first", to="2026-01-01"), "'first' is no time"),
        (change("log", 0, "classes", to=[3]), "'classes' holds int"),
        (change("log", 0, "accuracy", to=1000.0), "'accuracy' is not between"),
        (change("dim", to=7), "tensor 'texts' is torch.float16 of shape"),
        (change("dim", to=0), "tensor 'texts'"),
        (change("lessons", to=1), "of no class or lesson"),
        (change("method", "name", to="magic"), "no method 'magic'"),
        (change("method", "options", to={"lr": 1.0}), "has no option 'lr'"),
        (change("method", "seed", to=2**40), "seed"),
        (change("method", "tasks", to=True), "'tasks' is bool"),
        (change("exemplars", to="lots"), "exemplars 'lots'"),
        (change("source", "template", to="{}{}"), "needs one {}"),
        (change("source", "preprocess", to="blur"), "'preprocess' is 'blur'"),
        (change("source", "encoder", to=["x"]), "'encoder' is list"),
        (change("calibration", "temperature", to=0.0), "temperature is 0.0"),
        (change("calibration", "temperature", to=None), "'temperature' is NoneType"),
        (lambda manifest, tensors: manifest.pop("log"), "'log' is missing"),
        (lambda manifest, tensors: tensors.pop("texts"), "tensor 'texts' is missing"),
        (lambda manifest, tensors: tensors.pop("kept.held"), "tensor 'kept.held' is missing"),
        (lambda manifest, tensors: tensors.pop("learner.taught"), "."),
        (tensor("texts", lambda t: t.float()), "tensor 'texts' is torch.float32"),
        (tensor("texts", lambda t: t * torch.nan), "tensor 'texts' has NaN"),
        (tensor("kept.vectors", lambda t: t[:, :3]), "tensor 'kept.vectors'"),
        (tensor("kept.classes", lambda t: t + 9), "of no class or lesson"),
        (tensor("kept.classes", lambda t: t - 9), "of no class or lesson"),
        (tensor("learner.taught", lambda t: t * 0), "not that of 6 classes"),
        (tensor("learner.taught", lambda t: t + 99), "not those of simplecil"),
        (tensor("learner.counts", lambda t: -t), "taught without a picture"),
        (tensor("learner.counts", lambda t: t[1:]), "not that of 6 classes"),
        (tensor("learner.prototypes", lambda t: t / 0), "has NaN or infinite"),
        (tensor("learner.prototypes", lambda t: t[:, :2]), "do not fit together"),
        (tensor("learner.prototypes", lambda t: t[:2]), "not that of 6 classes"),
        (tensor("calibration", lambda t: t * torch.nan), "tensor 'calibration' has NaN"),
    ],
)
def test_what_cannot_be_is_refused(spoil: Any, message: str, simple: Parts, tmp_path: Path) -> None:
    manifest, tensors = copy.deepcopy(simple)
    spoil(manifest, tensors)
    with pytest.raises(ProofError, match=message) as caught:
        reload(manifest, tensors, tmp_path / "model.proof")
    text = str(caught.value)
    assert text.startswith(f"cannot read '{tmp_path / 'model.proof'}': ")
    assert text.isprintable(), "one line"


ODD: list[Any] = [
    None, True, 0, -1, 3, 2**31, 2**63, 10**30, 0.5, -1e300, "", "x", "0", "proof", [], [[]], {},
    {"name": 1}, ["class 0"] * 3, "\u202e", "x" * 5000,
]  # fmt: skip


def mutate(value: Any, rng: random.Random) -> Any:
    """Another value somewhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: mutate(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        if rng.random() < 0.2:
            return rng.choice([value[:place], value * 2, value[::-1]])
        return [*value[:place], mutate(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD)


def bend(tensors: dict[str, Tensor], rng: random.Random) -> dict[str, Tensor]:
    """One tensor of another shape, type or value, or gone, or under another name."""
    name = rng.choice(list(tensors))
    found = tensors[name]
    other = rng.choice(list(tensors))
    changes: list[Callable[[], Any]] = [
        lambda: {key: value for key, value in tensors.items() if key != name},
        lambda: {**tensors, name: tensors[other]},
        lambda: {**tensors, name: found[:-1] if found.ndim else found},
        lambda: {**tensors, name: found.reshape(-1)},
        lambda: {**tensors, name: found[None]},
        lambda: {**tensors, name: torch.cat([found, found]) if found.ndim else found},
        lambda: {**tensors, name: found.to(rng.choice([torch.float64, torch.int64, torch.uint8]))},
        lambda: {**tensors, name: found.float() * rng.choice([torch.nan, torch.inf, 0.0, 1e30])},
        lambda: {**tensors, name: (found.float() - 1e6).to(found.dtype)},
        lambda: {**tensors, name: torch.zeros(0)},
        lambda: {**tensors, f"learner.{rng.choice(['named', 'x', 'exemplars'])}": found},
    ]
    changed: dict[str, Tensor] = rng.choice(changes)()
    return changed


def loaded_or_none(
    manifest: dict[str, Any], tensors: dict[str, Tensor], path: Path
) -> Classifier | None:
    try:
        return reload(manifest, tensors, path)
    except ProofError as error:
        if "\n" in str(error):
            pytest.fail(f"not one line: {error}")
        return None


@pytest.mark.filterwarnings("ignore:.*T.*deprecated")
@pytest.mark.parametrize("method", list_methods())
def test_any_change_loads_or_is_one_line(method: str, tmp_path: Path) -> None:
    """What loads must also answer."""
    manifest, tensors = parts(method, tmp_path)
    rng = random.Random(method)
    refused = 0
    for _ in range(120):
        wrong = mutate(manifest, rng) if rng.random() < 0.5 else manifest
        bent = bend(tensors, rng) if wrong is manifest else tensors
        if not isinstance(wrong, dict):
            continue
        classifier = loaded_or_none(wrong, bent, tmp_path / "model.proof")
        refused += classifier is None
        if classifier and classifier.classes:
            shares = classifier.predict_proba(DATA.test.images)
            assert shares.shape == (len(DATA.test), len(classifier.classes))
            classifier.card()
    assert refused > 40


def test_a_huge_claim_takes_no_memory(tmp_path: Path) -> None:
    """Numbers in a manifest never decide how much is allocated."""
    manifest, tensors = parts("proof-reference", tmp_path)
    manifest["method"]["tasks"] = 10**11
    with pytest.raises(ProofError, match="not those of proof-reference"):
        reload(manifest, tensors, tmp_path / "model.proof")
    manifest["method"]["tasks"] = 2
    manifest["method"]["options"]["epochs"] = 10**9
    with pytest.raises(ProofError, match="option 'epochs' of proof-reference is above 100,000"):
        reload(manifest, tensors, tmp_path / "model.proof")
    manifest["method"]["options"]["epochs"] = 5
    wide = torch.ones(7, 10**6, dtype=torch.float16)
    manifest["dim"] = 10**6
    with pytest.raises(ProofError):
        reload(manifest, {**tensors, "texts": wide, "learner.texts": wide}, tmp_path / "m.proof")


def test_todays_file_still_loads() -> None:
    """A file of the first version, taught by `parts("proof")`: what it says must never change."""
    classifier = proof.load(GOLDEN, device="cpu")
    assert classifier.pictures == {
        "class 0": 12, "class 1": 12, "class 2": 12, "class 3": 12, "class four": 12, "class 5": 12,
        "teapot": 0,
    }  # fmt: skip
    assert classifier.predict(torch.eye(8)).tolist() == [
        "class 1", "class 5", "class 2", "class four", "teapot", "class 1", "teapot", "class 1",
    ]  # fmt: skip
    assert classifier.predict_proba(torch.eye(8)).max(1).tolist() == pytest.approx(
        [0.7848, 0.9681, 0.6496, 1.0, 0.504, 0.9136, 0.6992, 0.9853], abs=1e-3
    )
    assert [step.what for step in classifier.log] == ["learn", "learn", "learn", "rename"]
    assert classifier.forget("class four").complete
    classifier.learn({"cup": torch.eye(8)[:2]})


def test_todays_file_of_sums_still_loads() -> None:
    """Of `analytic` without exemplars: sums, not solved yet."""
    classifier = proof.load(GOLDEN.with_name("classifier-1-analytic.proof"), device="cpu")
    assert classifier.predict(torch.eye(8)).tolist() == [
        "teapot", "class 5", "class 2", "class 4", "teapot", "teapot", "teapot", "class 1",
    ]  # fmt: skip
    assert classifier.predict_proba(torch.eye(8)).max(1).tolist() == pytest.approx(
        [0.915, 0.5719, 0.7969, 0.9989, 0.983, 0.861, 0.9564, 0.6614], abs=1e-3
    )
    classifier.learn({"cup": torch.eye(8)[:2]})
    assert "cup" in classifier.predict(torch.eye(8)[:2])
