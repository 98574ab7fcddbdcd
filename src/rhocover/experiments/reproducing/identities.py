"""Statements of the paper that hold for every occupancy, each side computed for itself.

The left side is what the library says (`Coverage`), the right side the formula written out with plain sums
and powers. Numbers E1, E3, ... are errata; `docs/paper.md` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.experiments.reproducing.reproduction import Row
from rhocover.experiments.reproducing.scenes import PROGRAM, ROUNDING, Scene
from rhocover.occupancy import Occupancies
from rhocover.oracles import best_response, make_oracle

STEP = 1e-5  # of a central difference: its own error is near STEP^2, rounding near 1e-16/STEP
ORDERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 32.0, 128.0, 1000.0, np.inf)
SMALL = 1e-6  # how near to 0 and to 1 the limits are looked at
BELOW = "Below 1 the axis goes on to entropy: allowed is the next term of the expansion in rho, doubled."


def identities(scene: Scene) -> Iterator[Row]:
    """Yields the rows of one scene, in the order of the paper."""
    yield from _definition(scene)
    yield from _relative_entropy(scene)
    yield _average_coverage(scene)
    yield from _largest_ratio(scene)
    yield from _axis(scene)
    yield from _smoothness(scene)


def kl(p: FloatArray, q: FloatArray) -> float:
    """Returns sum p log(p/q) for positive p and q."""
    return float(np.sum(p * np.log(p / q)))


def entropy(p: FloatArray) -> float:
    """Returns -sum p log p for positive p."""
    return float(-np.sum(p * np.log(p)))


def next_term(d: FloatArray, mu_bar: FloatArray) -> float:
    """Returns KL(d | mubar) + E_d log^2(mubar/d), twice what D_rho/rho changes by for each rho."""
    return kl(d, mu_bar) + float(np.sum(d * np.log(mu_bar / d) ** 2))


def _definition(scene: Scene) -> Iterator[Row]:
    """Eq. (1) and (2): the value, and the gradient along the way to mubar against a difference quotient."""
    mu, d, way = scene.mu, scene.d, scene.mu_bar - scene.d
    for rho in (1.5, 8.0):
        value = float(np.sum(mu**rho * d ** (1 - rho)) / (1 - rho))
        yield scene.identity(f"Eq. 1: U_{rho:g} by its definition", scene.coverage(rho).value(d), value)
    for rho in (1.0, 2.0):
        U, step = scene.coverage(rho).value, STEP * float(d.min())
        slope = (U(d + step * way) - U(d - step * way)) / (2 * step)
        gradient = float(np.sum((mu / d) ** rho * way))
        # Rounding in U over the step, and step^2 times a third derivative, relative to min d.
        allowed = 64 * np.finfo(float).eps * abs(U(d)) / step + 100 * STEP**2 * abs(gradient)
        label = f"Eq. 2: slope of U_{rho:g} is <(mu/d)^{rho:g}, way>"
        yield scene.near(label, slope, gradient, allowed, relation="=")


def _relative_entropy(scene: Scene) -> Iterator[Row]:
    """Lemma 1; and erratum E1: what tends to it is D_rho, not U_rho."""
    mu_bar, d = scene.mu_bar, scene.d
    right = -scene.mass * (kl(mu_bar, d) + entropy(mu_bar))
    yield scene.identity("Lemma 1: U_1 = -M (KL(mubar|d) + H(mubar))", scene.coverage(1).value(d), right)
    near = 1 + SMALL
    spread = float(np.sum(mu_bar * np.log(mu_bar / d) ** 2))
    yield scene.near(
        f"E1: D_rho -> KL(mubar|d) as rho -> 1, at 1 + {SMALL:g}",
        scene.coverage(near).divergence(d), kl(mu_bar, d), SMALL * spread,
        note="E1: U_rho itself has no limit as rho falls to 1, it is about -M/(rho - 1) there. D_rho has "
        "one; what is allowed is the next term of its expansion, doubled.",
    )  # fmt: skip


def _average_coverage(scene: Scene) -> Row:
    """Lemma 2 with erratum E3."""
    mean = float(np.sum(scene.mu_bar * scene.mu / scene.d))
    return scene.identity(
        "Lemma 2 (E3): U_2 = -M E_mubar[mu/d]", scene.coverage(2).value(scene.d), -scene.mass * mean,
        note="E3: the paper prints U_2 = -E_mubar[mu/d]; the factor M = sum mu was lost there.",
    )  # fmt: skip


def _largest_ratio(scene: Scene) -> Iterator[Row]:
    """Lemma 3, between its two bounds, and the growing preference for the worst pair."""
    ratio, d = scene.mu / scene.d, scene.d
    worst = int(np.argmax(ratio))
    for rho in (8.0, 32.0, 128.0, 1000.0):
        lower = float(d[worst] ** (1 / rho) * ratio[worst])
        yield scene.near(
            f"Lemma 3: V_{rho:g} -> max mu/d", float(np.exp(scene.coverage(rho).log_v(d))), ratio[worst],
            (1 + ROUNDING) * ratio[worst] - lower,
            note="Lemma 3 has V_rho between d_i^(1/rho) r_max and r_max, i the worst pair: that is allowed.",
        )  # fmt: skip
    last, rho = int(np.argmin(ratio)), 32.0
    log_gradient = scene.coverage(rho).log_gradient(d)
    yield scene.identity(
        "Worst over best pair's gradient, log, rho = 32",
        float(log_gradient[worst] - log_gradient[last]), rho * float(np.log(ratio[worst] / ratio[last])),
    )  # fmt: skip


def _axis(scene: Scene) -> Iterator[Row]:
    """One axis: U_rho as a Rényi divergence, down to entropy at rho = 0, growing in rho."""
    mu_bar, d, n = scene.mu_bar, scene.d, scene.d.size
    for rho in (0.5, 2.0, 8.0):
        left = (1 - rho) * scene.coverage(rho).value(d)
        right = scene.mass**rho * float(np.exp((rho - 1) * scene.coverage(rho).divergence(d)))
        yield scene.identity(f"(1-rho) U = M^rho exp((rho-1) D_rho), rho = {rho:g}", left, right)
    yield scene.near(
        f"D_rho/rho -> KL(d|mubar) as rho -> 0, at {SMALL:g}",
        scene.coverage(SMALL).divergence(d) / SMALL, kl(d, mu_bar),
        SMALL * next_term(d, mu_bar), note=BELOW,
    )  # fmt: skip
    half = float(np.log(np.sum(d**0.5)) / 0.5)  # the Rényi entropy of order 1/2
    for rho, order, found in ((0.5, "H_0.5", half), (0.0, "H", entropy(d))):
        left = Coverage(rho, np.ones(n)).divergence(d)
        yield scene.identity(f"Uniform mu: D_{rho:g} = log n - {order}(d)", left, np.log(n) - found)
    divergences = [scene.coverage(rho).divergence(d) for rho in ORDERS[1:]]
    yield scene.at_most(
        "D_rho grows with rho: largest step down", float(-np.diff(divergences).min()), 0.0, allowed=ROUNDING
    )


def _smoothness(scene: Scene) -> Iterator[Row]:
    """Lemma 5: how steeply the gradient changes on D_eta, at most, and where it does."""
    rho, (t_star, middle) = 2.0, scene.members.max_floor()
    constant = float(np.exp(scene.coverage(rho).log_smoothness(t_star / 4)))
    slope = _steepest(scene, rho, middle)
    yield scene.at_most("Lemma 5: change of grad U_2 on D_eta <= C_eta", slope, constant)
    heaviest = (np.arange(middle.size) == np.argmax(scene.mu)).astype(float)
    corner = best_response(Occupancies.average(scene.mdp, eta=t_star / 4), -heaviest).occupancy
    curvature = float(np.exp(scene.coverage(rho).log_curvature(corner)).max())
    yield scene.near(
        "Lemma 5: C_eta is met where the heaviest pair has 2 eta", curvature, constant, PROGRAM * constant,
        relation="=",
    )  # fmt: skip


def _steepest(scene: Scene, rho: float, middle: FloatArray) -> float:
    """Returns the largest |grad U(d) - grad U(d')|/|d - d'| over ten pairs of members with d >= t*/2."""
    oracle, rng = make_oracle(scene.members), np.random.default_rng(0)
    corners = [oracle.respond(rng.standard_normal(middle.size)).occupancy for _ in range(20)]
    points = [(middle + corner) / 2 for corner in corners]  # members of D_eta with 2 eta = t*/2
    gradients = [(scene.mu / point) ** rho for point in points]
    return max(
        float(np.linalg.norm(gradients[k] - gradients[k + 1]) / np.linalg.norm(points[k] - points[k + 1]))
        for k in range(0, len(points), 2)
        if not np.array_equal(points[k], points[k + 1])
    )
