"""Optima of small models: compares `plan` with values computed earlier by other means and with closed forms.

RiverSwim(6) with uniform mu = 1/n has the optima below, which were recorded to nine digits or fewer before
this planner was written. The closed forms are:

- DoubleChain: the uniform occupancy is a member of the set, so it is the optimum for every rho;
- if mu is itself an occupancy then d* = mu for every rho;
- if P(s'|s,a) = q(s') does not depend on the pair, d*(s,a) = q(s) mu(s,a)/sum_b mu(s,b) for every rho.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rhocover import envs
from rhocover.coverage import Coverage
from rhocover.experiments.reproducing.reproduction import ReproducedRow, Reproduction, exactly
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning import plan
from rhocover.progress import Report

NAME = "reference-values"
TOLERANCE, FINE = 1e-11, 1e-12  # of plans; an entry of d is off by about the root of the gap, times d
DIVERGENCES = {
    1.0: 0.148958613, 1.5: 0.224795624, 2.0: 0.293000580, 3.0: 0.396901096, 5.0: 0.504778357,
    10.0: 0.584927933, 100.0: 0.646744883, 1000.0: 0.652373344, np.inf: 0.65299309,
}  # fmt: skip
VALUES = {1.0: -2.6338653, 2.0: -1.3404436}
LEAST = {1.0: 0.03342190, 2.0: 0.03765959}
LARGEST_FLOOR = 0.0433737987
CLOSED_ORDERS = (0.5, 1.0, 2.0, 8.0)
OPTIMUM = 1e-5  # Pinsker: where D_rho(mu|d) <= 1e-11 and rho >= 1/2, d is within (4e-11)^(1/2) of mu


def reference_values(
    seeds: tuple[int, ...], num_steps: int, workers: int | None, report: Report | None
) -> Reproduction:
    """Returns planned optima next to recorded values and closed forms; nothing is simulated."""
    return Reproduction(
        name=NAME,
        title="Optima of small models",
        citation="numbers recorded before this planner was written; closed forms",
        text="plan() with uniform weights unless stated. The allowed difference is one unit of the last "
        "recorded digit, or what the plan's tolerance permits.",
        rows=(*_river_swim(), *_closed_forms()),
        columns={
            "ours": "plan", "published": "reference", "difference": "difference", "allowed": "allowed",
            "holds": "holds",
        },
        digits=9,
    )  # fmt: skip


def _river_swim() -> Iterator[ReproducedRow]:
    mdp = envs.make("river_swim")
    mu = np.full(mdp.num_pairs, 1 / mdp.num_pairs)

    def row(label: str, ours: float, reference: float, allowed: float) -> ReproducedRow:
        return ReproducedRow("RiverSwim(6)", label, exactly(ours), reference, relation="=", allowed=allowed)

    for rho, reference in DIVERGENCES.items():
        digit = 1e-8 if rho == np.inf else 1e-9
        yield row(f"D*, rho = {rho:g}", plan(mdp, rho, tol=TOLERANCE).divergence, reference, digit)
    for rho, reference in VALUES.items():
        d = mdp.per_pair(plan(mdp, rho, tol=FINE).occupancy, "occupancy")
        yield row(f"U*, rho = {rho:g}", Coverage(rho, mu).value(d), reference, 1e-7)
        yield row(f"min d*, rho = {rho:g}", float(d.min()), LEAST[rho], 1e-8)
    yield row("t* = max min d", Occupancies.average(mdp).max_floor()[0], LARGEST_FLOOR, 1e-10)


def _closed_forms() -> Iterator[ReproducedRow]:
    for rho in CLOSED_ORDERS:
        chain = envs.make("double_chain")
        yield _distance("DoubleChain(31)", f"|d* - uniform|, rho = {rho:g}", chain, None, None, rho)
    for rho in CLOSED_ORDERS:
        river = envs.make("river_swim")
        own = river.per_pair(plan(river, 3.0).occupancy, "occupancy")
        yield _distance("RiverSwim(6), mu an occupancy", f"|d* - mu|, rho = {rho:g}", river, own, own, rho)
    model, mu, expected = _memoryless()
    for rho in CLOSED_ORDERS:
        yield _distance("P(s'|s,a) = q(s')", f"|d* - q mu/sum mu|, rho = {rho:g}", model, mu, expected, rho)


def _distance(
    group: str, label: str, mdp: MDP, mu: np.ndarray | None, expected: np.ndarray | None, rho: float
) -> ReproducedRow:
    """Returns the largest difference between the planned optimum and the closed form."""
    weights = None if mu is None else mdp.table(mu)
    d = mdp.per_pair(plan(mdp, rho, weights, tol=TOLERANCE).occupancy, "occupancy")
    expected = np.full(d.size, 1 / d.size) if expected is None else expected
    return ReproducedRow(
        group, label, exactly(np.abs(d - expected).max()), 0.0, relation="=", allowed=OPTIMUM
    )  # fmt: skip


def _memoryless() -> tuple[MDP, np.ndarray, np.ndarray]:
    """Returns a model whose next state does not depend on the pair, weights, and its optimum, per pair."""
    q = np.array([0.1, 0.2, 0.3, 0.4])
    mdp = MDP(np.broadcast_to(q, (4, 3, 4)).copy(), name="memoryless")
    mu = 1.0 + np.arange(12) % 5
    table = mu.reshape(4, 3)
    return mdp, mu, (q[:, None] * table / table.sum(axis=1, keepdims=True)).ravel()
