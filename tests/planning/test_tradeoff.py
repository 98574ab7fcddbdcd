"""tradeoff(): the frontier of coverage against return is made of certified plans, and its prices are its slopes."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc
from rhocover.errors import InvalidArgumentError

RIVER = rc.envs.river_swim()
REWARD = np.zeros((6, 2))
REWARD[0, 0], REWARD[5, 1] = 0.005, 1.0


def test_the_curve_runs_from_the_best_coverage_towards_the_best_return() -> None:
    curve = rc.tradeoff(RIVER, 2.0, REWARD, num_points=5)
    free = rc.plan(RIVER, 2.0)
    assert curve.divergence[0] == pytest.approx(free.divergence, abs=2e-8)
    assert curve.returns[0] == pytest.approx(float((REWARD * free.occupancy).sum()), abs=1e-4)
    assert curve.best == rc.best(RIVER, REWARD)
    np.testing.assert_allclose(
        curve.returns[1:], curve.returns[0] + np.array([1, 2, 3, 4]) * 0.99 / 4 * (curve.best - curve.returns[0]),
        atol=1e-8,
    )  # fmt: skip
    assert (curve.gap <= 1e-8).all()


def test_the_curve_is_convex_and_lies_above_the_lines_of_its_prices() -> None:
    curve = rc.tradeoff(RIVER, 1.0, REWARD, num_points=6, cover="states")
    assert (np.diff(curve.price) > 0).all()
    for value, divergence, price in zip(curve.returns, curve.divergence, curve.price, strict=True):
        assert (curve.divergence >= divergence + price * (curve.returns - value) - 1e-7).all()


def test_a_budget_is_minus_the_cost() -> None:
    right = np.array([[0.0, 1.0]] * 6)
    curve = rc.tradeoff(RIVER, 2.0, -right, num_points=3)
    assert curve.best == pytest.approx(0, abs=1e-12)
    assert (np.diff(curve.returns) > 0).all()
    assert "return" in str(curve)
    assert curve.summary()["returns"] == curve.returns.tolist()
    assert list(curve.to_pandas()) == ["return", "divergence", "gap", "price", "worst_ratio"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": np.ones(6)}, "larger for some policy"),
        ({"num_points": 1}, "num_points"),
        ({"closest": 1.0}, "closest"),
        ({"reward": np.ones(7)}, "reward"),
    ],
)
def test_what_has_no_curve_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        rc.tradeoff(RIVER, 2.0, **({"reward": REWARD} | arguments))
