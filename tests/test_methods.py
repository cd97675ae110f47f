"""What every method must do, and what PROOF's parts must do."""

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
METHODS = [*list_methods(), *ABLATIONS]


def taught(method: str, stream: Stream, tasks: int = 3, seed: int = 0) -> Learner:
    learner = create(method, seed=seed, budget=Budget(per_class=4))
    for index in range(tasks):
        learner.learn(stream.task(index))
    return learner


@pytest.mark.parametrize("method", METHODS)
def test_learns_better_than_chance(method: str, stream: Stream) -> None:
    learner = taught(method, stream)
    predicted = learner.predict(stream.data.test.images)
    right = sum(a == b for a, b in zip(predicted, stream.data.test.labels, strict=True))
    assert right / len(predicted) > 0.6


@pytest.mark.parametrize("method", [name for name in METHODS if name != "proof-reference"])
def test_prediction_does_not_depend_on_batch_mates_or_batch_size(
    method: str, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = taught(method, stream)
    images = stream.data.test.images
    together = learner.scores(images)
    alone = torch.cat([learner.scores(images[i : i + 1]) for i in range(len(images))])
    torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-5)
    shuffle = torch.randperm(len(images))
    torch.testing.assert_close(
        learner.scores(images[shuffle]), together[shuffle], rtol=1e-5, atol=1e-5
    )
    monkeypatch.setattr("proof.methods.base._CHUNK", 7)
    torch.testing.assert_close(learner.scores(images), together, rtol=1e-5, atol=1e-5)


def test_the_reference_does_depend_on_batch_mates(stream: Stream) -> None:
    learner = taught("proof-reference", stream)
    images = stream.data.test.images[:32]
    assert (learner.scores(images)[:1] - learner.scores(images[:1])).abs().max() > 1e-4


def test_the_reference_has_dropout(stream: Stream) -> None:
    with_, without = (taught(f"proof-reference:dropout={share}", stream) for share in (0.1, 0.0))
    images = stream.data.test.images
    assert not torch.equal(with_.scores(images), without.scores(images))
    assert torch.equal(with_.scores(images), with_.scores(images)), "but not in testing"


