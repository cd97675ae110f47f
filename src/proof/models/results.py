"""What a classifier gives back, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Prediction:
    """The class of a picture, its probability, and the next best.

    >>> print(Prediction("moka pot", 0.93, (("teapot", 0.05), ("cup", 0.01))))
    moka pot 93.0 % (teapot 5.0 %, cup 1.0 %)
    """

    label: str
    score: float  # 0 to 1
    runners_up: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        others = ", ".join(f"{label} {score:.1%}" for label, score in self.runners_up)
        return f"{self.label} {self.score:.1%}{f' ({others})' if others else ''}".replace("%", " %")


@dataclass(frozen=True)
class Lesson:
    """What was taught by one call of `learn` or `merge`.

    >>> print(Lesson(new=["moka pot"], refined=["cup"], pictures=30, held_out=2))
    1 new class (moka pot), 1 refined (cup): 30 pictures, 2 of them held out
    """

    new: list[str] = field(default_factory=list)  # classes that were not known
    refined: list[str] = field(default_factory=list)  # known ones that got more pictures
    named: list[str] = field(default_factory=list)  # known by their names alone
    pictures: int = 0  # that could be read
    held_out: int = 0  # of these, kept for calibration and not learned
    repeated: int = 0  # of these, pictures that their class had been given before
    contested: list[tuple[str, ...]] = field(default_factory=list)  # one picture, several classes
    broken: list[tuple[str, str]] = field(default_factory=list)  # path and reason

    def __str__(self) -> str:
        many = "new classes" if len(self.new) > 1 else "new class"
        kinds = [(self.new, many), (self.refined, "refined"), (self.named, "by name alone")]
        said = [f"{len(names)} {what} ({_some(names)})" for names, what in kinds if names]
        counts = [f"{self.pictures:,} picture{'' if self.pictures == 1 else 's'}"]
        notes = [
            (self.held_out, "of them held out"),
            (self.repeated, "given before"),
            (len(self.contested), "given to several classes"),
            (len(self.broken), "broken"),
        ]
        counts += [f"{count:,} {what}" for count, what in notes if count]
        return f"{', '.join(said) or 'no class'}: {', '.join(counts)}"


@dataclass(frozen=True)
class Forgotten:
    """What became of a class that was to be forgotten.

    >>> print(Forgotten("moka pot", 12, complete=True))
    forgot 'moka pot' and its 12 pictures
    """

    label: str
    pictures: int
    complete: bool  # whether the model is as if the class had never been taught

    def __str__(self) -> str:
        many = f"{self.pictures:,} picture{'' if self.pictures == 1 else 's'}"
        if self.complete:
            return f"forgot '{self.label}'{f' and its {many}' if self.pictures else ''}"
        return (
            f"removed '{self.label}' from every answer and its pictures from the model; trained "
            f"weights still carry traces of the {many}: to be rid of those too, teach a new model "
            f"without the class"
        )


@dataclass(frozen=True)
class Step:
    """A line of a model's log."""

    when: str  # ISO 8601, UTC
    what: str  # learn, forget, rename, merge, drop exemplars
    classes: tuple[str, ...]
    pictures: int = 0
    accuracy: float | None = None  # in percent, afterwards, on pictures that it did not learn

    def __str__(self) -> str:
        many = f", {self.pictures:,} pictures" if self.pictures else ""
        then = f", then {self.accuracy:.1f} % right" if self.accuracy is not None else ""
        return f"{self.when}  {self.what} {_some(list(self.classes))}{many}{then}".rstrip()


@dataclass(frozen=True)
class Explanation:
    """Why a picture got its class: what each part of the method says of the best classes."""

    prediction: Prediction
    classes: tuple[str, ...]  # the best ones, best first
    votes: dict[str, tuple[float, ...]]  # of each part, class by class
    choices: dict[str, str]  # the class that each part alone would have chosen; "-": no matter

    def __str__(self) -> str:
        width = max(map(len, ("chosen alone", *self.classes)))
        parts = {part: max(len(part), len(choice), 7) for part, choice in self.choices.items()}
        lines = [" " * width + "".join(f"  {part:>{w}}" for part, w in parts.items())]
        for place, label in enumerate(self.classes):
            votes = (f"  {self.votes[part][place]:>{w}.3f}" for part, w in parts.items())
            lines.append(f"{label:<{width}}{''.join(votes)}")
        alone = "".join(f"  {self.choices[part]:>{w}}" for part, w in parts.items())
        return "\n".join([str(self.prediction), *lines, f"{'chosen alone':<{width}}{alone}"])


def quoted(labels: list[str]) -> str:
    """The first few of many labels, for a message.

    >>> quoted(["cup", "moka pot"])
    "'cup', 'moka pot'"
    """
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    return ", ".join(f"'{label}'" for label in labels[:5]) + more if labels else "none yet"


def _some(labels: list[str]) -> str:
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    return ", ".join(labels[:5]) + more
