"""What every method must do, as checks that run over any of them, also over yours.

>>> check_learner("simplecil")
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.embeddings import Embeddings, Split
from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods import Learner, create
from proof.models import read_model, write_model
from proof.streams import Stream, Task

Check = Callable[[str], None]  # of a method's name, with options behind colons

_BUDGET = Budget(per_class=8)
_GOOD = 0.6  # the accuracy that every method has on the clusters of `toy_data`


def check_learner(method: str, skip: Collection[str] = ()) -> None:
    """Run all checks on a method, given as `create` takes it, but for those that `skip` names.

    A check that fails is an AssertionError that says what was expected.
    """
    for check in CHECKS:
        if check.__name__ not in skip:
            check(method)


def toy_data(classes: int = 12, d: int = 16, train: int = 20, test: int = 8) -> Embeddings:
    """Clusters around class centres; the texts are the centres seen through noise.

    >>> toy_data().train.images.shape
    torch.Size([240, 16])
    """
    generator = torch.Generator().manual_seed(7)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    centres = F.normalize(randn(classes, d), dim=1)
    names = tuple(f"class {index}" for index in range(classes))

    def split(count: int) -> Split:
        codes = torch.arange(classes).repeat_interleave(count)
        codes = codes[torch.randperm(len(codes), generator=generator)]
        return Split(9 * (centres[codes] + 0.15 * randn(len(codes), d)), codes, names)

    texts = F.normalize(centres + 0.3 * randn(classes, d), dim=1)
    return Embeddings(split(train), split(test), texts, "made", {"encoder": "none"})


# --- Learning ------------------------------------------------------------------------------------


def check_it_learns(method: str) -> None:
    """Clusters are told apart after three tasks."""
    stream = _stream()
    _expect_good(method, _taught(method, stream), stream)


def check_same_seed_same_numbers(method: str) -> None:
    """Two learners with one seed give the same scores, bit for bit."""
    stream = _stream()
    one, two = (_taught(method, stream, seed=3).scores(_images(stream)) for _ in range(2))
    assert torch.equal(one, two), f"{method}: expected the same scores for the same seed"


def check_new_classes_never_renumber_old_ones(method: str) -> None:
    """Class k is column k, whatever comes later."""
    stream = _stream()
    learner = _taught(method, stream, tasks=1)
    expected = list(stream.classes(0))
    assert learner.classes == expected, f"{method}: expected the order of the task's classes"
    learner.learn(stream.task(1))
    expected += stream.classes(1)
    assert learner.classes == expected, f"{method}: expected new classes behind the old ones"
    _expect_shape(method, learner, stream, len(expected))


def check_order_of_pictures_leaves_classes(method: str) -> None:
    """The pictures of a task may come in any order: the list of classes is that of the task."""
    stream = _stream()
    task, learner = stream.task(0), _new(method)
    back = task.images.flip(0)
    learner.learn(Task(task.classes, task.texts, back, task.labels[::-1]))
    assert learner.classes == list(task.classes), f"{method}: expected the task's own order"


def check_more_pictures_refine_a_class(method: str) -> None:
    """A task may bring more pictures of known classes, of ones known by name, and new ones."""
    stream = _stream()
    learner = _taught(method, stream, tasks=2)
    old, new = stream.task(0), stream.task(2)
    learner.learn(Task(new.classes, new.texts, new.images[:0], []))
    count = learner.pictures[new.classes[0]]
    assert count == 0, f"{method}: expected 0 pictures of a class known by name, found {count}"
    texts, images = torch.cat([old.texts, new.texts]), torch.cat([old.images, new.images])
    learner.learn(Task((*old.classes, *new.classes), texts, images, old.labels + new.labels))
    assert learner.classes == list(stream.order), f"{method}: expected no class twice"
    name = old.classes[0]
    count, expected = learner.pictures[name], 2 * old.labels.count(name)
    assert count == expected, f"{method}: expected {expected} pictures of a class, found {count}"
    _expect_good(method, learner, stream)


def check_an_interrupted_task_leaves_no_trace(method: str) -> None:
    """What stops in the middle of a task is as it was before, and can be taught the task again."""
    stream = _stream()
    learner = _taught(method, stream, tasks=1)
    before = learner.scores(_images(stream))

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    try:
        learner.learn(stream.task(1), interrupt)
    except KeyboardInterrupt:
        same = torch.equal(learner.scores(_images(stream)), before)
        assert same, f"{method}: expected the scores from before the interrupted task"
        learner.learn(stream.task(1))
    straight = _taught(method, stream, tasks=2).scores(_images(stream))
    same = torch.equal(learner.scores(_images(stream)), straight)
    assert same, f"{method}: expected the scores of a task that was never interrupted"


# --- Sizes and names -----------------------------------------------------------------------------


def check_one_class_with_one_picture(method: str) -> None:
    """The smallest task there is, and the smallest batch."""
    learner = _new(method)
    for name in ("one", "two"):
        learner.learn(Task((name,), torch.randn(1, 8), torch.randn(1, 8), [name]))
        scores = learner.scores(torch.randn(2, 8))
        assert scores.isfinite().all(), f"{method}: expected finite scores after one picture"
    shape = tuple(learner.scores(torch.randn(0, 8)).shape)
    assert shape == (0, 2), (
        f"{method}: expected scores of shape (0, 2) of no picture, found {shape}"
    )


def check_five_thousand_classes(method: str) -> None:
    """As many at once, most of them known by their names alone."""
    names = tuple(f"class {index}" for index in range(5000))
    centres = F.normalize(torch.randn(5000, 16, generator=torch.Generator().manual_seed(0)), dim=1)
    some = slice(0, 5000, 10)
    learner = _new(method)
    learner.learn(Task(names, centres, centres[some], list(names[some])))
    shape = tuple(learner.scores(centres[:3]).shape)
    assert shape == (3, 5000), f"{method}: expected scores of shape (3, 5000), found {shape}"
    found, expected = learner.predict(centres[::500]), names[::500]
    right = sum(a == b for a, b in zip(found, expected, strict=True))
    assert right > 5, f"{method}: expected most of 10 among 5,000 classes right, found {right}"


def check_labels_of_any_language(method: str) -> None:
    """Labels are text of any kind and length, and survive being kept."""
    names = ("été 日本 🙂", "x" * 3000, " moka_pot\n", "ﷺ\u200f", "0")
    learner, texts = _new(method), torch.randn(len(names), 8)
    learner.learn(Task(names, texts, torch.randn(len(names), 8), list(names)))
    restored = _new(method)
    restored.restore(learner.state(), learner.classes, learner.tasks)
    assert restored.classes == list(names), f"{method}: expected the labels as they were given"
    assert set(restored.predict(texts)) <= set(names), f"{method}: expected labels as they were"


def check_scoring_before_learning_is_refused(method: str) -> None:
    """Without a class there is nothing to say."""
    _expect_refusal(method, lambda: _new(method).predict(torch.randn(2, 16)), "scores before tasks")


# --- Scoring -------------------------------------------------------------------------------------


def check_a_score_belongs_to_a_picture(method: str) -> None:
    """One picture has the score that it has in a batch, wherever it stands there. A method that
    sets `depends_on_batch` says that it does not hold this."""
    stream, images = _stream(), _images(_stream())
    learner = _taught(method, stream)
    if learner.depends_on_batch:
        return
    together = learner.scores(images)
    alone = torch.cat([learner.scores(images[row : row + 1]) for row in range(len(images))])
    gap = float((alone - together).abs().max())
    assert gap < 1e-4, f"{method}: expected the same score alone as in a batch, {gap:.1g} apart"
    back = learner.scores(images.flip(0)).flip(0)
    gap = float((back - together).abs().max())
    assert gap < 1e-4, f"{method}: expected the same score at any place, {gap:.1g} apart"


def check_classes_known_by_name_are_further_columns(method: str) -> None:
    """Texts add columns for the time of a call: finite ones, or minus infinity for a method that
    cannot tell a class by its name."""
    stream = _stream()
    learner = _taught(method, stream, tasks=2)
    unseen = stream.classes(2)
    names = dict(zip(unseen, stream.data.texts_of(unseen), strict=True))
    scores = learner.scores(_images(stream), names)
    known, further = scores[:, : len(learner.classes)], scores[:, len(learner.classes) :]
    assert further.shape[1] == len(unseen), f"{method}: expected a column for each further name"
    assert known.isfinite().all(), f"{method}: expected finite scores of classes with pictures"
    finite, missing = further.isfinite().all(), (further == -torch.inf).all()
    assert finite or missing, f"{method}: expected further columns to be scores, or all -inf"
    _expect_shape(method, learner, stream, len(learner.classes))


def check_votes_are_of_every_class(method: str) -> None:
    """What the parts of a method say has the shape of the scores."""
    stream = _stream()
    learner = _taught(method, stream, tasks=2)
    votes, expected = learner.votes(_images(stream)), learner.scores(_images(stream)).shape
    assert votes, f"{method}: expected at least one vote"
    for part, vote in votes.items():
        assert vote.shape == expected, f"{method}: expected '{part}' to be {tuple(expected)}"


def check_leaving_one_out(method: str) -> None:
    """`loo_scores`, where a method has it, are the scores of learners that were not taught the
    picture, alone or with others."""
    stream = _stream()
    task, whole = stream.task(0), _taught(method, stream, tasks=1)
    if not hasattr(whole, "loo_scores"):
        return
    rows = [0, 7, 31]
    found = whole.loo_scores(task.images[rows], [task.labels[row] for row in rows])
    for place, row in enumerate(rows):
        gaps = []
        for out in ([row], rows):
            rest = [other for other in range(len(task.labels)) if other not in out]
            learner = _new(method)
            labels = [task.labels[other] for other in rest]
            learner.learn(Task(task.classes, task.texts, task.images[rest], labels))
            gaps.append(float((learner.scores(task.images[[row]])[0] - found[place]).abs().max()))
        gap = min(gaps)
        assert gap < 1e-3, f"{method}: expected the score without the picture, {gap:.1g} apart"


# --- Keeping, forgetting, merging ----------------------------------------------------------------


def check_saving_keeps_scores_bit_for_bit(method: str) -> None:
    """What a model's file gives back scores as what was written."""
    stream = _stream()
    learner, restored = _taught(method, stream), _new(method)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "learner.proof", {}, learner.state())
        state = read_model(Path(folder) / "learner.proof").tensors
    restored.restore(state, learner.classes, learner.tasks)
    same = torch.equal(restored.scores(_images(stream)), learner.scores(_images(stream)))
    assert same, f"{method}: expected the same scores after saving and loading"
    assert restored.pictures == learner.pictures, f"{method}: expected the same counts"


