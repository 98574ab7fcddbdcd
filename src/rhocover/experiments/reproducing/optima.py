"""Statements of the paper about optima: which divergence they minimise, and where they go as rho grows.

Plans come with a certified gap; the minimax value is found a second time by a linear program,

    max z  over  d = x + z mubar,  x >= 0,  d an occupancy,      min_d max_i mubar_i/d_i = 1/z.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from rhocover.experiments.reproducing.identities import BELOW, entropy, kl, next_term
from rhocover.experiments.reproducing.reproduction import Row
from rhocover.experiments.reproducing.scenes import PROGRAM, ROUNDING, TOLERANCE, Scene
from rhocover.linear_program import LinearProgram
from rhocover.planning import plan

LARGE = (8.0, 32.0, 128.0, 1000.0)
ORDERS = (0.5, 1.0, 2.0, 8.0, 32.0, 1000.0, np.inf)


def optima(scene: Scene) -> Iterator[Row]:
    """Yields the rows of one scene."""
    yield from _first_order(scene)
    yield from _worst_case(scene)
    yield from _entropy(scene)


def _first_order(scene: Scene) -> Iterator[Row]:
    """Lemma 1 at the optimum: no occupancy has a smaller KL, by the dual bound."""
    best = scene.best(1.0)
    d, mu_bar = scene.per_pair(best), scene.mu_bar
    right = -scene.mass * (best.lower_bound + entropy(mu_bar))
    yield scene.near(
        "Lemma 1: max U_1 is at min KL(mubar|d)", scene.coverage(1).value(d), right,
        scene.mass * (TOLERANCE + ROUNDING), relation="=",
        note="The right side is computed from the dual bound, which no occupancy's KL falls below.",
    )  # fmt: skip
    found = [scene.best(rho).divergence for rho in ORDERS]
    yield scene.at_most(
        "min D_rho grows with rho: largest step down", float(-np.diff(found).min()), 0.0, allowed=TOLERANCE
    )


def _worst_case(scene: Scene) -> Iterator[Row]:
    """Lemma 4: worst ratios of optima fall to the minimax value, by two methods."""
    lowest = minimax_ratio(scene)
    yield scene.near(
        "Lemma 4: plan at rho = inf, and the linear program", scene.best(np.inf).worst_ratio, lowest,
        PROGRAM * lowest, relation="=",
    )  # fmt: skip
    for rho in LARGE:
        excess = (1 / scene.mu_bar.min()) ** (1 / (rho - 1)) - 1
        yield scene.near(
            f"Lemma 4: worst ratio of the plan at {rho:g} -> minimax", scene.best(rho).worst_ratio, lowest,
            lowest * (excess + PROGRAM),
            note="For Lemma 4 a factor (1/min mubar)^(1/(rho-1)) is allowed, which D_rho <= D_inf implies.",
        )  # fmt: skip


def _entropy(scene: Scene) -> Iterator[Row]:
    """Uniform weights at rho = 0: the largest entropy, and KL(d | mubar) as its other side."""
    best = plan(scene.mdp, 0.0, tol=TOLERANCE)
    d = scene.mdp.per_pair(best.occupancy, "occupancy")
    n = d.size
    yield scene.near(
        "rho = 0, uniform mu: max H(d) = log n - min D_0", entropy(d), np.log(n) - best.lower_bound,
        TOLERANCE + 4 * ROUNDING, relation="=",
    )  # fmt: skip
    rho, tol, flat = 1e-4, 1e-6, np.full(n, 1 / n)
    close = scene.mdp.per_pair(plan(scene.mdp, rho, tol=tol).occupancy, "occupancy")
    allowed = tol + rho * (next_term(close, flat) + next_term(d, flat))
    yield scene.near(
        "Least KL(d|mubar) of optima as rho -> 0, at 1e-4", kl(close, flat), kl(d, flat), allowed, note=BELOW
    )


def minimax_ratio(scene: Scene) -> float:
    """Returns min over d of max mubar/d by the linear program."""
    matrix, right_side = scene.members.equations()
    shift = matrix @ scene.mu_bar
    program = LinearProgram(sp.hstack([matrix, shift[:, None]], format="csr"), right_side, 0.0)
    costs = np.zeros(scene.mu_bar.size + 1)
    costs[-1] = 1.0
    return 1 / program.solve(costs).value
