"""All that a classifier has learned, on embeddings: what goes into its file.

A thin layer above a learner. It keeps pictures, so that the learner can rehearse, forget exactly
and be calibrated; it keeps the texts of the classes; and it keeps the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import torch
from torch import Tensor

from proof.errors import ProofError
from proof.exemplars import Budget
from proof.methods.base import Learner
from proof.models.calibration import Calibration
from proof.models.material import Material, Progress, check_label
from proof.models.memory import Key, Memory, choose_held_out, keys_of
from proof.models.results import Forgotten, Lesson, Step
from proof.probabilities import Scale
from proof.streams import Task
from proof.words import quoted

_MOST = 2000  # pictures that a calibration is made on


@dataclass
class Knowledge:
    """A learner, the pictures and texts that it was taught with, and what was done when."""

    learner: Learner
    budget: Budget  # of pictures that are kept
    memory: Memory = field(default_factory=Memory)
    texts: dict[str, Tensor] = field(default_factory=dict)  # (d,) float16, of every class
    pictures: dict[str, int] = field(default_factory=dict)  # given to each class
    dates: dict[str, tuple[str, str]] = field(default_factory=dict)  # first and last taught
    log: list[Step] = field(default_factory=list)
    lessons: int = 0
    fitted: Calibration | None = None  # None: to be made

    @property
    def classes(self) -> list[str]:
        return self.learner.classes

    @property
    def dim(self) -> int | None:
        """How many numbers an embedding has; None where nothing was taught."""
        return len(next(iter(self.texts.values()))) if self.texts else None

    @property
    def calibration(self) -> Calibration:
        """What is known from pictures that were not learned."""
        return self.calibrate()

    @property
    def scale(self) -> Scale:
        """How scores become calibrated probabilities."""
        return replace(self.learner.scale, temperature=self.calibration.temperature)

    def teach(
        self, material: Material, texts: Mapping[str, Tensor], progress: Progress | None
    ) -> Lesson:
        """Teach classes; `texts` are those of the new ones."""
        keys: list[Key] = list(zip(material.labels, keys_of(material.vectors), strict=True))
        shown = Counter(material.labels)
        # Once held out, never learned.
        before = set(self.memory.keys(self.memory.held, of=shown))
        again = torch.tensor([key in before for key in keys], dtype=torch.bool)
        held = torch.zeros(len(keys), dtype=torch.bool)
        if not hasattr(self.learner, "loo_scores"):
            room = self.budget.of_each(len({*self.classes, *material.classes}))
            held = choose_held_out(keys, self.memory, room) & ~again
        seen = before.union(self.memory.keys(~self.memory.held, of=shown))
        given = dict(self.pictures)
        every = {**self.texts, **texts}

        rows = (~held & ~again).nonzero()[:, 0].tolist()
        labels = [material.labels[row] for row in rows]
        stacked = torch.stack([every[label] for label in material.classes])
        task = Task(tuple(material.classes), stacked, material.vectors[rows], labels)
        self.learner.learn(task, _in_pictures(progress, "teaching", len(rows)))
        self.texts = every
        self.lessons += 1
        kept = (~again).nonzero()[:, 0].tolist()
        self.memory.add(
            material.vectors[kept],
            [material.labels[row] for row in kept],
            held[kept],
            torch.full((len(kept),), self.lessons),
        )
        now = self._changed("learn", material.classes, len(keys))
        for label in material.classes:
            self.dates[label] = (self.dates.get(label, (now, now))[0], now)
            self.pictures[label] = given.get(label, 0) + shown[label]
        return Lesson(
            new=[label for label in material.classes if label in shown and not given.get(label)],
            refined=[label for label in material.classes if label in shown and given.get(label)],
            named=[label for label in material.classes if label not in {*shown, *given}],
            pictures=len(keys),
            held_out=int(held.sum()),
            repeated=len(keys) - len(set(keys) - seen),
            contested=_contested(keys),
            broken=material.broken,
        )

    def forget(
        self,
        label: str,
        images: Tensor | None,
        fresh: Callable[[], Learner],
        progress: Progress | None,
    ) -> Forgotten:
        """Remove a class. `images` are all its pictures, given again; `fresh` makes a learner that
        has learned nothing."""
        count = self.pictures[label]
        complete = self.learner.exact or not count
        if not complete and self.keeps_all():
            self.learner = self._taught_without(label, fresh(), progress)
            complete = True
        else:
            self.learner.forget(label, self._all_pictures_of(label, images))
        self.memory.drop(label)
        del self.texts[label], self.dates[label], self.pictures[label]
        self._changed("forget", [label], count)
        return Forgotten(label, count, complete)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name; what it was taught stays, its text too."""
        self.require(old, "rename")
        check_label(new)
        self.learner.rename(old, new)
        self.memory.rename(old, new)
        self.texts[new] = self.texts.pop(old)
        self.dates[new], self.pictures[new] = self.dates.pop(old), self.pictures.pop(old)
        accuracy = self.fitted.accuracy if self.fitted else None
        self.log.append(Step(_now(), "rename", (old, new), 0, accuracy))

    def merge(self, other: Knowledge, progress: Progress | None) -> Lesson:
        """Take in what another was taught."""
        mine, theirs = dict(self.pictures), other.pictures
        total = sum(theirs.values())
        everything = torch.ones(len(other.memory), dtype=torch.bool)
        seen = set(self.memory.keys(torch.ones(len(self.memory), dtype=torch.bool)))
        repeated = sum(key in seen for key in other.memory.keys(everything))
        self.learner.merge(other.learner, _in_pictures(progress, "merging", total))
        self.memory.take_in(other.memory, after=self.lessons)
        self.texts = {**other.texts, **self.texts}
        for label, (first, last) in other.dates.items():
            before = self.dates.get(label, (first, last))
            self.dates[label] = (min(first, before[0]), max(last, before[1]))
            self.pictures[label] = mine.get(label, 0) + theirs[label]
        self.lessons += other.lessons
        self._changed("merge", list(theirs), total)
        return Lesson(
            new=[label for label, count in theirs.items() if count and not mine.get(label)],
            refined=[label for label, count in theirs.items() if count and mine.get(label)],
            named=[label for label, count in theirs.items() if not count and label not in mine],
            pictures=total,
            held_out=sum(other.memory.counts(held=True).values()),
            repeated=repeated,
        )

    def drop_exemplars(self) -> None:
        """Keep no pictures any more. What was calibrated on them stays."""
        calibration, self.budget = self.calibration, Budget(total=0)
        self._changed("drop exemplars", [], len(self.memory))
        self.fitted = calibration

    def calibrate(self, progress: Progress | None = None) -> Calibration:
        """Calibrate, unless nothing has changed since: on pictures that were held out, or on those
        that were learned, each as if it had not been, where the method can tell."""
        if self.fitted is not None:
            return self.fitted
        leave_one_out = getattr(self.learner, "loo_scores", None)
        vectors, labels = self.memory.part(held=leave_one_out is None)
        counts = self.learner.pictures
        rows = [r for r, label in enumerate(labels) if not leave_one_out or counts[label] > 1]
        rows = rows[:: max(1, -(-len(rows) // _MOST))]
        labels = [labels[row] for row in rows]
        report = _in_pictures(progress, "calibrating", len(rows))
        if not rows:
            self.fitted = Calibration(self.learner.scale.temperature)
            return self.fitted
        if report:
            report(0)
        score = leave_one_out or (lambda vectors, labels: self.learner.scores(vectors))
        place = {label: code for code, label in enumerate(self.classes)}
        codes = torch.tensor([place[label] for label in labels])
        self.fitted = Calibration.fit(score(vectors[rows], labels), codes, self.learner.scale)
        if self.log:
            self.log[-1] = replace(self.log[-1], accuracy=self.fitted.accuracy)
        if report:
            report(1)
        return self.fitted

    def require(self, label: str, what: str) -> None:
        """Only what is known can be changed."""
        if label not in self.classes:
            raise ProofError(f"no class '{label}' to {what}: it has {quoted(self.classes)}")

    def rehearse(self) -> None:
        """Let the learner rehearse on the pictures that are kept."""
        self._settle(self.learner)

    def _settle(self, learner: Learner, until: int | None = None) -> None:
        """What follows a lesson: a compact learner that rehearses on the pictures that are kept."""
        learner.compact()
        if learner.rehearses:
            kept = {name: self.memory.learned(name, until) for name in learner.classes}
            learner.rehearse_on(kept)

    def _changed(self, what: str, labels: list[str], count: int) -> str:
        self.memory.shrink(self.budget, len(self.classes), self.learner.rehearses)
        self.rehearse()
        self.fitted = None
        self.log.append(Step(_now(), what, tuple(labels), count))
        return self.log[-1].when

    def keeps_all(self, at_most: int | None = None) -> bool:
        """Whether every picture that was taught is kept, and they are not too many."""
        kept, taught = self.memory.counts(held=False), self.learner.pictures
        few = at_most is None or sum(taught.values()) <= at_most
        return few and all(kept[label] == count for label, count in taught.items())

    def _all_pictures_of(self, label: str, images: Tensor | None) -> Tensor | None:
        """All that a class was taught with, where that can be told."""
        count = self.learner.pictures[label]
        if images is None:
            kept = self.memory.learned(label)
            return kept if count and len(kept) == count else None
        held = set(self.memory.keys(self.memory.held, of=[label]))
        rows = [row for row, key in enumerate(keys_of(images)) if (label, key) not in held]
        if len(rows) != count:
            raise ProofError(
                f"{len(images)} pictures given to forget '{label}', {len(images) - len(rows)} of "
                f"which were held out: it learned {count}; give all of these, and no others"
            )
        return images[rows]

    def _taught_without(self, label: str, fresh: Learner, progress: Progress | None) -> Learner:
        """A learner taught again all that is kept but one class, lesson after lesson."""
        classes = [name for name in self.classes if name != label]
        if classes:  # by their names first, so that they keep their order
            fresh.learn(self._task(classes, torch.zeros(0, self.dim or 0), []))
        for lesson, vectors, labels in self.memory.by_lesson(without=label):
            shown = set(labels)
            task = self._task([name for name in classes if name in shown], vectors, labels)
            fresh.learn(task, _in_pictures(progress, "teaching again", len(labels)))
            self._settle(fresh, until=lesson)
        return fresh

    def _task(self, classes: list[str], vectors: Tensor, labels: list[str]) -> Task:
        texts = torch.stack([self.texts[label] for label in classes])
        return Task(tuple(classes), texts, vectors, labels)


def _contested(keys: list[Key]) -> list[tuple[str, ...]]:
    """The classes of each picture that was given to several."""
    owners: dict[bytes, dict[str, None]] = {}
    for label, content in keys:
        owners.setdefault(content, {})[label] = None
    return [tuple(labels) for labels in owners.values() if len(labels) > 1]


def _in_pictures(
    progress: Progress | None, what: str, total: int
) -> Callable[[float], None] | None:
    """A learner's progress, which is a share, in pictures."""
    return (lambda share: progress(what, round(share * total), total)) if progress else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
