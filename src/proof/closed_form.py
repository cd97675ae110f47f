"""Learning in closed form, from sums that add up.

Of the pictures nothing is kept but G = sum phi phi^T, the sum of phi of each class, and how many
pictures there were. Sums do not know the order of what was added, so that a model of sums is
the same whatever came first, two models are merged by addition, and a picture is forgotten by
subtraction. What stands here are functions of such sums; `methods/analytic.py` is made of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.devices import add_rows
from proof.errors import ProofError

_BLOCK = 768  # columns of G that are made at once
_STRIPE = 256  # rows of G that are packed at once; models in files are packed so

# --- Features ------------------------------------------------------------------------------------


def quadratic_features(z: Tensor, count: int) -> Tensor:
    """Unit vectors z (n, d), then products of two of their coordinates: `count` numbers in all.

    The products are y_i y_(i+s) of y = R z, where R is a fixed rotation, shift after shift: part of
    an orthonormal basis of all quadratic forms. At most d + d (d + 1) / 2 numbers differ. Both
    parts have a length of about one.

    >>> quadratic_features(F.normalize(torch.ones(1, 4), dim=1), 10).shape
    torch.Size([1, 10])
    """
    d = z.shape[1]
    products = max(0, min(count - d, d * (d + 1) // 2))
    if not products:
        return z
    y = z @ _rotation(d).to(z).T * math.sqrt(d / math.sqrt(products))
    around = torch.cat([y, y], dim=1)
    features = z.new_empty(len(z), d + products)
    features[:, :d] = z
    for shift in range(math.ceil(products / d)):
        part = features[:, d * (shift + 1) : d * (shift + 2)]
        torch.mul(y[:, : part.shape[1]], around[:, shift : shift + part.shape[1]], out=part)
    return features


@lru_cache(maxsize=4)
def _rotation(d: int) -> Tensor:
    """Random signs, then a cosine transform: spreads what a few coordinates hold over all of them.
    Made of nothing that differs between machines, because models travel."""
    place = torch.arange(d, dtype=torch.float64)
    wave = torch.cos(math.pi * (place + 0.5) * place[:, None] / d) * math.sqrt(2 / d)
    wave[0] /= math.sqrt(2)
    signs = torch.randint(0, 2, (d,), generator=torch.Generator().manual_seed(0)) * 2 - 1
    return wave * signs


# --- Sums ----------------------------------------------------------------------------------------


@dataclass
class Sums:
    """What is remembered of pictures with D features each."""

    gram: Tensor  # (D, D), sum of phi phi^T
    totals: Tensor  # (classes, D), sum of phi
    counts: Tensor  # (classes,), pictures, in the precision of the sums

    @classmethod
    def empty(cls, features: int, dtype: torch.dtype, device: torch.device) -> Sums:
        zeros = torch.zeros(features, features, dtype=dtype, device=device)
        return cls(zeros, zeros[:0].clone(), zeros[:0, 0].clone())

    def clone(self) -> Sums:
        return Sums(self.gram.clone(), self.totals.clone(), self.counts.clone())

    def grow(self, classes: int) -> None:
        """Room for `classes` classes."""
        more = classes - len(self.counts)
        self.totals, self.counts = (
            F.pad(self.totals, (0, 0, 0, more)),
            F.pad(self.counts, (0, more)),
        )

    def add(self, features: Tensor, codes: Tensor, sign: int = 1) -> None:
        """Add pictures (n, D) of classes (n,), or take them away with sign -1."""
        features = features.to(self.gram)
        add_rows(self.totals, codes, features if sign > 0 else -features)
        ones = torch.ones_like(codes, dtype=self.counts.dtype)
        self.counts.index_add_(0, codes, ones, alpha=sign)
        if features.device.type != "cpu":
            self.gram.addmm_(features.T, features, alpha=sign)
            return
        # G is symmetric: its lower half is enough work, in blocks.
        for start in range(0, features.shape[1], _BLOCK):
            rows, upto = slice(start, start + _BLOCK), start + _BLOCK
            part = self.gram[rows, :upto].addmm_(
                features[:, rows].T, features[:, :upto], alpha=sign
            )
            self.gram[:start, rows] = part[:, :start].T

    def merge(self, other: Sums, codes: Tensor) -> None:
        """Add the sums of `other`, whose class k is class `codes[k]` here."""
        self.gram += other.gram.to(self.gram)
        self.totals.index_add_(0, codes, other.totals.to(self.totals))
        self.counts.index_add_(0, codes, other.counts.to(self.counts))

    def drop(self, code: int) -> None:
        """Remove a class of which no picture is at hand: its mean goes, and its deviations from it
        stay in the sum of all, where no class can be told from another."""
        if self.counts[code] > 0.5:
            total = self.totals[code]
            self.gram -= torch.outer(total, total) / self.counts[code]
        keep = torch.arange(len(self.counts), device=self.counts.device) != code
        self.totals, self.counts = self.totals[keep], self.counts[keep]


def pack(gram: Tensor) -> Tensor:
    """The lower half of a symmetric matrix, in stripes of rows."""
    stripes = range(0, len(gram), _STRIPE)
    return torch.cat([gram[i : i + _STRIPE, : i + _STRIPE].flatten() for i in stripes])


def unpack(packed: Tensor, size: int) -> Tensor:
    """What `pack` was given."""
    gram, start = packed.new_empty(size, size), 0
    for i in range(0, size, _STRIPE):
        rows, columns = min(_STRIPE, size - i), min(i + _STRIPE, size)
        part = packed[start : start + rows * columns].view(rows, columns)
        gram[i : i + rows, :columns] = part
        gram[:i, i : i + rows] = part[:, :i].T
        start += rows * columns
    return gram


# --- Solving -------------------------------------------------------------------------------------
#
# Ridge regression of the class indicators on centred features, W = (S + lambda)^-1 B, where S is
# the scatter of all pictures and B that between features and classes. Each class counts the same,
# however many pictures it has; where they are few, their scores count less and the text more.
# Linear discriminant analysis with the same ridge comes out of the same factorisation: the scatter
# within classes differs from S by as many ranks as there are classes. The two err on different
# pictures, and their mean is better than either.
#
# Leave-one-out needs no picture: on average, leaving picture i out turns its score f into
# (f - h y) / (1 - h), where h is the mean leverage tr(S (S + lambda)^-1) / n, as in generalised
# cross-validation. All products of such scores with each other, with the indicators and with the
# text scores (which are linear in the features) are products of sums.

_RIDGES = [10 ** (power / 2) for power in range(-6, 1)]  # of a mean eigenvalue of S
_START = _RIDGES.index(0.1)
_SEARCH = 3072  # features by which the ridge is chosen: the first of many tell as much
_PROBES = 64  # random vectors that estimate a trace
_TIE = 1e-9  # errors nearer than this are equal, so that rounding decides nothing
_TRUST = 0.9  # a leverage above this leaves too little to judge by
_SLACK = 0.02  # squared error wants more ridge than accuracy does: this much worse is as good
_FEW = 10  # pictures whose word counts as much as what was expected before
_FAINT = 0.05  # the least weight of a text that stands alone
_LEAST = 0.1  # the weight of pictures where neither they nor the texts could be judged yet
_WORTH = 1.5  # ... and where texts were: this, over how much better than noise they are


@dataclass(frozen=True)
class Solution:
    """A linear classifier on features: pictures' part, texts' part, and what chose them."""

    weight: Tensor  # (D, classes), of centred features
    bias: Tensor  # (classes,)
    centre: Tensor  # (D,), the mean feature
    lean: Tensor  # (classes,), how much more the text of a class counts, for want of pictures
    ridge: float
    leverage: float
    error: float  # share of the indicators' variance that leave-one-out does not explain
    picture_weight: float
    text_weight: float
    name_weight: float  # of the text where there is nothing else
    spread: float  # standard deviation of the pictures' part

    def score(self, features: Tensor) -> Tensor:
        """The pictures' part of the score, (n, classes)."""
        return (features - self.centre) @ self.weight + self.bias

    def text_score(self, z: Tensor, texts: Tensor) -> Tensor:
        """The texts' part of the score of unit embeddings (n, d), (n, classes)."""
        scores = self.text_weight * (z @ texts.T)
        if not self.lean.any():
            return scores
        return scores + self.lean * ((z - self.centre[: z.shape[1]]) @ (texts - texts.mean(0)).T)

    def tensors(self) -> dict[str, Tensor]:
        """All of it, to keep."""
        numbers = [getattr(self, name) for name in _NUMBERS]
        return {
            "weight": self.weight,
            "bias": self.bias,
            "centre": self.centre,
            "lean": self.lean,
            "numbers": torch.tensor(numbers, dtype=torch.float64),
        }

    @classmethod
    def of(cls, tensors: dict[str, Tensor]) -> Solution:
        """What `tensors` gave."""
        numbers = dict(zip(_NUMBERS, tensors["numbers"].tolist(), strict=True))
        if numbers["ridge"] not in _RIDGES:
            raise ProofError(f"a solution with a ridge of {numbers['ridge']}: there is none such")
        weight, bias, centre = tensors["weight"], tensors["bias"], tensors["centre"]
        return cls(weight, bias, centre, tensors["lean"], **numbers)


