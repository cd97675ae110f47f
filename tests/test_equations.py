"""The equations, each against its printed form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from proof import equations
from proof.equations import (
    Attention,
    Matchings,
    aggregate_projections,
    extra_parameters,
    fuse_context,
    fuse_plainly,
    fuse_queries,
    gather_context,
    merge_projections,
    projected_matching,
    summed_inference,
    three_part_loss,
    visual_and_textual_matching,
    visual_prototypes,
)


def random_case(
    seed: int, queries: int, tokens: int, d: int, scale: float
) -> tuple[Tensor, Tensor, Attention]:
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    images, context = randn(queries, d), randn(tokens, d)
    return images, context, Attention((scale * randn(3 * d, d)).detach().requires_grad_())


def exact(
    images: Tensor, context: Tensor, targets: int, attention: Attention
) -> tuple[Tensor, Tensor]:
    shared = fuse_context(context, attention.read(context), targets)
    return fuse_queries(images, attention.read(images), shared)


def plain(
    images: Tensor, context: Tensor, targets: int, attention: Attention
) -> tuple[Tensor, Tensor]:
    adapted, adapted_context = fuse_plainly(images, context, attention)
    cosines = F.cosine_similarity(adapted[:, None], adapted_context[:, :targets], dim=-1)
    return adapted, cosines


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    queries=st.integers(1, 9),
    targets=st.integers(1, 12),
    prompts=st.integers(0, 4),
    d=st.integers(2, 24),
    scale=st.sampled_from([0.05, 0.3, 1.0]),
)
def test_exact_fusion_is_the_plain_attention_with_its_gradients(
    seed: int, queries: int, targets: int, prompts: int, d: int, scale: float
) -> None:
    images, context, attention = random_case(seed, queries, targets + prompts, d, scale)
    inputs = [images, context, *attention]
    ours = exact(images, context, targets, attention)
    theirs = plain(images, context, targets, attention)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    weights = torch.randn(queries, targets, dtype=torch.float64)
    ours_grad = torch.autograd.grad((ours[1] * weights).sum(), inputs)
    theirs_grad = torch.autograd.grad((theirs[1] * weights).sum(), inputs)
    for a, b in zip(ours_grad, theirs_grad, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_fusion_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images, context, attention = random_case(0, 5, 13, 8, 0.5)
    whole = exact(images, context, 11, attention)[1]
    whole_grad = torch.autograd.grad(whole.pow(2).sum(), [context, *attention])
    monkeypatch.setattr(equations, "_BLOCK", 6)
    blocks = exact(images, context, 11, attention)[1]
    blocks_grad = torch.autograd.grad(blocks.pow(2).sum(), [context, *attention])
    torch.testing.assert_close(blocks, whole, rtol=1e-12, atol=1e-12)
    for a, b in zip(blocks_grad, whole_grad, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return result


def test_fusion_never_makes_a_copy_of_the_context_for_each_query() -> None:
    queries, tokens, d = 50, 30, 40
    images, context, attention = random_case(1, queries, tokens, d, 0.3)
    with Largest() as largest:
        exact(images, context, tokens, attention)[1].sum().backward()
    assert largest.numbers <= 3 * (queries + tokens) * d
    with Largest() as largest:
        plain(images, context, tokens, attention)[1].sum().backward()
    assert largest.numbers >= queries * tokens * d, "the measure itself must see the plain form"


def test_projected_matching_is_the_cosine_over_tau() -> None:
    z, w = torch.randn(4, 8), torch.randn(3, 8)
    expected = F.cosine_similarity(z[:, None], w[None], dim=-1) / 0.1
    torch.testing.assert_close(projected_matching(z, w, 0.1), expected)


@pytest.mark.parametrize("block", [4, 7, 4096])
def test_prototypes_are_class_means(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equations, "_BLOCK", block)
    images, codes = torch.randn(30, 5), torch.arange(30) % 3
    expected = torch.stack([images[codes == code].mean(0) for code in range(3)])
    torch.testing.assert_close(visual_prototypes(images, codes, 3), expected)


def test_prototypes_make_no_table_of_rows_by_classes() -> None:
    rows, classes, d = 20_000, 5_000, 8
    images, codes = torch.randn(rows, d), torch.arange(rows) % classes
    with Largest() as largest:
        visual_prototypes(images, codes, classes)
    assert largest.numbers < rows * classes / 10


def test_merged_projection_gives_what_the_sum_of_projections_gives() -> None:
    projections, z = list(torch.randn(4, 6, 6).double()), torch.randn(5, 6).double()
    apart = aggregate_projections([z @ weight.T for weight in projections])
    torch.testing.assert_close(z @ merge_projections(projections).T, apart)


def test_parameter_count_follows_the_papers_formula() -> None:
    d, b, classes = 512, 10, 100
    assert extra_parameters(d, b, classes) == (2 * b + 3) * d**2 + classes * d
    assert extra_parameters(d, b, classes, merged=True) == 5 * d**2 + classes * d


@pytest.mark.parametrize("parts", ["P", "W", "PW", "PWC"])
def test_targets_outside_the_context_are_matched_unadapted(parts: str) -> None:
    images, tokens, attention = random_case(2, 4, 8, 6, 0.5)
    prototypes, texts, prompts = tokens[:3], tokens[3:6], tokens[6:]
    context, targets = gather_context(prototypes, texts, prompts, parts)
    shared = fuse_context(context, attention.read(context), targets)
    visual, textual = visual_and_textual_matching(
        images, attention.read(images), prototypes, texts, shared, 1.0, parts
    )
    adapted, adapted_context = fuse_plainly(images, context, attention)
    for matching, target, part in ((visual, prototypes, "P"), (textual, texts, "W")):
        expected = target.expand(4, -1, -1)
        if part in parts:
            start = 3 if parts.startswith("PW") and part == "W" else 0
            expected = adapted_context[:, start : start + 3]
        cosines = F.cosine_similarity(adapted[:, None], expected, dim=-1)
        torch.testing.assert_close(matching, cosines)


def test_loss_is_the_sum_of_three_cross_entropies() -> None:
    parts, codes = torch.randn(3, 6, 4), torch.randint(0, 4, (6,))
    expected = sum(F.cross_entropy(part, codes) for part in parts)
    torch.testing.assert_close(three_part_loss(Matchings(*parts), codes), expected)
    prior = torch.randn(4)
    expected = sum(F.cross_entropy(part + prior, codes) for part in parts)
    torch.testing.assert_close(three_part_loss(Matchings(*parts), codes, prior), expected)
    torch.testing.assert_close(
        three_part_loss(Matchings(parts[0]), codes), F.cross_entropy(parts[0], codes)
    )


def test_inference_sums_the_three_softmaxes() -> None:
    parts = torch.randn(3, 6, 4)
    torch.testing.assert_close(summed_inference(Matchings(*parts)), parts.softmax(-1).sum(0))
