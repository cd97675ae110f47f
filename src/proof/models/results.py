"""What a classifier gives back, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from proof.words import many, some

CHANGES = ("learn", "merge", "forget")  # what may make a model better or worse


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
        new = "new classes" if len(self.new) > 1 else "new class"
        kinds = [(self.new, new), (self.refined, "refined"), (self.named, "by name alone")]
        said = [f"{len(names)} {what} ({some(names)})" for names, what in kinds if names]
        counts = [many(self.pictures, "picture")]
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
        pictures = many(self.pictures, "picture")
        if self.complete:
            return f"forgot '{self.label}'{f' and its {pictures}' if self.pictures else ''}"
        return (
            f"removed '{self.label}' from every answer and its pictures from the model; trained "
            f"weights still carry traces of the {pictures}: to be rid of those too, teach a new "
            f"model without the class"
        )


@dataclass(frozen=True)
class Step:
    """A line of a model's log.

    >>> print(Step("2026-11-01T09:00:00Z", "learn", ("cup", "moka pot"), 30, 91.5))
    2026-11-01T09:00:00Z  learned cup, moka pot from 30 pictures; then 91.5 % right
    """

    when: str  # ISO 8601, UTC
    what: str  # learn, forget, rename, merge, drop exemplars
    classes: tuple[str, ...]
    pictures: int = 0
    accuracy: float | None = None  # in percent, afterwards, on pictures that it did not learn

    def __str__(self) -> str:
        return f"{self.when}  {self.said}"

    @property
    def said(self) -> str:
        """What was done, in words."""
        what, classes, pictures = self.what, some(self.classes), many(self.pictures, "picture")
        text = {
            "learn": f"learned {classes}",
            "merge": f"took in {classes}",
            "forget": f"forgot {classes}",
            "rename": f"renamed {' to '.join(self.classes)}",
            "drop exemplars": f"removed {pictures} that were kept",
        }.get(what, f"{what} {classes}")
        if self.pictures and what in ("learn", "merge"):
            text += f" from {pictures}"
        if self.accuracy is not None and what in CHANGES:
            text += f"; then {self.accuracy:.1f} % right"
        return text


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