_NUMBERS = (
    "ridge",
    "leverage",
    "error",
    "picture_weight",
    "text_weight",
    "name_weight",
    "spread",
)


@dataclass(frozen=True)
class _Problem:
    """What all ridges have in common."""

    gram: Tensor  # (D, D)
    between: Tensor  # (D, classes), B
    centre: Tensor
    counts: Tensor
    balance: Tensor  # (classes,), what a picture of a class counts
    texts: Tensor | None  # (classes, d), less their mean
    probes: Tensor  # (D, probes), of random signs

    @property
    def pictures(self) -> float:
        return float(self.counts.sum())

    def scatter(self, size: int | None = None) -> Tensor:
        """S, of the first `size` features or all: made anew, since it is as large as all else."""
        centre = self.centre[:size]
        return torch.addr(self.gram[:size, :size], centre, -self.pictures * centre)

    @property
    def share(self) -> float:
        """Pictures a class, on average."""
        return self.pictures / len(self.counts)

    @property
    def means(self) -> Tensor:
        """Of the classes, less the centre, (D, classes): B counts all classes the same."""
        return self.between / self.share


def solve(
    sums: Sums,
    dim: int,
    texts: Tensor | None = None,
    rule: str = "both",
    ridge: float | None = None,
) -> Solution:
    """The classifier of the sums; `texts` (classes, dim), unit vectors, join where they help.

    The first `dim` features are the unit embedding, the others products. Every class needs a
    picture. `rule` is ridge, lda or both; `ridge` one that was chosen before.
    """
    if ridge is None:
        place = _choose_ridge(_problem(_first(sums, dim), texts))
    else:
        place = _RIDGES.index(ridge)
    problem = _problem(sums, texts)
    solution = _solve_at(problem, _RIDGES[place], rule)
    while solution.leverage > _TRUST and place + 1 < len(_RIDGES):  # with all features it is more
        place += 1
        solution = _solve_at(problem, _RIDGES[place], rule)
    return solution


