"""What PROOF's parts must do, and what is particular to a method; what all have in common is in
`proof.testing`, and `test_check_learner.py` runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from conftest import make_data
from proof import Budget, Learner, ProofError, Stream, Task, create, list_methods
from proof.equations import extra_parameters
from proof.methods import descent
from proof.projections import project, project_all


def taught(method: str, stream: Stream, tasks: int = 3, seed: int = 0) -> Learner:
    learner = create(method, seed=seed, budget=Budget(per_class=4))
    for index in range(tasks):
        learner.learn(stream.task(index))
    return learner


def test_the_reference_does_depend_on_batch_mates(stream: Stream) -> None:
    learner = taught("proof-reference", stream)
    images = stream.data.test.images[:32]
    assert (learner.scores(images)[:1] - learner.scores(images[:1])).abs().max() > 1e-4


def test_the_reference_has_dropout(stream: Stream) -> None:
    with_, without = (taught(f"proof-reference:dropout={share}", stream) for share in (0.1, 0.0))
    images = stream.data.test.images
    assert not torch.equal(with_.scores(images), without.scores(images))
    assert torch.equal(with_.scores(images), with_.scores(images)), "but not in testing"


@pytest.mark.parametrize("method", ["proof", "proof-residual", "proof-reference"])
def test_another_seed_gives_other_numbers(method: str, stream: Stream) -> None:
    images = stream.data.test.images
    assert not torch.equal(
        taught(method, stream, seed=0).scores(images), taught(method, stream, seed=1).scores(images)
    )


def test_scores_do_not_depend_on_how_many_are_made_at_once(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, images = taught("proof", stream), stream.data.test.images
    together = learner.scores(images)
    monkeypatch.setattr("proof.methods.base._CHUNK", 7)
    torch.testing.assert_close(learner.scores(images), together, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "method", ["zero-shot", "proof", "proof-residual", "analytic", "tip-adapter"]
)
def test_texts_alone_name_some_of_the_unseen_classes(method: str, stream: Stream) -> None:
    learner = taught(method, stream, tasks=2)
    unseen = stream.classes(2)
    test, names = stream.test(2), dict(zip(unseen, stream.data.texts_of(unseen), strict=True))
    found = learner.scores(test.images, names).argmax(1).tolist()
    labels = [[*learner.classes, *unseen][code] for code in found]
    assert sum(a == b for a, b in zip(labels, test.labels, strict=True)) / len(test) > 0.3


def test_class_means_know_no_class_by_its_name(stream: Stream) -> None:
    learner = taught("simplecil", stream, tasks=2)
    scores = learner.scores(stream.data.test.images, {"moka pot": torch.ones(16)})
    assert (scores[:, -1] == -torch.inf).all()


def test_tasks_that_do_not_fit_are_refused(stream: Stream) -> None:
    learner = taught("simplecil", stream, tasks=1)
    with pytest.raises(ProofError, match="without classes"):
        learner.learn(Task((), torch.randn(0, 16), torch.randn(0, 16), []))
    with pytest.raises(ProofError, match="2 pictures and 1 labels"):
        learner.learn(Task(("a",), torch.randn(1, 16), torch.randn(2, 16), ["a"]))
    with pytest.raises(ProofError, match="'c' labels a picture but is no class"):
        learner.learn(Task(("a",), torch.randn(1, 16), torch.randn(2, 16), ["a", "c"]))
    with pytest.raises(ProofError, match="names a class twice"):
        learner.learn(Task(("a", "a"), torch.randn(2, 16), torch.randn(1, 16), ["a"]))


# --- PROOF ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "ssf", "adapter"])
def test_old_projections_prompts_and_prototypes_are_frozen(kind: str, stream: Stream) -> None:
    learner = taught(f"proof:projection={kind}", stream, tasks=2)
    old = {name: tensor.clone() for name, tensor in learner.state().items()}
    learner.learn(stream.task(2))
    new = learner.state()
    frozen = [
        name
        for name in old
        if name.split(".")[0] not in ("attention", "exemplars", "exemplar_counts")
    ]
    assert any("projections" in name for name in frozen)
    for name in frozen:
        assert torch.equal(new[name][: len(old[name])], old[name]), name
    assert not torch.equal(new["attention"], old["attention"]), "the fusion learns on"


def test_proof_starts_at_clip_and_each_task_where_the_last_one_ended(stream: Stream) -> None:
    """With a learning rate of next to nothing, projections stay at the identity plus zeros."""
    learner = taught("proof:lr=1e-12:fusion=no", stream)
    images = stream.data.test.images
    zero_shot = taught("zero-shot", stream).scores(images)
    expected = (zero_shot / learner.options.temperature).softmax(1)
    torch.testing.assert_close(learner.scores(images), expected, rtol=1e-4, atol=1e-5)


def test_residual_variant_adds_the_embedding_once_a_task(stream: Stream) -> None:
    learner = taught("proof-residual:lr=1e-12", stream)
    z = F.normalize(stream.data.test.images, dim=1)
    torch.testing.assert_close(project_all(learner.image_projections, z), 3 * z)


@pytest.mark.parametrize("method", ["proof", "proof-residual", "proof:projection=ssf"])
def test_merging_keeps_the_scores_and_saves_the_parameters(method: str, stream: Stream) -> None:
    learner = taught(method, stream)
    images = stream.data.test.images
    before, parameters = learner.scores(images), learner.extra_parameters
    z = F.normalize(images, dim=1)
    apart = torch.stack([project(p, z) for p in learner.image_projections]).sum(0)
    learner.compact()
    torch.testing.assert_close(project(learner.image_projections[0], z), apart)
    torch.testing.assert_close(learner.scores(images), before)
    if "ssf" not in method:
        assert parameters == extra_parameters(16, tasks=3, classes=12)
        assert learner.extra_parameters == extra_parameters(16, tasks=3, classes=12, merged=True)


def test_a_merged_learner_learns_on_as_an_unmerged_one(stream: Stream) -> None:
    apart, merged = taught("proof", stream, tasks=2), taught("proof", stream, tasks=2)
    merged.compact()
    for learner in (apart, merged):
        learner.learn(stream.task(2))
    images = stream.data.test.images
    torch.testing.assert_close(merged.scores(images), apart.scores(images), rtol=1e-3, atol=1e-4)


def test_trainable_parameters_are_the_papers_and_the_authors() -> None:
    stream = Stream.of(make_data(classes=4, d=512, train=3), [2, 2])
    d = 512
    assert taught("proof", stream, 2).trainable_parameters == 5 * d * d + 3 * d
    assert taught("proof:fusion=no", stream, 2).trainable_parameters == 2 * d * d
    assert taught("proof-reference:epochs=1", stream, 1).trainable_parameters == 1_576_961
    assert taught("proof-reference:epochs=1", stream, 2).trainable_parameters == 1_576_961 + 262_656


def test_rehearsal_keeps_old_classes(stream: Stream) -> None:
    """Without exemplars a long, plain training on the newest classes takes from the old ones."""

    def old_accuracy(budget: Budget) -> float:
        learner = create("proof:balanced=no", budget=budget, epochs=30)
        for index in range(3):
            learner.learn(stream.task(index))
        test = stream.test(0)
        predicted = learner.predict(test.images)
        return sum(a == b for a, b in zip(predicted, test.labels, strict=True)) / len(test)

    assert old_accuracy(Budget(per_class=10)) > old_accuracy(Budget(total=0))


def test_balanced_training_favours_new_classes_less(stream: Stream) -> None:
    def share_of_new(method: str) -> float:
        learner = create(method, budget=Budget(per_class=1), epochs=30)
        for index in range(3):
            learner.learn(stream.task(index))
        predicted = learner.predict(stream.data.test.images)
        return sum(name in stream.classes(2) for name in predicted) / len(predicted)

    assert share_of_new("proof") < share_of_new("proof:balanced=no")


# --- Names and options ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("prof", "no method 'prof': expected one of analytic, "),
        ("proof:colour=red", "method 'proof' has no option 'colour': it has projection, "),
        ("simplecil:lr=1", "method 'simplecil' has no option 'lr': it has none"),
        ("proof:prompt_length=few", "prompt_length=few: expected int"),
        ("proof:fusion=maybe", "fusion=maybe: expected yes or no"),
        ("proof:context=CP", "context=CP: expected one of P, W, PW, PWC"),
        ("proof:projection=cubic", "expected one of linear, ssf, adapter, none"),
        ("proof:projection=none:fusion=no", "leaves nothing to learn"),
        ("proof:temperature=0", "must be above 0"),
        ("proof:lr", "expected option=value"),
        ("proof:epochs=0", "must be at least 1"),
        ("proof:prompt_length=-1", "expected 0 or more"),
        ("proof-reference:epochs=0", "must be at least 1"),
        ("proof-reference:dropout=1", "from 0 to below 1"),
    ],
)
def test_wrong_methods_and_options_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ProofError, match=message):
        create(spec)


def test_a_plugin_file_adds_a_method(tmp_path: Path) -> None:
    from proof.methods import _METHODS
    from proof.plugins import load_plugin

    path = tmp_path / "nearest.py"
    path.write_text(
        "from proof.methods import register\n"
        "from proof.methods.simplecil import SimpleCIL\n"
        '@register("mine")\n'
        "class Mine(SimpleCIL):\n"
        '    """Mine."""\n'
    )
    try:
        load_plugin(path)
        assert "mine" in list_methods()
        assert create("mine").name == "mine"
        assert create("simplecil").name == "simplecil"
    finally:
        _METHODS.pop("mine", None)
    with pytest.raises(ProofError, match="no plugin at"):
        load_plugin(tmp_path / "missing.py")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ProofError, match="not a Python file"):
        load_plugin(tmp_path / "notes.txt")


# --- Descent -------------------------------------------------------------------------------------


def quadratic(
    x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda rows: ((x[rows] @ weight - y[rows]) ** 2).mean()


def test_descent_is_torchs_sgd_with_a_cosine() -> None:
    x, y = torch.randn(10, 3), torch.randn(10)
    ours = torch.zeros(3)
    seen: list[torch.Tensor] = []
    loss = quadratic(x, y, ours)

    def watched(rows: torch.Tensor) -> torch.Tensor:
        seen.append(rows.clone())
        return loss(rows)

    settings = {"epochs": 4, "batch_size": 4, "lr": 0.05, "momentum": 0.9}
    descent.descend(
        watched,
        [ours],
        10,
        **settings,
        generator=torch.Generator().manual_seed(0),
        progress=lambda s: None,
    )
    assert torch.bincount(torch.cat(seen)).tolist() == [4] * 10, "each row is seen once an epoch"

    theirs = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([theirs], lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for rows in seen:
        optimizer.zero_grad()
        quadratic(x, y, theirs)(rows).backward()
        optimizer.step()
        schedule.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
