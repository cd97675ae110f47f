"""Learning from sums: what follows exactly from addition, and what is chosen without test data."""

from __future__ import annotations

from operator import eq
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from conftest import make_data
from proof import Embeddings, Learner, ProofError, Stream, Task, create
from proof.closed_form import (
    _RIDGES,
    _TRUST,
    Sums,
    _first,
    _problem,
    _solve_at,
    pack,
    quadratic_features,
    solve,
    unpack,
)

EXACT = "analytic:precision=float64:features=60"


def pictures(classes: int, each: int, d: int = 8, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, d, generator=generator)
    codes = torch.arange(classes).repeat_interleave(each)
    images = centres[codes] + 0.7 * torch.randn(len(codes), d, generator=generator)
    return images, codes, F.normalize(centres + torch.randn(classes, d, generator=generator), dim=1)


def task_of(images: Tensor, codes: Tensor, texts: Tensor) -> Task:
    present = codes.unique().tolist()
    return Task(
        tuple(f"c{code}" for code in present),
        texts[present],
        images,
        [f"c{code}" for code in codes.tolist()],
    )


def same(one: Learner, two: Learner, images: Tensor) -> None:
    """Equal scores, whatever the order of the classes."""
    assert set(one.classes) == set(two.classes)
    columns = [two.classes.index(name) for name in one.classes]
    torch.testing.assert_close(
        one.scores(images), two.scores(images)[:, columns], rtol=0, atol=1e-6
    )


def taught(*tasks: Task) -> Learner:
    learner = create(EXACT)
    for task in tasks:
        learner.learn(task)
    return learner


# --- What follows from addition ------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(1, 7),
    st.integers(0, 10**6),
    st.lists(st.integers(1, 9), max_size=8),
)
def test_any_order_and_any_cut_gives_the_model_of_all_at_once(
    classes: int, each: int, seed: int, cuts: list[int]
) -> None:
    images, codes, texts = pictures(classes, each, seed=seed)
    order = torch.randperm(len(codes), generator=torch.Generator().manual_seed(seed))
    parts, start = [], 0
    for size in [*cuts, len(codes)]:
        rows = order[start : start + size]
        start += size
        if len(rows):
            parts.append(task_of(images[rows], codes[rows], texts))
    same(taught(task_of(images, codes, texts)), taught(*parts), torch.randn(9, 8))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(1, 7), st.integers(0, 10**6))
def test_one_picture_at_a_time_works(classes: int, each: int, seed: int) -> None:
    images, codes, texts = pictures(classes, each, seed=seed)
    singles = [task_of(images[i : i + 1], codes[i : i + 1], texts) for i in range(len(codes))]
    same(taught(task_of(images, codes, texts)), taught(*singles), torch.randn(9, 8))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(2, 7), st.integers(0, 10**6))
def test_merging_is_addition(classes: int, each: int, seed: int) -> None:
    images, codes, texts = pictures(classes, each, seed=seed)
    mine = torch.rand(len(codes), generator=torch.Generator().manual_seed(seed)) < 0.5
    mine[0], mine[-1] = True, False
    one = taught(task_of(images[mine], codes[mine], texts))
    one.merge(taught(task_of(images[~mine], codes[~mine], texts)))
    same(one, taught(task_of(images, codes, texts)), torch.randn(9, 8))


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 6), st.integers(1, 7), st.integers(0, 10**6))
def test_forgetting_a_class_is_as_if_it_was_never_taught(
    classes: int, each: int, seed: int
) -> None:
    images, codes, texts = pictures(classes, each, seed=seed)
    learner = taught(task_of(images, codes, texts))
    learner.forget("c1", images[codes == 1])
    same(learner, taught(task_of(images[codes != 1], codes[codes != 1], texts)), torch.randn(9, 8))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(2, 7), st.integers(0, 10**6))
def test_forgetting_pictures_is_subtraction(classes: int, each: int, seed: int) -> None:
    images, codes, texts = pictures(classes, each, seed=seed)
    learner = taught(task_of(images, codes, texts))
    gone = torch.zeros(len(codes), dtype=torch.bool)
    gone[[1, -1]] = True
    learner.unlearn(images[gone], [f"c{code}" for code in codes[gone].tolist()])
    same(learner, taught(task_of(images[~gone], codes[~gone], texts)), torch.randn(9, 8))