def _first(sums: Sums, dim: int) -> Sums:
    """Of the first features alone; the products among them count as much as all products do."""
    size = len(sums.gram)
    gram, totals = sums.gram[:_SEARCH, :_SEARCH], sums.totals[:, :_SEARCH]
    if dim < _SEARCH < size:
        scale = totals.new_ones(_SEARCH)
        scale[dim:] = math.sqrt((size - dim) / (_SEARCH - dim))
        gram, totals = gram * scale * scale[:, None], totals * scale
    return Sums(gram, totals, sums.counts)


def _choose_ridge(problem: _Problem) -> int:
    """The least ridge that is as good as the best: down while that holds, then up."""
    tried: dict[int, Solution] = {}

    def error(place: int) -> float:
        if place not in tried:
            tried[place] = _solve_at(problem, _RIDGES[place], "ridge")
        return tried[place].error if tried[place].leverage <= _TRUST else math.inf

    def good(place: int) -> bool:
        least = min(error(other) for other in [*tried, place])
        slack = _SLACK * (1 - tried[place].leverage) ** 2
        return error(place) < math.inf and error(place) <= least * (1 + slack) + _TIE

    place = _START
    while good(place) and place > 0:
        place -= 1
    place = min(tried, key=error)
    while place == max(tried) < len(_RIDGES) - 1 and error(place + 1) < error(place) - _TIE:
        place += 1
    return next((place for place in sorted(tried) if good(place)), len(_RIDGES) - 1)


def _problem(sums: Sums, texts: Tensor | None) -> _Problem:
    counts, pictures = sums.counts, sums.counts.sum()
    centre = sums.totals.sum(0) / pictures
    balance = pictures / (len(counts) * counts)
    signs = torch.Generator().manual_seed(0)
    probes = torch.randint(0, 2, (len(centre), _PROBES), generator=signs) * 2 - 1
    return _Problem(
        gram=sums.gram,
        between=(sums.totals - counts[:, None] * centre).T * balance,
        centre=centre,
        counts=counts,
        balance=balance,
        texts=None if texts is None else (texts - texts.mean(0)).to(centre),
        probes=probes.to(centre),
    )


