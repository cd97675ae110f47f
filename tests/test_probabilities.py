"""Probabilities mean what they say, and what is unknown stands out."""

from __future__ import annotations

import math

import pytest
import torch

from proof.models.calibration import Calibration
from proof.probabilities import Scale, calibration_error, fit_temperature, separation


def drawn(temperature: float, pictures: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and classes drawn from the probabilities that they give at a temperature."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(pictures, 10, generator=generator, dtype=torch.float64)
    shares = (logits / temperature).softmax(1)
    return logits, torch.multinomial(shares, 1, generator=generator)[:, 0]


@pytest.mark.parametrize("temperature", [0.05, 0.5, 3.0])
def test_the_temperature_is_found(temperature: float) -> None:
    logits, codes = drawn(temperature, 20_000)
    assert fit_temperature(logits, codes, expected=0.3) == pytest.approx(temperature, rel=0.05)
    fitted = Scale(fit_temperature(logits, codes, expected=0.3))
    assert calibration_error(fitted.probabilities(logits), codes) < 2


def test_a_few_pictures_move_the_temperature_little() -> None:
    logits, codes = torch.eye(10, dtype=torch.float64)[:4] * 20, torch.arange(4)
    assert 0.5 < fit_temperature(logits, codes, expected=1.0) < 2, "all right, and no certainty"
    many, true = drawn(0.05, 2000)
    alone = fit_temperature(many[:3], true[:3], expected=1.0)
    assert fit_temperature(many, true, expected=1.0) < alone < 1.0


def test_bent_shares_are_shares_again() -> None:
    shares = torch.rand(5, 7).softmax(1)
    scale = Scale(temperature=1.0, bend=1e-9)
    torch.testing.assert_close(
        scale.probabilities(3 * shares).float(), shares, rtol=1e-4, atol=1e-5
    )
    straight, nearly = Scale(0.1), Scale(0.1 / 1e6, bend=1e6)
    scores = torch.randn(5, 7)
    torch.testing.assert_close(
        nearly.probabilities(scores), straight.probabilities(scores), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("scale", [Scale(), Scale(1.0, 1e-6), Scale(0.08, 0.3, absolute=True)])
def test_the_highest_score_is_the_likeliest_class(scale: Scale) -> None:
    scores = torch.randn(200, 12)
    shares = scale.probabilities(scores)
    assert torch.equal(shares.argmax(1), scores.argmax(1))
    torch.testing.assert_close(shares.sum(1), torch.ones(200, dtype=torch.float64))


def test_what_cannot_be_scored_has_no_share_and_no_say() -> None:
    scores = torch.tensor([[0.9, 0.5, -math.inf], [0.4, 0.4, -math.inf]])
    scale = Scale()
    assert scale.probabilities(scores)[:, 2].tolist() == [0, 0]
    assert scale.familiarity(scores).tolist() == pytest.approx([0.4, 0.0])
    assert scale.familiarity(scores[:, :1]).tolist() == pytest.approx([0.9, 0.4])
    assert Scale(absolute=True).familiarity(scores).tolist() == pytest.approx([0.9, 0.4])


def test_separation_counts_pairs() -> None:
    known, unknown = torch.randn(50) + 1, torch.randn(70)
    pairs = known[:, None] - unknown
    by_hand = 100 * float(((pairs > 0).double() + 0.5 * (pairs == 0)).mean())
    assert separation(known, unknown) == pytest.approx(by_hand)


def test_the_threshold_holds_for_pictures_to_come() -> None:
    """Of pictures like those that it was made on, at least the share that was asked for passes."""
    generator = torch.Generator().manual_seed(1)
    for share in (0.5, 0.9, 0.95):
        passed = []
        for _ in range(300):
            values = torch.rand(40, generator=generator)
            calibration = Calibration(1.0, known=tuple(values[:39].sort().values.tolist()))
            passed.append(float(values[39]) >= calibration.threshold(share))
        assert sum(passed) / 300 > share - 0.05
    assert Calibration(1.0, known=(0.5, 0.6)).threshold(0.95) == -math.inf, "too few to refuse any"