def test_a_class_whose_pictures_are_all_unlearned_is_known_by_name() -> None:
    images, codes, texts = pictures(3, 4)
    learner = taught(task_of(images, codes, texts))
    learner.unlearn(images[codes == 1], ["c1"] * 4)
    assert learner.pictures == {"c0": 4, "c1": 0, "c2": 4}
    assert learner.scores(images).isfinite().all()
    with pytest.raises(ProofError, match="cannot unlearn 5 pictures of 'c0': it was taught 4"):
        learner.unlearn(images[:5], ["c0"] * 5)


def test_without_its_pictures_a_class_is_forgotten_but_for_the_scatter_of_all() -> None:
    images, codes, texts = pictures(4, 10)
    learner = taught(task_of(images, codes, texts))
    learner.forget("c2")
    assert learner.classes == ["c0", "c1", "c3"]
    right = [a == f"c{b}" for a, b in zip(learner.predict(images), codes, strict=True) if b != 2]
    assert sum(right) / len(right) > 0.7


def test_nothing_is_kept_but_sums() -> None:
    images, codes, texts = pictures(5, 20)
    learner = taught(task_of(images, codes, texts))
    few, many = (
        learner.state(),
        taught(task_of(images.repeat(9, 1), codes.repeat(9), texts)).state(),
    )
    assert {name: tensor.shape for name, tensor in few.items()} == {
        name: tensor.shape for name, tensor in many.items()
    }


def test_to_predict_takes_the_solution_alone() -> None:
    images, codes, texts = pictures(5, 20)
    learner = taught(task_of(images, codes, texts))
    features, d = 8 + 8 * 9 // 2, 8  # all there are
    of_solution = features * 5 + features + 5 + 5 + 7
    assert learner.inference_parameters == of_solution + 5 * d
    assert learner.total_parameters > features * features / 2 + learner.inference_parameters


# --- What the solution is ------------------------------------------------------------------------


def sums_of(images: Tensor, codes: Tensor, classes: int, features: int = 40) -> Sums:
    phi = quadratic_features(F.normalize(images.double(), dim=1), features)
    sums = Sums.empty(phi.shape[1], torch.float64, phi.device)
    sums.grow(classes)
    sums.add(phi, codes)
    return sums


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 2000))
def test_a_packed_matrix_is_unpacked(size: int, block: int) -> None:
    matrix = torch.randn(size, size)
    matrix = matrix + matrix.T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proof.closed_form._STRIPE", block)
        assert torch.equal(unpack(pack(matrix), size), matrix)


def test_files_hold_stripes_of_256_rows() -> None:
    """Models in files are packed so: it must never change."""
    matrix = torch.randn(300, 300)
    stripes = [matrix[:256, :256].flatten(), matrix[256:].flatten()]
    assert torch.equal(pack(matrix), torch.cat(stripes))


def test_sums_in_blocks_are_the_plain_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.closed_form._BLOCK", 7)
    images, codes, _ = pictures(3, 6)
    phi = quadratic_features(F.normalize(images.double(), dim=1), 40)
    sums = sums_of(images, codes, 3)
    torch.testing.assert_close(sums.gram, phi.T @ phi)
    torch.testing.assert_close(sums.totals, F.one_hot(codes).double().T @ phi)


def test_features_are_the_embedding_and_all_its_products() -> None:
    z = F.normalize(torch.randn(50, 6, dtype=torch.float64), dim=1)
    phi = quadratic_features(z, 1000)
    assert phi.shape == (50, 6 + 21)
    assert torch.equal(phi[:, :6], z)
    # All quadratic forms are in their span, and no feature is there twice.
    form = torch.randn(6, 6, dtype=torch.float64)
    wanted = ((z @ form) * z).sum(1, keepdim=True)
    residual = wanted - phi @ torch.linalg.lstsq(phi, wanted).solution
    assert residual.abs().max() < 1e-9
    assert torch.linalg.matrix_rank(phi[:, 6:]) == 21