def _solve_at(problem: _Problem, ridge: float, rule: str) -> Solution:
    B, n = problem.between, problem.pictures
    size, classes = B.shape
    factor = problem.scatter()
    trace = float(factor.diagonal().sum())
    penalty = ridge * max(trace, 1e-6) / max(1, min(n - 1, size, _SEARCH))
    factor.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(factor)
    half = torch.cat([B, problem.probes], dim=1)
    half = torch.linalg.solve_triangular(factor, half, upper=False)  # copies no factor
    solved = torch.linalg.solve_triangular(factor.mT, half, upper=True)
    del factor
    weight, probed = solved[:, :classes], solved[:, classes:]
    # S W = B - lambda W, and tr(S (S + lambda)^-1) = D - lambda tr((S + lambda)^-1).
    seen = B - penalty * weight
    freedom = size - penalty * float((probed * problem.probes).sum()) / _PROBES
    leverage = (freedom + 1) / n
    if int(failed) or not weight.isfinite().all():
        leverage = 1.0  # not to be trusted, whatever came out
    leverage = min(max(leverage, 0.0), 1.0)
    told = _told(problem, weight, freedom)
    scaled = told * weight
    fit = _Fit(problem, scaled, told * seen, leverage, told)
    pictures, text, error = fit.stack()

    spread = math.sqrt(max(fit.ff, 0.0)) / classes
    lda, bias = scaled, weight.new_zeros(classes)
    if rule != "ridge" and classes > 1 and spread > 0:
        lda, bias = _discriminant(problem, weight, seen, told)
    weight, bias = (lda, bias) if rule == "lda" else ((scaled + lda) / 2, bias / 2)
    return Solution(
        weight=(pictures * weight).contiguous(),  # as it will be when read back, to the last bit
        bias=pictures * bias,
        centre=problem.centre,
        # The less pictures tell of a class, the more its text does, up to what it would alone.
        lean=(1 - told) * max(fit.text_alone - text, 0.0),
        ridge=ridge,
        leverage=leverage,
        error=error,
        picture_weight=pictures,
        text_weight=text,
        name_weight=fit.text_alone,
        spread=pictures * spread,
    )


class _Fit:
    """How well scores left out explain which class it is, alone and with the texts, where pictures
    of all classes come as often: of each its mean, with the scatter that all classes share."""

    def __init__(
        self, problem: _Problem, weight: Tensor, seen: Tensor, leverage: float, told: Tensor
    ) -> None:
        self.pictures, self.texts = problem.pictures, problem.texts
        self.untold = leverage > _TRUST  # leaving out tells nothing
        h = min(leverage, _TRUST)
        counts, classes = problem.counts, len(problem.counts)
        means, target = problem.means, problem.balance * told
        self.others = self.pictures - classes  # than the first of each class
        self.most = float(target.max())

        def product(one: Tensor, two: Tensor, summed: float) -> float:
            """Of two scores, over all classes: `one`, `two` (classes, classes) are those of class
            c on the mean of class k, `summed` their product over all pictures."""
            both = (one * two).sum(0)
            within = (summed - float((counts * both).sum())) / self.pictures
            return float(both.sum()) + classes * within

        def own(one: Tensor, weights: Tensor) -> float:
            """The product of scores with what they should be: 1 for the own class, on average 0."""
            return float((weights * (one.diagonal() - one.mean(0))).sum())

        self.yy = classes - 1.0
        f, ones = weight.T @ means, torch.ones_like(counts)
        self.ff = product(f, f, float((weight * seen).sum()))
        # Of scores left out: their products with the indicators, themselves and the texts.
        off = 1 - 1 / classes
        self.out_y = (own(f, ones) - h * off * float(target.sum())) / (1 - h)
        self.out_out = self.ff - 2 * h * own(f, target) + h * h * off * float((target**2).sum())
        self.out_out /= (1 - h) ** 2
        self.tt = self.ty = self.out_t = 0.0
        texts = problem.texts
        if texts is not None:
            d = texts.shape[1]
            t = texts @ means[:d]
            self.tt = product(t, t, float((texts @ problem.scatter(d) * texts).sum()))
            self.ty = own(t, ones)
            both = product(f, t, float((texts.T * seen[:d]).sum()))
            self.out_t = (both - h * own(t, target)) / (1 - h)

    @property
    def text_alone(self) -> float:
        """The weight of the text score where it stands alone; never none, because then nothing is
        known of a class but its text. Few pictures do not outweigh the expectation of one."""
        if self.texts is None:
            return 0.0
        fitted = self.ty / self.tt if self.tt > 0 else 1.0
        return max(_drawn(fitted, 1.0, self.pictures), _FAINT)

    @property
    def least(self) -> float:
        """The weight of pictures where leaving out tells nothing: the better texts tell the classes
        apart, the less. Few pictures do not outweigh the expectation."""
        share = self.ty**2 / (self.tt * self.yy) if self.tt > 0 and self.ty > 0 else 0.0
        noise = (1 - share) / ((self.yy + 1) * share) if share else math.inf  # over the signal
        return _drawn(min(_WORTH * noise, 1.0), _LEAST, self.pictures) / self.most

    def stack(self) -> tuple[float, float, float]:
        """Weights of pictures and texts, and what they leave unexplained. The only picture of a
        class cannot be left out, and few others do not outweigh the expectation."""
        pictures, text, error = self._least_squares()
        if self.texts is not None and self.yy > 0:
            pictures = _drawn(pictures, self.least, self.others)
            text = _drawn(text, self.text_alone, self.others)
        return pictures, text, error

    def _least_squares(self) -> tuple[float, float, float]:
        if not self.yy > 0:  # a single class
            return 1.0, self.text_alone, 1.0
        if self.untold:
            return (1.0, 0.0, 1.0) if self.texts is None else (self.least, self.text_alone, 1.0)
        fitted = max(self.ty / self.tt, 0.0) if self.tt > 0 else 0.0
        texts_only = 1 - self.ty * fitted / self.yy
        determinant = self.out_out * self.tt - self.out_t**2
        if determinant > 1e-6 * self.out_out * self.tt > 0:  # else both say the same
            pictures = (self.out_y * self.tt - self.ty * self.out_t) / determinant
            text = (self.ty * self.out_out - self.out_y * self.out_t) / determinant
            if pictures > 0 and text > 0:
                error = 1 - (pictures * self.out_y + text * self.ty) / self.yy
                return max(pictures, self.least), text, error
        if self.out_out > 0 and self.out_y > 0:
            pictures = self.out_y / self.out_out
            pictures_only = 1 - pictures * self.out_y / self.yy
            if pictures_only < texts_only - _TIE:
                return max(pictures, self.least), 0.0, pictures_only
        if self.texts is not None:
            return self.least, self.text_alone, texts_only
        return 1.0, 0.0, 1.0


