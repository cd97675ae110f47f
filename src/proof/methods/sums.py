"""What the methods in closed form share: features, sums of them, and a classifier solved from sums.

Nothing else is kept of a picture. So the order of tasks, classes and pictures does not matter,
merging is addition, and forgetting is subtraction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.closed_form import Solution, Sums, pack, unpack
from proof.errors import ProofError
from proof.methods.base import Learner, Progress, Scorer, Votes
from proof.probabilities import Scale

_ROWS = 4096  # pictures whose features exist at once
SUMMED = ("gram", "totals", "pictures")  # the sums in a learner's state
_FOLDS = 3
_NAMES = 3  # what texts count beside names alone, in units of what they count by themselves


class SumsLearner(Learner):
    """A method of this family says what its features are, and how sums become a classifier."""

    exact = True
    scale = Scale(temperature=0.08, bend=0.3, absolute=True)  # scores are estimates of 0 and 1
    reads_names = True  # whether a class may be known by its name alone
    _of_class = ("texts",)
    _sums: Sums | None
    _solution: Solution | None
    _pictures: tuple[Tensor, Tensor]  # all that were taught, where the sums are made of them again
    texts: Tensor  # (classes, d), unit vectors

    @property
    def precision(self) -> torch.dtype:
        """Of the sums and of all that comes of them."""
        return torch.float32

    def _features(self, z: Tensor) -> Tensor:
        """Unit embeddings (n, d) -> features (n, D), the embedding first."""
        return z

    @abstractmethod
    def _solve(self, sums: Sums, texts: Tensor, ridge: float | None = None) -> Solution:
        """The classifier of these sums, of classes with these texts; the ridge may be given."""

    def _learn(self, images: Tensor, codes: Tensor, texts: Tensor, progress: Progress) -> None:
        w = F.normalize(texts.to(self.precision), dim=1)
        if self.known:
            sums = self.sums.clone()
            w = torch.cat([self.texts, w])
        else:
            sums = self._empty(images)
        sums.grow(len(w))
        self._add(sums, images, codes, progress=progress)
        self._replace(sums, w)

    def _scorer(self, texts: Tensor | None) -> Scorer:
        return self._score_with(self.solution, self.texts, texts)

    def _voter(self, texts: Tensor | None) -> Callable[[Tensor], Votes]:
        return self._voter_with(self.solution, self.texts, texts)

    @property
    def sums(self) -> Sums:
        if self._sums is None:
            images, codes = self._pictures
            self._sums = self._empty(images)
            self._sums.grow(self.known)
            self._add(self._sums, images, codes)
        return self._sums

    @property
    def solution(self) -> Solution:
        """The classifier, solved when it is asked for."""
        if self._solution is None:
            self._solution = self._solve(self.sums, self.texts)
        return self._solution

    @property
    def inference_parameters(self) -> int:
        """To predict takes the solution and the texts; the sums serve learning on."""
        if not self.known:
            return 0
        return sum(t.numel() for t in (*self.solution.tensors().values(), self.texts))

    def works(self, dim: int) -> bool:
        if not self.known or self._solution is not None:
            return super().works(dim)
        # Solving may take long: the sums are looked at instead.
        sums, size = self.sums, self._features(self._unit(torch.ones(1, dim))).shape[1]
        return (
            sums.gram.shape == (size, size)
            and sums.totals.shape == (self.known, size)
            and torch.equal(sums.counts.round().long(), self._counts)
            and self.texts.shape == (self.known, dim)
            and bool((sums.gram.diagonal() >= 0).all())
        )

    def recall(self, images: Tensor, labels: list[str]) -> None:
        """Take all pictures that were taught (n, d) for the sums, where a file left these out; a
        few pictures take less room."""
        if Counter(labels) != Counter(dict(zip(self._taught, self._counts.tolist(), strict=True))):
            raise ProofError("the pictures that are kept are not those that were taught")
        self._pictures, self._sums = (self._take(images), self._codes_of(labels)), None

    def unlearn(self, images: Tensor, labels: list[str]) -> None:
        """Take pictures (n, d) that were taught out of the sums again, as if they had never been.
        A class without any left is known by its name alone."""
        odd = Counter(labels) - Counter(self.pictures)
        if odd:
            name = min(odd)
            raise ProofError(
                f"cannot unlearn {Counter(labels)[name]} pictures of '{name}': it was taught "
                f"{self.pictures.get(name, 0)}"
            )
        codes = self._codes_of(labels)
        sums, texts = self.sums.clone(), self.texts
        self._add(sums, self._take(images), codes, sign=-1)
        self._counts = self._counts - codes.bincount(minlength=self.known)
        empty = (self._counts == 0).nonzero()[:, 0].tolist()
        self._replace(sums, texts)
        for code in reversed(empty):
            self._named[self._taught[code]] = texts[code].to(torch.float32)
            self._forget(code, None)
            del self._taught[code]
            self._counts = torch.cat([self._counts[:code], self._counts[code + 1 :]])

    def loo_scores(self, images: Tensor, labels: list[str]) -> Tensor:
        """Scores of pictures that were taught, as if they had not been: in a few parts, each is
        taken out of the sums, and what is left judges it."""
        images = self._take(images)
        codes = self._codes_of(labels)
        fold = _rank_in_class(codes) % _FOLDS
        scores = torch.zeros(len(images), self.known, device=self.device)
        for part in range(_FOLDS):
            rows = (fold == part).nonzero()[:, 0]
            if len(rows):
                scores[rows] = self._scores_without(images[rows], codes[rows])
        _, order = self._columns(None)
        return self._in_order(scores, order)

    def _scores_without(self, images: Tensor, codes: Tensor) -> Tensor:
        sums = self.sums.clone()
        self._add(sums, images, codes, sign=-1)
        left = (sums.counts > 0.5).nonzero()[:, 0]
        if not len(left):
            return F.normalize(images, dim=1) @ self.texts.T.to(images)
        gone = (sums.counts <= 0.5).nonzero()[:, 0]
        rest = Sums(sums.gram, sums.totals[left], sums.counts[left])
        others = self.texts[gone] if len(gone) else None
        solution = self._solve(rest, self.texts[left], self.solution.ridge)
        scores = self._score_with(solution, self.texts[left], others)(images)
        return scores[:, torch.cat([left, gone]).argsort()]

    def _score_with(self, solution: Solution, texts: Tensor, named: Tensor | None) -> Scorer:
        """Scores of classes with pictures, then of those that are `named` only."""
        voter = self._voter_with(solution, texts, named)
        return lambda images: torch.stack([*voter(images).values()]).sum(0).to(torch.float32)

    def _voter_with(
        self, solution: Solution, texts: Tensor, named: Tensor | None
    ) -> Callable[[Tensor], Votes]:
        """What pictures say, and what names do; the score is the sum."""
        words, more = None, 0
        if named is not None:
            # Beside classes known by name alone, texts count much for all, so that what pictures
            # say is added to zero-shot; and a picture's part is not zero where none could speak.
            named = F.normalize(named.to(texts), dim=1)
            words = (_NAMES * solution.name_weight) * torch.cat([texts, named])
            more = len(named)
        unseen = solution.spread if self.reads_names else -torch.inf

        def vote(images: Tensor) -> Votes:
            z = self._unit(images)
            pictures = F.pad(solution.score(self._features(z)), (0, more), value=unseen)
            if not self.reads_names:
                return {"pictures": pictures}
            names = solution.text_score(z, texts) if words is None else z @ words.T
            return {"pictures": pictures, "names": names}

        return vote

    def _forget(self, code: int, images: Tensor | None) -> None:
        sums = self.sums.clone()
        if images is not None:
            self._add(sums, images, torch.full((len(images),), code, device=self.device), sign=-1)
        sums.drop(code)
        super()._forget(code, images)
        self._replace(sums, self.texts)

    def _merge(self, other: Learner, codes: Tensor, progress: Progress) -> None:
        assert isinstance(other, SumsLearner)
        new = other.texts.to(self.device)[codes >= self.known]
        if self.known:
            sums, w = self.sums.clone(), torch.cat([self.texts, new])
        else:
            sums, w = Sums.empty(len(other.sums.gram), self.precision, self.device), new
        sums.grow(len(w))
        sums.merge(other.sums, codes)
        self._replace(sums, w)

    def _add(
        self,
        sums: Sums,
        images: Tensor,
        codes: Tensor,
        sign: int = 1,
        progress: Progress | None = None,
    ) -> None:
        for start in range(0, len(images), _ROWS):
            rows = slice(start, start + _ROWS)
            sums.add(self._features(self._unit(images[rows])), codes[rows], sign)
            if progress:
                progress(min(1.0, (start + _ROWS) / len(images)))

    def _empty(self, images: Tensor) -> Sums:
        size = self._features(self._unit(images[:1])).shape[1]
        return Sums.empty(size, self.precision, self.device)

    def _replace(self, sums: Sums | None, texts: Tensor) -> None:
        self._sums, self.texts, self._solution = sums, texts, None

    def _unit(self, images: Tensor) -> Tensor:
        return F.normalize(images.to(self.precision), dim=1)

    def _tensors(self) -> dict[str, Tensor]:
        sums = (pack(self.sums.gram), self.sums.totals, self.sums.counts)
        tensors = {**dict(zip(SUMMED, sums, strict=True)), "texts": self.texts}
        if self._solution is not None:
            tensors |= {f"solution.{name}": t for name, t in self._solution.tensors().items()}
        return tensors

    def _set_tensors(self, tensors: dict[str, Tensor], tasks: int) -> None:
        sums = None
        if SUMMED[0] in tensors:
            packed, totals, counts = (tensors[name] for name in SUMMED)
            sums = Sums(unpack(packed, totals.shape[1]), totals, counts)
        self._replace(sums, tensors["texts"])
        prefix = "solution."
        solved = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
        if solved:
            self._solution = Solution.of(solved)


def _rank_in_class(codes: Tensor) -> Tensor:
    """The how-manieth picture of its class each one is."""
    order = codes.argsort(stable=True)
    starts = F.pad(codes.bincount().cumsum(0), (1, 0))
    rank = torch.empty_like(codes)
    rank[order] = torch.arange(len(codes), device=codes.device) - starts[codes[order]]
    return rank