def test_ridge_and_discriminant_analysis_are_the_textbook_ones() -> None:
    images, codes, _ = pictures(4, 30)
    images, codes = images[10:], codes[10:]  # 20 of the first class, 30 of the others
    sums = sums_of(images, codes, 4)
    phi = quadratic_features(F.normalize(images.double(), dim=1), 40)
    centred, y = phi - phi.mean(0), F.one_hot(codes).double()
    problem = _problem(sums, None)
    scatter = centred.T @ centred
    penalty = 0.1 * scatter.diagonal().sum() / min(len(phi) - 1, phi.shape[1])
    eye = torch.eye(phi.shape[1], dtype=torch.float64)
    balanced = (y - y.mean(0)) * len(y) / (4 * y.sum(0))
    ridge = torch.linalg.solve(scatter + penalty * eye, centred.T @ balanced)
    solution = _solve_at(problem, 0.1, "ridge")
    told = (solution.weight / ridge).mean(0) / solution.picture_weight
    torch.testing.assert_close(solution.weight, told * ridge * solution.picture_weight)
    torch.testing.assert_close(told[1:], torch.ones(3, dtype=torch.float64))
    assert 0.8 < told[0] < 1, "of fewer pictures a little less is told"
    means = (y.T @ centred) / y.sum(0)[:, None]
    within = centred - y @ means
    lda = torch.linalg.solve(within.T @ within + penalty * eye, means.T)
    lda, bias = told * lda, -0.5 * told**2 * (means.T * lda).sum(0)
    solution = _solve_at(problem, 0.1, "lda")
    scale = solution.weight.norm() / lda.norm()
    torch.testing.assert_close(solution.weight, lda * scale)
    torch.testing.assert_close(solution.bias, bias * scale)


def test_the_error_is_about_that_of_leaving_out_each_picture() -> None:
    images, codes, _ = pictures(5, 12)
    sums = sums_of(images, codes, 5)
    phi = quadratic_features(F.normalize(images.double(), dim=1), 40)
    solution = _solve_at(_problem(sums, None), 0.1, "ridge")
    left_out = torch.empty(len(codes), 5, dtype=torch.float64)
    for i in range(len(codes)):
        rest = torch.arange(len(codes)) != i
        without = _solve_at(_problem(sums_of(images[rest], codes[rest], 5), None), 0.1, "ridge")
        left_out[i] = without.score(phi[i : i + 1])
    y = F.one_hot(codes).double() - 0.2
    explained = (left_out * y).sum() ** 2 / ((left_out**2).sum() * (y**2).sum())
    assert abs(solution.error - (1 - float(explained))) < 0.1


def test_a_ridge_that_many_features_make_too_small_is_raised() -> None:
    """What fits the first features may, with all of them, leave nothing out to judge by."""
    images, codes, texts = pictures(6, 20, d=128)
    features = quadratic_features(F.normalize(images, dim=1), 2000)
    sums = Sums.empty(2000, torch.float32, torch.device("cpu"))
    sums.grow(6)
    sums.add(features, codes)
    small = _solve_at(_problem(sums, texts), _RIDGES[0], "both")
    assert small.leverage > _TRUST
    raised = solve(sums, texts.shape[1], texts, ridge=_RIDGES[0])
    assert raised.leverage <= _TRUST
    assert raised.picture_weight > 0.5 > small.picture_weight


