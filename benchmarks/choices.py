"""The choices behind `analytic`, made on training pictures alone: a fifth of them is held out.

    python benchmarks/choices.py cifar100.safetensors cub200.safetensors flowers102.safetensors

Test pictures are not looked at. All figures are accuracies on what is held out, means over three
ways of doing so. How much worse than the best error a ridge may be, the slack, is taken where the
mean over methods and sets is best; of values within 0.02 of that, the least.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from proof import Embeddings, Learner, Stream, Task, create
from proof import closed_form as cf
from proof.devices import choose_device
from proof.embeddings import Split
from proof.methods import sums
from proof.methods.analytic import Analytic, AnalyticOptions
from proof.metrics import harmonic_mean

SLACKS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.15)
RULES = ("ridge", "lda", "both")
SPLITS = (0, 1, 2)
TASKS = 10
FEATURES = 5000  # where maps are compared
NEAR = 0.02


# --- Other features ------------------------------------------------------------------------------
#
# Each maps unit vectors (n, d) to m numbers, of a length of about one, to stand beside the vectors.


def relu(z: Tensor, m: int) -> Tensor:
    return F.relu(z @ _normal(z, m)) * math.sqrt(2 / m)


def squares(z: Tensor, m: int) -> Tensor:
    return (z @ _normal(z, m)) ** 2 / math.sqrt(3 * m)


def random_products(z: Tensor, m: int) -> Tensor:
    one, two = (z @ _normal(z, 2 * m)).chunk(2, dim=1)
    return one * two / math.sqrt(m)


def fourier(z: Tensor, m: int) -> Tensor:
    """Of a Gaussian kernel of width 0.7, by directions that are orthogonal."""
    d, half = z.shape[1], m // 2
    normal = _normal(z, math.ceil(half / d) * d)
    turned = [torch.linalg.qr(part)[0] * part.norm(dim=0) for part in normal.split(d, dim=1)]
    angles = z @ torch.cat(turned, dim=1)[:, :half] / 0.7
    return torch.cat([angles.cos(), angles.sin()], dim=1) / math.sqrt(half)


def coordinates(z: Tensor, m: int) -> Tensor:
    return cf.quadratic_features(z, z.shape[1] + m)[:, z.shape[1] :]


MAPS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "random ReLU": relu,
    "orthogonal Fourier": fourier,
    "squares of random projections": squares,
    "products of random projections": random_products,
    "products of coordinates": coordinates,
}


def _normal(z: Tensor, m: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(z.shape[1], m, generator=generator).to(z)


class Mapped(Analytic):
    """`analytic` on other features."""

    others: Callable[[Tensor, int], Tensor]

    def _features(self, z: Tensor) -> Tensor:
        return torch.cat([z, self.others(z, self.options.features - z.shape[1])], dim=1)


# --- Choices -------------------------------------------------------------------------------------


def by_slack(stream: Stream, method: str, device: str) -> dict[float, float]:
    """The average accuracy for each slack."""
    seen: dict[float, list[float]] = {slack: [] for slack in SLACKS}
    learner = create(method, device=device)
    for place in range(len(stream)):
        learner.learn(stream.task(place))
        total, texts = learner.sums, learner.texts
        part = cf._problem(cf._first(total, texts.shape[1]), texts)
        known: dict[float, float] = {}
        for slack in SLACKS:
            cf._SLACK = slack
            ridge = cf._RIDGES[cf._choose_ridge(part)]
            if ridge not in known:
                learner._solution = learner._solve(total, texts, ridge)
                known[ridge] = _accuracy(stream, place, learner)
            seen[slack].append(known[ridge])
    return {slack: fmean(values) for slack, values in seen.items()}


def by_rule(stream: Stream, device: str) -> dict[str, float]:
    """The average accuracy of regression, discriminant analysis and both."""
    seen: dict[str, list[float]] = {rule: [] for rule in RULES}
    learner = create("analytic", device=device)
    for place in range(len(stream)):
        learner.learn(stream.task(place))
        total, texts, ridge = learner.sums, learner.texts, learner.solution.ridge
        for rule in RULES:
            learner._solution = cf.solve(total, texts.shape[1], texts, rule, ridge)
            seen[rule].append(_accuracy(stream, place, learner))
    return {rule: fmean(values) for rule, values in seen.items()}


def by_map(data: Embeddings, device: str) -> dict[str, float]:
    """The accuracy with all classes, for other features."""
    found, stream = {}, Stream.of(data, [len(data.class_names)])
    for name, others in MAPS.items():
        learner = Mapped(AnalyticOptions(features=FEATURES), device=device)
        learner.others = others
        learner.learn(stream.task(0))
        found[name] = _accuracy(stream, 0, learner)
    return found


def by_constant(data: Embeddings, few: Few, device: str) -> dict[str, float]:
    """The accuracy for each value of a constant that counts where pictures are few; where classes
    are known by name alone, also the harmonic mean of theirs and that of the others."""
    chosen = getattr(few.module, few.constant)
    found: defaultdict[str, list[float]] = defaultdict(list)

    def judge(key: str, right: Tensor, shown: Tensor) -> None:
        found[key].append(float(right.mean()))
        if not shown.all():
            both = (float(right[those].mean()) for those in (shown, ~shown))
            found[f"{key}, harmonic mean"].append(harmonic_mean(*both))

    for draw in range(few.draws):
        task, test = _drawn(data, few, draw)
        shown = torch.tensor([label in task.labels for label in test.labels])
        plain, learner = (
            create(method, device=device) for method in ("zero-shot", "analytic:features=4096")
        )
        plain.learn(task)
        learner.learn(task)
        judge("`zero-shot`", _right(plain, test), shown)
        for value in few.values:
            setattr(few.module, few.constant, value)
            learner._solution = None
            key = f"{value} (ours)" if value == chosen else f"{value}"
            judge(key, _right(learner, test), shown)
        setattr(few.module, few.constant, chosen)
    return {key: fmean(values) for key, values in found.items()}


def _drawn(data: Embeddings, few: Few, draw: int) -> tuple[Task, Split]:
    generator = torch.Generator().manual_seed(draw)
    order = torch.randperm(len(data.class_names), generator=generator).tolist()
    names = tuple(data.class_names[code] for code in order[: few.classes])
    left = {name: few.pictures(place / (len(names) - 1)) for place, name in enumerate(names)}
    train, rows, labels = data.train.of(names), [], []
    for row, label in enumerate(train.labels):
        if left[label]:
            left[label] -= 1
            rows.append(row)
            labels.append(label)
    return Task(names, data.texts_of(names), train.images[rows], labels), data.test.of(names)


def _right(learner: Learner, test: Split) -> Tensor:
    """100 for each picture that is told right, else 0."""
    told = zip(learner.predict(test.images), test.labels, strict=True)
    return 100 * torch.tensor([label == true for label, true in told]).double()


@dataclass(frozen=True)
class Few:
    """Classes with few pictures, and a constant that counts there."""

    title: str
    pictures: Callable[[float], int]  # of a class by its place, 0 to 1
    module: ModuleType
    constant: str
    values: tuple[float, ...]
    classes: int | None = None
    draws: int = 1


def one(place: float) -> int:
    return 1


def two(place: float) -> int:
    return 2


def one_to_hundred(place: float) -> int:
    return int(100**place)


def half(place: float) -> int:
    return 1000 if place < 0.5 else 0


NAMES = (1, 2, 3, 4, 5, 7, 10)
LEAST, WORTH, LITTLE = (0.05, 0.1, 0.2, 0.4), (0.75, 1.5, 3.0, 6.0), (3, 10, 30)
FEW = (
    Few("one picture of each of 5 classes", one, cf, "_LEAST", LEAST, 5, 10),
    Few("one picture of each of 5 classes", one, cf, "_WORTH", WORTH, 5, 10),
    Few("one picture of each class", one, cf, "_WORTH", WORTH),
    Few("one picture of each class", one, cf, "_FEW", LITTLE),
    Few("two pictures of each of 5 classes", two, cf, "_FEW", LITTLE, 5, 10),
    Few("1 to 100 pictures of each class", one_to_hundred, cf, "_FEW", LITTLE),
    Few("half of the classes by name", half, sums, "_NAMES", NAMES),
)


def _accuracy(stream: Stream, place: int, learner: Learner) -> float:
    """On all classes up to task `place`."""
    tests = (stream.test(index) for index in range(place + 1))
    return float(torch.cat([_right(learner, test) for test in tests]).mean())


def held_out(data: Embeddings, seed: int) -> Embeddings:
    """Four fifths of the training pictures, to be tried on the others."""
    train = data.train
    held = torch.rand(len(train.codes), generator=torch.Generator().manual_seed(seed)) < 0.2
    learned, tried = (
        replace(train, images=train.images[rows], codes=train.codes[rows]) for rows in (~held, held)
    )
    return replace(data, train=learned, test=tried)


def ten_tasks(data: Embeddings) -> Stream:
    size, rest = divmod(len(data.class_names), TASKS)
    return Stream.of(data, [size] * (TASKS - 1) + [size + rest])


# --- Tables --------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings", nargs="+")
    parser.add_argument("--methods", default="analytic,analytic-large")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    device = choose_device(given.device)
    files = [Embeddings.load(path) for path in given.embeddings]
    sets = [data.name for data in files]

    def table(title: str, choose: Callable[[Embeddings], dict]) -> dict:
        """A column for each set; what is returned is the mean of each row."""
        columns = []
        for data in files:
            found = [choose(held_out(data, seed)) for seed in SPLITS]
            columns.append({key: fmean(one[key] for one in found) for key in found[0]})
        print(f"\n| {title} | {' | '.join(sets)} | mean |\n|{'---|' * (len(sets) + 2)}")
        means = {key: fmean(column[key] for column in columns) for key in columns[0]}
        for key, mean in means.items():
            shown = f"{key:.0%}" if isinstance(key, float) else key
            figures = " | ".join(f"{column[key]:.2f}" for column in columns)
            print(f"| {shown} | {figures} | {mean:.2f} |", flush=True)
        return means

    def slacks(method: str) -> dict:
        title = f"slack, `{method}`"
        return table(title, lambda data: by_slack(ten_tasks(data), method, device))

    found = [slacks(method) for method in given.methods.split(",")]
    means = {slack: fmean(one[slack] for one in found) for slack in SLACKS}
    best = max(means.values())
    slack = min(slack for slack, mean in means.items() if mean >= best - NEAR)
    print(f"\nslack: {slack:.0%}, of {', '.join(f'{k:.0%} {v:.3f}' for k, v in means.items())}")
    cf._SLACK = slack
    table("rule", lambda data: by_rule(ten_tasks(data), device))
    table("features", lambda data: by_map(data, device))
    for few in FEW:
        title = f"`{few.constant}`, {few.title}"
        table(title, lambda data, few=few: by_constant(data, few, device))


if __name__ == "__main__":
    main()