def _drawn(found: float, expected: float, pictures: float) -> float:
    """What was found in so many pictures, drawn to what was expected before."""
    return (pictures * found + _FEW * expected) / (pictures + _FEW)


def _told(problem: _Problem, weight: Tensor, freedom: float) -> Tensor:
    """How much the scores of a class tell, (classes,), at most 1: what they are multiplied by.

    The mean of n pictures is the class's own and noise / n. Where pictures are few the scores of a
    class vary with the noise, and would win by chance: all are brought to vary the same.
    """
    counts, n, classes = problem.counts, problem.pictures, len(problem.counts)
    lengths = (weight * problem.means).sum(0) / problem.share  # of the means, squared
    noise = (freedom - float((counts * lengths).sum())) / max(n - classes, 1.0)
    sure = counts / (counts + _FEW)
    signal = float((sure * (lengths - noise / counts)).sum() / sure.sum())
    if not (signal > 0 and noise > 0):
        return torch.ones_like(counts)
    told = (counts / (counts + noise / signal)).sqrt()
    return told / told.max()


def _discriminant(
    problem: _Problem, weight: Tensor, seen: Tensor, told: Tensor
) -> tuple[Tensor, Tensor]:
    """Discriminant analysis from the ridge solution W and S W, at its scale: weight, bias.

    The scatter within classes is S less that of the class means M, counted N times: with
    A = S + lambda, (A - M N M^T)^-1 M = A^-1 M (I - N M^T A^-1 M)^-1.
    """
    counts = problem.counts.double()
    share, means = problem.share, problem.means
    solved = weight / share
    inner = counts[:, None] * (means.T @ solved).double()
    identity = torch.eye(len(counts), dtype=torch.float64, device=counts.device)
    turn = torch.linalg.inv(identity - inner).to(solved)
    lda = solved @ turn
    bias = -0.5 * told**2 * (means * lda).sum(0)
    lda, weight = told * lda, told * weight
    spread, lda_spread = (weight * told * seen).sum(), (lda * told * (seen / share @ turn)).sum()
    scale = math.sqrt(float(spread / lda_spread)) if spread > 0 and lda_spread > 0 else math.inf
    if not math.isfinite(scale):
        return weight, torch.zeros_like(bias)
    return scale * lda, scale * bias
