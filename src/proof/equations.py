"""The model of the paper, Eq. 5 to 11: one function each, on plain tensors.

"Learning without Forgetting for Vision-Language Models" (PROOF). The paper's symbols:

    z  (n, d)  image embeddings                  P_i(z), P_t(w)  their projections
    w  (C, d)  text embeddings, one a class      P, W, C         the context's three parts
    p  (C, d)  visual prototypes, one a class    tau             the temperature

Nothing here keeps state or knows of tasks, devices or optimisers; `proof.methods.proof` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# More rows than this are worked on in blocks, so that memory does not grow with their square.
_BLOCK = 4096


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of every row of `a` (n, d) with every row of `b` (m, d): (n, m)."""
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


# --- Eq. 5: projected matching ---------------------------------------------------------------


def projected_matching(projected_images: Tensor, projected_texts: Tensor, tau: float) -> Tensor:
    """Eq. 5, f_PM as logits: cos(P_i(z), P_t(w)) / tau, of shape (n, C). Its softmax is p(y|x)."""
    return cosine(projected_images, projected_texts) / tau


# --- Eq. 6: expandable projections -----------------------------------------------------------


def aggregate_projections(outputs: Sequence[Tensor]) -> Tensor:
    """Eq. 6: the sum of what each task's projection gives, sum_m P^m(z)."""
    return torch.stack(tuple(outputs)).sum(0)


# --- Eq. 7: visual prototypes ----------------------------------------------------------------