def check_a_resumed_learner_goes_on_as_a_straight_one(method: str) -> None:
    """Kept and restored between two tasks, it ends where one ends that was never stopped."""
    stream = _stream()
    stopped, resumed = _taught(method, stream, tasks=2), _new(method)
    resumed.restore(stopped.state(), stopped.classes, stopped.tasks)
    resumed.learn(stream.task(2))
    straight = _taught(method, stream)
    same = torch.equal(resumed.scores(_images(stream)), straight.scores(_images(stream)))
    assert same, f"{method}: expected the scores of a learner that was never stopped"
    counts = (resumed.trainable_parameters, straight.trainable_parameters)
    assert counts[0] == counts[1], f"{method}: expected equal trainable parameters, found {counts}"


def check_compacting_keeps_scores(method: str) -> None:
    """`compact` makes what is kept smaller and leaves the scores; where nothing is, it is idle."""
    stream = _stream()
    _new(method).compact()
    learner = _taught(method, stream)
    before = learner.scores(_images(stream))
    learner.compact()
    gap = float((learner.scores(_images(stream)) - before).abs().max())
    assert gap < 1e-4, f"{method}: expected the same scores after compact(), {gap:.1g} apart"


def check_a_forgotten_class_is_in_no_output(method: str) -> None:
    """`forget` removes a class from classes, scores and predictions, for good; an `exact` method is
    then as if it had never been taught."""
    stream = _stream()
    task, learner = stream.task(0), _taught(method, stream, tasks=2)
    name = task.classes[1]
    mine = torch.tensor([label == name for label in task.labels])
    learner.forget(name, task.images[mine])
    assert name not in learner.classes, f"{method}: expected '{name}' to be gone from the classes"
    _expect_shape(method, learner, stream, len(learner.classes))
    if learner.exact:
        kept = tuple(label for label in task.classes if label != name)
        never = _new(method)
        labels = [label for label in task.labels if label != name]
        never.learn(Task(kept, stream.data.texts_of(kept), task.images[~mine], labels))
        never.learn(stream.task(1))
        gap = float((never.scores(_images(stream)) - learner.scores(_images(stream))).abs().max())
        assert gap < 1e-3, f"{method} is exact: expected no trace of a class, {gap:.1g} apart"
    learner.learn(stream.task(2))
    expected = [label for label in stream.order if label != name]
    assert learner.classes == expected, f"{method}: expected the other classes in their order"
    _expect_good(method, learner, stream, but=name)


