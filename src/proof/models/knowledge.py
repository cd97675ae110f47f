"""All that a classifier has learned, on embeddings: what goes into its file.

A thin layer above a learner. It keeps pictures, so that the learner can rehearse, forget exactly
and be calibrated; and it keeps the log.
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
from proof.models.material import Material, check_label
from proof.models.memory import Memory, choose_held_out, keys_of
from proof.models.pictures import Progress
from proof.models.results import Forgotten, Lesson, Step
from proof.streams import Task

_MOST = 2000  # pictures that a calibration is made on


@dataclass
class Knowledge:
    """A learner, the pictures and texts that it was taught with, and what was done when."""

    learner: Learner
    budget: Budget  # of pictures that are kept
    memory: Memory = field(default_factory=Memory)
    texts: dict[str, Tensor] = field(default_factory=dict)  # (d,) float16, of every class
    dates: dict[str, tuple[str, str]] = field(default_factory=dict)  # first and last taught
    log: list[Step] = field(default_factory=list)
    lessons: int = 0
    _calibration: Calibration | None = None

    @property
    def classes(self) -> list[str]:
        return self.learner.classes

    @property
    def dim(self) -> int | None:
        """How many numbers an embedding has; None as long as nothing was taught."""
        return len(next(iter(self.texts.values()))) if self.texts else None

    @property
    def pictures(self) -> dict[str, int]:
        """How many pictures each class was given, those that are held out among them."""
        held = self.memory.counts()
        return {label: count + held[label] for label, count in self.learner.pictures.items()}

    def teach(
        self, material: Material, texts: Mapping[str, Tensor], progress: Progress | None
    ) -> Lesson:
        """Teach classes; `texts` are those of the new ones."""
        keys = keys_of(material.vectors)
        pairs = list(zip(material.labels, keys, strict=True))
        room = self.budget.of_each(len({*self.classes, *material.classes}))
        before = self.memory.keys(held=True)
        again = torch.tensor([pair in before for pair in pairs], dtype=torch.bool)
        held = torch.zeros(len(keys), dtype=torch.bool)
        if not hasattr(self.learner, "loo_scores"):
            held = choose_held_out(keys, material.labels, self.memory, room) & ~again
        repeated = len(pairs) - len(set(pairs) - before - self.memory.keys(held=False))
        old, taught = set(self.classes), {n for n, count in self.pictures.items() if count}
        shown = set(material.labels)

        rows = (~held & ~again).nonzero()[:, 0].tolist()
        every = {**self.texts, **texts}
        task = Task(
            tuple(material.classes),
            torch.stack([every[label] for label in material.classes]),
            material.vectors[rows],
            [material.labels[row] for row in rows],
        )
        self.learner.learn(task, _shared(progress, "teaching", len(rows)))
        self.texts = every
        self.lessons += 1
        kept = (~again).nonzero()[:, 0].tolist()
        self.memory.add(
            material.vectors[kept], [material.labels[row] for row in kept], held[kept], self.lessons
        )
        self._changed("learn", material.classes, len(keys))
        return Lesson(
            new=[label for label in material.classes if label in shown and label not in taught],
            refined=[label for label in material.classes if label in shown and label in taught],
            named=[label for label in material.classes if label not in shown | old],
            pictures=len(keys),
            held_out=int(held.sum()),
            repeated=repeated,
            contested=_contested(pairs),
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
        if label not in self.classes:
            raise ProofError(f"no class '{label}' to forget: {_known(self.classes)}")
        count = self.pictures[label]
        complete = self.learner.exact or not count
        if complete or not self._keeps_all():
            self.learner.forget(label, self._all_pictures_of(label, images))
            self.memory.drop(label)
            del self.texts[label]
        else:
            self.memory.drop(label)
            del self.texts[label]
            self._teach_again([name for name in self.classes if name != label], fresh(), progress)
            complete = True
        del self.dates[label]
        self._changed("forget", [label], count, taught=False)
        return Forgotten(label, count, complete)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name; what it was taught stays, its text too."""
        check_label(new)
        self.learner.rename(old, new)
        self.memory.rename(old, new)
        self.texts = {new if name == old else name: text for name, text in self.texts.items()}
        self.dates = {new if name == old else name: date for name, date in self.dates.items()}
        self.log.append(Step(_now(), "rename", (old, new)))

    def merge(self, other: Knowledge, progress: Progress | None) -> Lesson:
        """Take in what another was taught."""
        mine, theirs = self.pictures, other.pictures
        repeated = len(
            (self.memory.keys(held=False) | self.memory.keys(held=True))
            & (other.memory.keys(held=False) | other.memory.keys(held=True))
        )
        total = sum(theirs.values())
        self.learner.merge(other.learner, _shared(progress, "merging", total))
        self.texts = {**other.texts, **self.texts}
        for label, date in other.dates.items():
            first, last = self.dates.get(label, date)
            self.dates[label] = (min(first, date[0]), max(last, date[1]))
        offset, memory = self.lessons, other.memory
        for lesson in memory.lessons.unique().tolist():
            rows = (memory.lessons == lesson).nonzero()[:, 0].tolist()
            labels = [memory.labels[row] for row in rows]
            self.memory.add(memory.vectors[rows], labels, memory.held[rows], offset + lesson)
        self.lessons += other.lessons
        self._changed("merge", list(theirs), total, taught=False)
        return Lesson(
            new=[label for label, count in theirs.items() if count and not mine.get(label)],
            refined=[label for label, count in theirs.items() if count and mine.get(label)],
            named=[label for label, count in theirs.items() if not count and label not in mine],
            pictures=total,
            held_out=sum(other.memory.counts().values()),
            repeated=repeated,
        )

    def drop_exemplars(self) -> None:
        """Keep no pictures any more. What was calibrated on them stays."""
        calibration = self.calibration
        self.budget = Budget(total=0)
        self._changed("drop exemplars", [], len(self.memory), taught=False)
        self._calibration = calibration

    @property
    def calibration(self) -> Calibration:
        """Made when first asked for after a change."""
        if self._calibration is None:
            self._calibration = self._calibrate()
            if self.log and self._calibration.pictures:
                self.log[-1] = replace(self.log[-1], accuracy=self._calibration.accuracy)
        return self._calibration

    def restore_calibration(self, calibration: Calibration | None) -> None:
        self._calibration = calibration

    def rehearse(self) -> None:
        """Let the learner rehearse on the pictures that are kept."""
        if self.learner.rehearses:
            self.learner.rehearse_on({label: self.memory.taught(label) for label in self.classes})

    def _calibrate(self) -> Calibration:
        leave_one_out = getattr(self.learner, "loo_scores", None)
        vectors, labels = self.memory.learned() if leave_one_out else self.memory.held_out()
        if leave_one_out:
            counts = self.learner.pictures
            rows = [row for row, label in enumerate(labels) if counts[label] > 1]
        else:
            rows = list(range(len(labels)))
        step = max(1, -(-len(rows) // _MOST))
        rows = rows[::step]
        if not rows:
            return Calibration()
        vectors, labels = vectors[rows], [labels[row] for row in rows]
        scores = leave_one_out(vectors, labels) if leave_one_out else self.learner.scores(vectors)
        place = {label: code for code, label in enumerate(self.classes)}
        return Calibration.fit(scores, torch.tensor([place[label] for label in labels]))

    def _changed(self, what: str, labels: list[str], count: int, taught: bool = True) -> None:
        now = _now()
        if taught:
            for label in labels:
                self.dates[label] = (self.dates.get(label, (now, now))[0], now)
        self.memory.shrink(self.budget, len(self.classes))
        self.learner.compact()
        self.rehearse()
        self._calibration = None
        self.log.append(Step(now, what, tuple(labels), count))

    def _keeps_all(self) -> bool:
        kept = Counter(self.memory.learned()[1])
        return all(kept[label] == count for label, count in self.learner.pictures.items())

    def _all_pictures_of(self, label: str, images: Tensor | None) -> Tensor | None:
        count = self.learner.pictures[label]
        if images is None:
            kept = self.memory.taught(label)
            return kept if count and len(kept) == count else None
        held = self.memory.keys(held=True)
        rows = [row for row, key in enumerate(keys_of(images)) if (label, key) not in held]
        if len(rows) != count:
            raise ProofError(
                f"{len(images)} pictures given to forget '{label}', {len(rows)} of them not held "
                f"out: it was taught with {count}; give all of these, and no others"
            )
        return images[rows]

    def _teach_again(self, classes: list[str], fresh: Learner, progress: Progress | None) -> None:
        """Teach a fresh learner all that is kept, lesson after lesson."""
        some = next(iter(self.texts.values()), torch.zeros(0))
        none = torch.zeros(0, len(some))
        if classes:
            texts = torch.stack([self.texts[label] for label in classes])
            fresh.learn(Task(tuple(classes), texts, none, []))
        for vectors, labels in self.memory.by_lesson():
            shown = set(labels)
            mine = tuple(label for label in classes if label in shown)
            texts = torch.stack([self.texts[label] for label in mine])
            task = Task(mine, texts, vectors, labels)
            fresh.learn(task, _shared(progress, "teaching again", len(labels)))
        self.learner = fresh


def _contested(pairs: list[tuple[str, bytes]]) -> list[tuple[str, ...]]:
    """The classes of pictures that were given to several."""
    owners: dict[bytes, dict[str, None]] = {}
    for label, key in pairs:
        owners.setdefault(key, {})[label] = None
    return [tuple(labels) for labels in owners.values() if len(labels) > 1]


def _shared(progress: Progress | None, what: str, total: int) -> Callable[[float], None] | None:
    """A learner's progress, in pictures."""
    return (lambda share: progress(what, round(share * total), total)) if progress else None


def _known(classes: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in classes[:5])
    return (
        f"it knows {shown}{' and others' if len(classes) > 5 else ''}"
        if classes
        else "it knows none"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