def test_the_ridge_is_chosen_as_if_all_features_stood_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the first features, in which products weigh what they weigh in all of them."""
    monkeypatch.setattr("proof.closed_form._SEARCH", 60)
    images, codes, _ = pictures(6, 20, d=24)
    few, many, more = (_first(sums_of(images, codes, 6, count), 24) for count in (60, 100, 300))
    for sums in (many, more):
        torch.testing.assert_close(sums.gram, few.gram)
        torch.testing.assert_close(sums.totals, few.totals)


def test_leaving_out_pictures_uses_models_that_never_saw_them() -> None:
    images, codes, texts = pictures(5, 12)
    learner = taught(task_of(images, codes, texts))
    labels = [f"c{code}" for code in codes.tolist()]
    scores = learner.loo_scores(images, labels)
    wrong = list(labels)
    wrong[3] = "c4"  # taught with a wrong label, a picture is not found to be of that class
    odd = create(EXACT)
    odd.learn(Task(tuple(dict.fromkeys(labels)), texts, images, wrong))
    assert scores.shape == (60, 5)
    assert odd.loo_scores(images, wrong)[3].argmax() == scores[3].argmax() == 0
    shuffled = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    again = learner.loo_scores(images[shuffled], [labels[i] for i in shuffled.tolist()])
    agree = (again.argmax(1) == scores[shuffled].argmax(1)).float().mean()
    assert agree > 0.7


def test_float32_sums_score_as_float64_ones_do() -> None:
    data = Embeddings.load("cifar100-small")
    stream = Stream.of(data, "B0-Inc50")
    scores = []
    for precision in ("float32", "float64"):
        learner = create(f"analytic:features=1024:precision={precision}")
        learner.learn(stream.task(0))
        scores.append(learner.scores(stream.test(0).images))
    assert (scores[0] - scores[1]).abs().max() < 2e-3


# --- Texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shots", [0, 1, 2, 5, 20])
def test_with_names_it_is_never_worse_than_zero_shot(shots: int) -> None:
    data = Embeddings.load("cifar100-small")
    codes = data.train.codes
    rows = torch.cat([(codes == code).nonzero()[:shots, 0] for code in range(100)])
    labels = [data.class_names[code] for code in codes[rows].tolist()]
    learner = create("analytic:features=1024")
    learner.learn(Task(data.class_names, data.texts, data.train.images[rows], labels))
    right = (learner.scores(data.test.images).argmax(1) == data.test.codes).float().mean()
    zero_shot = (
        F.normalize(data.test.images.float(), dim=1) @ F.normalize(data.texts.float(), dim=1).T
    )
    plain = (zero_shot.argmax(1) == data.test.codes).float().mean()
    assert right > plain if shots else right == plain


@pytest.mark.parametrize(("classes", "shots"), [(2, 1), (2, 2), (5, 1), (5, 2), (10, 1), (10, 2)])
def test_a_picture_or_two_of_a_few_classes_do_not_outweigh_names(classes: int, shots: int) -> None:
    """Nothing of them can be left out to judge by, or little: on average over draws."""
    data = Embeddings.load("cifar100-small")
    gains = []
    for draw in range(20):
        order = torch.randperm(100, generator=torch.Generator().manual_seed(draw))
        names = tuple(data.class_names[code] for code in order[:classes].tolist())
        train, test = data.train.of(names), data.test.of(names)
        rows = [
            row for row, label in enumerate(train.labels) if train.labels[:row].count(label) < shots
        ]
        labels = [train.labels[row] for row in rows]
        task = Task(names, data.texts_of(names), train.images[rows], labels)
        right = []
        for method in ("analytic:features=1024", "zero-shot"):
            learner = create(method)
            learner.learn(task)
            right.append(sum(map(eq, learner.predict(test.images), test.labels)) / len(test.labels))
        gains.append(right[0] - right[1])
    assert fmean(gains) > -0.003


@pytest.mark.parametrize(("least", "gain"), [(1, 0.02), (2, 0.05)])
def test_classes_with_few_pictures_hold_beside_those_with_many(least: int, gain: float) -> None:
    """60 pictures of the first class, ever fewer of others: better than zero-shot on all, and on
    those with few pictures not much worse."""
    data = Embeddings.load("cifar100-small")
    codes, order = data.train.codes, torch.randperm(100, generator=torch.Generator().manual_seed(1))
    counts = {code: max(least, int(60 * 0.95**place)) for place, code in enumerate(order.tolist())}
    rows = torch.cat([(codes == code).nonzero()[:n, 0] for code, n in counts.items()])
    labels = [data.class_names[code] for code in codes[rows].tolist()]
    learner = create("analytic:features=1024")
    learner.learn(Task(data.class_names, data.texts, data.train.images[rows], labels))
    right = learner.scores(data.test.images).argmax(1) == data.test.codes
    plain = create("zero-shot")
    plain.learn(Task(data.class_names, data.texts, data.train.images[rows], labels))
    by_name = plain.scores(data.test.images).argmax(1) == data.test.codes
    few = torch.tensor([counts[code] <= 3 for code in data.test.codes.tolist()])
    assert right.double().mean() > by_name.double().mean() + gain
    assert right[few].double().mean() > by_name[few].double().mean() - 0.02


def test_texts_that_say_nothing_are_ignored() -> None:
    data = make_data(classes=12, d=16, train=40)
    generator = torch.Generator().manual_seed(1)
    noise = F.normalize(torch.randn(12, 16, generator=generator), dim=1)
    sums = sums_of(data.train.images, data.train.codes, 12, features=100)
    assert solve(sums, noise.shape[1], noise.double()).text_weight < 0.1
    assert solve(sums, data.dim, data.texts.double()).text_weight > 0


def test_a_class_known_by_name_alone_is_found_beside_taught_ones() -> None:
    data = Embeddings.load("cifar100-small")
    stream = Stream.of(data, "B0-Inc50")
    learner = create("analytic:features=2048")
    learner.learn(stream.task(0))
    unseen = stream.classes(1)
    learner.learn(Task(unseen, data.texts_of(unseen), data.train.images[:0], []))
    predicted = learner.predict(stream.test(1).images)
    found = sum(a == b for a, b in zip(predicted, stream.test(1).labels, strict=True))
    assert found / len(predicted) > 0.5