def check_two_halves_merge_into_all_classes(method: str) -> None:
    """Learners taught apart join into one that knows all; those of different methods do not."""
    stream = _stream()
    one, two = _new(method), _new(method)
    one.learn(stream.task(0))
    two.learn(stream.task(1))
    two.learn(stream.task(2))
    one.merge(two)
    assert one.classes == list(stream.order), f"{method}: expected the classes of both"
    _expect_good(method, one, stream)
    other = create("zero-shot" if one.name != "zero-shot" else "simplecil")
    _expect_refusal(method, lambda: one.merge(other), f"merging {other.name} into it")


CHECKS: tuple[Check, ...] = (
    check_it_learns,
    check_same_seed_same_numbers,
    check_new_classes_never_renumber_old_ones,
    check_order_of_pictures_leaves_classes,
    check_more_pictures_refine_a_class,
    check_an_interrupted_task_leaves_no_trace,
    check_one_class_with_one_picture,
    check_five_thousand_classes,
    check_labels_of_any_language,
    check_scoring_before_learning_is_refused,
    check_a_score_belongs_to_a_picture,
    check_classes_known_by_name_are_further_columns,
    check_votes_are_of_every_class,
    check_leaving_one_out,
    check_saving_keeps_scores_bit_for_bit,
    check_a_resumed_learner_goes_on_as_a_straight_one,
    check_compacting_keeps_scores,
    check_a_forgotten_class_is_in_no_output,
    check_two_halves_merge_into_all_classes,
)