@pytest.mark.parametrize("method", METHODS)
def test_new_classes_never_renumber_old_ones(method: str, stream: Stream) -> None:
    learner = taught(method, stream, tasks=1)
    before = list(learner.classes)
    assert before == list(stream.classes(0))
    learner.learn(stream.task(1))
    assert learner.classes[: len(before)] == before
    assert learner.classes[len(before) :] == list(stream.classes(1))
    assert learner.scores(stream.data.test.images[:3]).shape == (3, 8)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_numbers_bit_for_bit(method: str, stream: Stream) -> None:
    images = stream.data.test.images
    first, second = (taught(method, stream, seed=3).scores(images) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("method", ["proof", "proof-residual", "proof-reference"])
def test_another_seed_gives_other_numbers(method: str, stream: Stream) -> None:
    images = stream.data.test.images
    assert not torch.equal(
        taught(method, stream, seed=0).scores(images), taught(method, stream, seed=1).scores(images)
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_restored_learner_goes_on_as_if_never_stopped(method: str, stream: Stream) -> None:
    straight = taught(method, stream, tasks=3)
    stopped = taught(method, stream, tasks=2)
    fresh = create(method, budget=Budget(per_class=4))
    fresh.restore(stopped.state(), stopped.classes, stopped.tasks)
    images = stream.data.test.images
    assert torch.equal(fresh.scores(images), stopped.scores(images))
    fresh.learn(stream.task(2))
    assert torch.equal(fresh.scores(images), straight.scores(images))
    assert fresh.trainable_parameters == straight.trainable_parameters


@pytest.mark.parametrize("method", list_methods())
def test_classes_known_by_name_alone_are_further_columns(method: str, stream: Stream) -> None:
    learner = taught(method, stream, tasks=2)
    unseen = stream.classes(2)
    names = dict(zip(unseen, stream.data.texts_of(unseen), strict=True))
    test = stream.test(2)
    scores = learner.scores(test.images, names)
    assert scores.shape == (len(test), 12)
    if method in ("simplecil", "lda", "ridge", "linear-probe"):
        assert (scores[:, 8:] == -torch.inf).all()
        return
    assert scores.isfinite().all()
    assert learner.scores(test.images).shape == (len(test), 8), "they leave no trace"
    if method != "proof-reference":  # whose projections start at random
        found = [[*learner.classes, *unseen][code] for code in scores.argmax(1).tolist()]
        right = sum(a == b for a, b in zip(found, test.labels, strict=True))
        assert right / len(test) > 0.3, "texts alone name some of the unseen classes"


@pytest.mark.parametrize("method", list_methods())
def test_an_interrupted_task_leaves_the_learner_as_it_was(method: str, stream: Stream) -> None:
    learner = taught(method, stream, tasks=1)
    images = stream.data.test.images
    before = learner.scores(images)

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    if method.startswith("proof"):
        with pytest.raises(KeyboardInterrupt):
            learner.learn(stream.task(1), interrupt)
    assert learner.classes == list(stream.classes(0))
    assert torch.equal(learner.scores(images), before)
    learner.learn(stream.task(1))
    assert torch.equal(learner.scores(images), taught(method, stream, tasks=2).scores(images))


@pytest.mark.parametrize("method", METHODS)
def test_one_class_with_one_picture_is_a_task(method: str) -> None:
    learner = create(method, budget=Budget(per_class=2))
    for name in ("été 日本 🙂", "x" * 300):
        learner.learn(Task((name,), torch.randn(1, 8), torch.randn(1, 8), [name]))
    assert learner.classes == ["été 日本 🙂", "x" * 300]
    assert learner.scores(torch.randn(2, 8)).isfinite().all()
    assert learner.scores(torch.randn(0, 8)).shape == (0, 2)


@pytest.mark.parametrize("method", list_methods())
def test_scoring_before_learning_is_refused(method: str) -> None:
    with pytest.raises(ProofError, match="no class was learned yet"):
        create(method).predict(torch.randn(2, 16))


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


# --- Known classes again, names alone, forgetting, merging ---------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_more_pictures_of_a_known_class_move_it(method: str, stream: Stream) -> None:
    learner = taught(method, stream, tasks=2)
    task = stream.task(2)
    learner.learn(Task(task.classes, task.texts, task.images[:0], []))
    assert learner.pictures[task.classes[0]] == 0
    mixed = stream.task(0)
    before = learner.scores(stream.data.test.images)
    learner.learn(
        Task(
            (*mixed.classes, *task.classes),
            torch.cat([mixed.texts, task.texts]),
            torch.cat([mixed.images, task.images]),
            mixed.labels + task.labels,
        )
    )
    assert learner.classes == list(stream.order)
    assert learner.pictures[mixed.classes[0]] == 2 * mixed.labels.count(mixed.classes[0])
    predicted = learner.predict(stream.data.test.images)
    right = sum(a == b for a, b in zip(predicted, stream.data.test.labels, strict=True))
    assert right / len(predicted) > 0.6
    assert before.shape == learner.scores(stream.data.test.images).shape


@pytest.mark.parametrize("method", METHODS)
def test_a_forgotten_class_is_in_no_output(method: str, stream: Stream) -> None:
    learner = taught(method, stream, tasks=2)
    name = stream.classes(0)[1]
    learner.forget(name, stream.task(0).images[[x == name for x in stream.task(0).labels]])
    assert name not in learner.classes
    assert name not in learner.predict(stream.data.test.images)
    assert learner.scores(stream.data.test.images).shape[1] == 7
    learner.learn(stream.task(2))
    assert learner.classes == [c for c in stream.order if c != name]
    predicted = learner.predict(stream.data.test.images)
    pairs = [(a, b) for a, b in zip(predicted, stream.data.test.labels, strict=True) if b != name]
    assert sum(a == b for a, b in pairs) / len(pairs) > 0.6


@pytest.mark.parametrize("method", METHODS)
def test_two_halves_merge_into_all_classes(method: str, stream: Stream) -> None:
    one, two = (create(method, budget=Budget(per_class=8)) for _ in range(2))
    one.learn(stream.task(0))
    two.learn(stream.task(1))
    two.learn(stream.task(2))
    one.merge(two)
    assert one.classes == list(stream.order)
    predicted = one.predict(stream.data.test.images)
    right = sum(a == b for a, b in zip(predicted, stream.data.test.labels, strict=True))
    assert right / len(predicted) > 0.6
    with pytest.raises(ProofError, match="both must be the same method"):
        one.merge(create("zero-shot" if method != "zero-shot" else "simplecil"))