def visual_prototypes(
    images: Tensor, codes: Tensor, classes: int, before: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Eq. 7: the mean embedding of each class, (classes, d).

    `codes` (n,) holds the class of each image, 0 to classes - 1. Every class needs an image, here
    or `before`: the prototypes of the first classes, and how many images each is the mean of.
    """
    totals = torch.zeros(classes, images.shape[1], dtype=images.dtype, device=images.device)
    # Sorted by class, a block of rows holds few classes: sums are small products, the same ones
    # every time, and nothing of size rows x classes is made.
    for rows in codes.argsort(stable=True).split(_BLOCK):
        present, member = codes[rows].unique_consecutive(return_inverse=True)
        totals[present] += F.one_hot(member).to(images.dtype).T @ images[rows]
    counts = codes.bincount(minlength=classes)[:, None]
    if before is None:
        return totals / counts
    old, old_counts = (F.pad(t.reshape(len(t), -1), (0, 0, 0, classes - len(t))) for t in before)
    return torch.where(counts > 0, (old * old_counts + totals) / (old_counts + counts), old)


# --- Eq. 8: cross-modal fusion ---------------------------------------------------------------
#
# Self-attention over [P_i(z), P, W, C]: a token x becomes x + sum_k alpha_k V_k with
# alpha proportional to exp(x W_Q . K / sqrt(d)). Written plainly it makes, for each query, its own
# copy of the whole adapted context: (batch, tokens, d), from scores of size (batch, tokens^2).
#
# All queries share the context and differ in one token only, themselves. So the context's attention
# over the context is done once: token j keeps the log-sum-exp of its scores, lse_j, and the mean
# value it reads, m_j. A query with key k and value v adds one key to that softmax, with the share
#     b_j = sigmoid(q_j . k / sqrt(d) - lse_j)
# and the token adapted to this query is x_j + (1 - b_j) m_j + b_j v = y_j + b_j (v - m_j) with
# y_j = x_j + m_j. The matchings need its cosine with the adapted query only, and that is made of
# products of (queries, d) with (d, tokens). This is Eq. 8 exactly, not an approximation.


def gather_context(
    prototypes: Tensor, texts: Tensor, prompts: Tensor, parts: str = "PWC"
) -> tuple[Tensor, int]:
    """Context = [P, W, C], or some of it: the tokens (tokens, d), targets of a matching first, and
    how many are targets. All are projected already; prompts are context only, never a target."""
    targets = [tokens for part, tokens in (("P", prototypes), ("W", texts)) if part in parts]
    count = sum(len(tokens) for tokens in targets)
    return torch.cat(targets + ([prompts] if "C" in parts else [])), count


class Reading(NamedTuple):
    """Queries, keys and values of some tokens, (tokens, d) each; queries are over sqrt(d)."""

    queries: Tensor
    keys: Tensor
    values: Tensor

    def split(self, first: int) -> tuple[Reading, Reading]:
        """The reading of the `first` tokens, and that of the rest."""
        return Reading(*(t[:first] for t in self)), Reading(*(t[first:] for t in self))


class Attention(NamedTuple):
    """The weights of the fusion: W_Q, W_K and W_V, (d, d) each, one below the other.

    They are applied as `tokens @ weights.T`, one product for all three.
    """

    weights: Tensor  # (3 d, d)

    def read(self, tokens: Tensor) -> Reading:
        queries, keys, values = (tokens @ self.weights.T).chunk(3, dim=1)
        return Reading(queries / math.sqrt(tokens.shape[1]), keys, values)


@dataclass(frozen=True)
class FusedContext:
    """What all queries share: the context after its attention over itself."""

    keys: Tensor  # (tokens, d)
    values: Tensor  # (tokens, d)
    queries: Tensor  # (targets, d), of the first tokens, those that a matching compares with
    logsumexp: Tensor  # (targets,), lse_j
    means: Tensor  # (targets, d), m_j
    adapted: Tensor  # (targets, d), y_j


def fuse_context(context: Tensor, reading: Reading, targets: int) -> FusedContext:
    """Eq. 8 among the context tokens (tokens, d); the first `targets` of them are matched later."""
    queries, keys, values = reading.queries[:targets], reading.keys, reading.values
    if targets <= _BLOCK:
        means, logsumexp = _attend(queries, keys, values)
    else:
        # The scores, targets x tokens, would not fit: a block of rows at a time, computed again
        # in the backward pass instead of kept.
        blocks = [
            checkpoint(_attend, rows, keys, values, use_reentrant=False, preserve_rng_state=False)
            for rows in queries.split(_BLOCK // 2)
        ]
        means = torch.cat([block[0] for block in blocks])
        logsumexp = torch.cat([block[1] for block in blocks])
    return FusedContext(keys, values, queries, logsumexp, means, context[:targets] + means)


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    scores = queries @ keys.T
    log_shares = scores.log_softmax(dim=1)
    return log_shares.exp() @ values, scores[:, 0] - log_shares[:, 0]


def fuse_queries(images: Tensor, reading: Reading, context: FusedContext) -> tuple[Tensor, Tensor]:
    """Eq. 8 for the queries: the adapted images (n, d) and their cosines with the adapted targets.

    >>> attention = Attention(torch.randn(3 * 8, 8))
    >>> images, tokens = torch.randn(3, 8), torch.randn(5, 8)  # two prototypes, two texts, a prompt
    >>> context = fuse_context(tokens, attention.read(tokens), targets=4)
    >>> adapted, cosines = fuse_queries(images, attention.read(images), context)
    >>> tuple(adapted.shape), tuple(cosines.shape)
    ((3, 8), (3, 4))
    """
    query, key, value = reading

    # The query reads the context and itself.
    own_score = (query * key).sum(1, keepdim=True)
    shares = torch.cat([query @ context.keys.T, own_score], dim=1).softmax(dim=1)
    adapted = images + shares[:, :-1] @ context.values + shares[:, -1:] * value

    # Each target reads the query: with share b it turns from y_j to y_j + b (v - m_j).
    b = torch.sigmoid(key @ context.queries.T - context.logsumexp)
    y, m = context.adapted, context.means
    products = torch.cat([adapted, value]) @ torch.cat([y, m]).T
    (adapted_y, adapted_m), (v_y, v_m) = (half.chunk(2, dim=1) for half in products.chunk(2))
    y_y, y_m, m_m = (y * y).sum(1), (y * m).sum(1), (m * m).sum(1)
    v_v, adapted_v = (value * value).sum(1, keepdim=True), (adapted * value).sum(1, keepdim=True)
    dot = adapted_y + b * (adapted_v - adapted_m)
    square = y_y + b * (2 * (v_y - y_m) + b * (v_v - 2 * v_m + m_m))
    norm = adapted.norm(dim=1, keepdim=True) * square.clamp_min(1e-12).sqrt()
    return adapted, dot / norm


def fuse_plainly(images: Tensor, context: Tensor, attention: Attention) -> tuple[Tensor, Tensor]:
    """Eq. 8 as printed: adapted images (n, d) and adapted context (n, tokens, d).

    The yardstick of the tests and the benchmark for the two functions above.
    """
    tokens = torch.cat([images[:, None], context.expand(len(images), -1, -1)], dim=1)
    query, key, value = (tokens @ weight.T for weight in attention.weights.chunk(3))
    shares = (query @ key.mT / math.sqrt(tokens.shape[-1])).softmax(dim=-1)
    adapted = tokens + shares @ value
    return adapted[:, 0], adapted[:, 1:]


# --- Eq. 9: visual and textual matching --------------------------------------------------------


class Matchings(NamedTuple):
    """Logits (n, C) of the matchings; the two of the fusion are None where there is none."""

    projected: Tensor  # f_PM, Eq. 5
    visual: Tensor | None = None  # f_VM, Eq. 9
    textual: Tensor | None = None  # f_TM, Eq. 9


def visual_and_textual_matching(
    images: Tensor,
    reading: Reading,
    prototypes: Tensor,
    texts: Tensor,
    context: FusedContext,
    tau: float,
    parts: str = "PWC",
) -> tuple[Tensor, Tensor]:
    """Eq. 9, f_VM and f_TM as logits, (n, C) each: cosines of the adapted query over tau.

    `parts` are those that the context was gathered from. A target that stands outside the context
    is matched as it is, unadapted.
    """
    adapted, cosines = fuse_queries(images, reading, context)
    visual = cosines[:, : len(prototypes)] if "P" in parts else cosine(adapted, prototypes)
    textual = cosines[:, -len(texts) :] if "W" in parts else cosine(adapted, texts)
    return visual / tau, textual / tau


# --- Eq. 10: the three-part loss, and the summed inference --------------------------------------


def three_part_loss(matchings: Matchings, codes: Tensor, log_prior: Tensor | None = None) -> Tensor:
    """Eq. 10: the cross-entropies of the matchings, summed.

    `log_prior` (C,) is the log count of each class among the training pictures. A task holds
    hundreds of pictures of a new class and a few exemplars of an old one, and plain cross-entropy
    learns that too; added to the logits, the log counts take it out (balanced softmax).
    """
    logits = torch.stack([part for part in matchings if part is not None])
    if log_prior is not None:
        logits = logits + log_prior
    parts = len(logits)
    return parts * F.cross_entropy(logits.flatten(0, 1), codes.repeat(parts))


def summed_inference(matchings: Matchings) -> Tensor:
    """f(x) = f_PM(x) + f_VM(x) + f_TM(x): the sum of the three softmaxes, (n, C)."""
    return torch.stack([part.softmax(dim=1) for part in matchings if part is not None]).sum(0)


# --- Eq. 11: merging at inference ----------------------------------------------------------------


def merge_projections(projections: Sequence[Tensor]) -> Tensor:
    """Eq. 11: linear projections add up to one, P-hat = sum_m P^m."""
    return torch.stack(tuple(projections)).sum(0)


def extra_parameters(d: int, tasks: int, classes: int, merged: bool = False) -> int:
    """The paper's count: (2b + 3) d^2 + B d before merging, 5 d^2 + B d after.

    >>> extra_parameters(512, tasks=10, classes=100), extra_parameters(512, 10, 100, merged=True)
    (6080512, 1361920)
    """
    return (2 * (1 if merged else tasks) + 3) * d * d + classes * d