@cache
def _stream() -> Stream:
    return Stream.of(toy_data(), "B0-Inc4")


def _images(stream: Stream) -> Tensor:
    return stream.data.test.images


def _new(method: str, seed: int = 0) -> Learner:
    return create(method, seed=seed, budget=_BUDGET)


def _taught(method: str, stream: Stream, tasks: int = 3, seed: int = 0) -> Learner:
    learner = _new(method, seed)
    for index in range(tasks):
        learner.learn(stream.task(index))
    return learner


def _expect_good(method: str, learner: Learner, stream: Stream, but: str = "") -> None:
    found = learner.predict(_images(stream))
    pairs = [(a, b) for a, b in zip(found, stream.data.test.labels, strict=True) if b != but]
    right = sum(a == b for a, b in pairs) / len(pairs)
    assert right > _GOOD, f"{method}: expected over {_GOOD:.0%} right, found {right:.0%}"


def _expect_shape(method: str, learner: Learner, stream: Stream, classes: int) -> None:
    shape, expected = tuple(learner.scores(_images(stream)).shape), (len(_images(stream)), classes)
    assert shape == expected, f"{method}: expected scores of shape {expected}, found {shape}"


def _expect_refusal(method: str, do: Callable[[], object], what: str) -> None:
    try:
        do()
    except ProofError:
        return
    raise AssertionError(f"{method}: expected a ProofError for {what}")
