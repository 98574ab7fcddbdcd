"""Is a plan's policy what was certified, where two blocks of states hardly ever meet? At most 10 % may raise.

420 models: couplings from 1e-4 to 1e-10, weights over 0.5, 4 and 12 decades, five orders. The yardstick is
the stationary distribution of the policy that was handed out, whose solver subtracts nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks import report
from rhocover import MDP, Occupancies, plan
from rhocover.errors import NotConvergedError

ROUNDS = 4
MOST_RAISE = 0.1

COUPLINGS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
DECADES = (0.5, 4.0, 12.0)
RHOS = (0.5, 1.0, 2.0, 8.0, float("inf"))
NUM_ACTIONS = 2


@dataclass(frozen=True, eq=False)
class Case:
    """A model, its weights `[S, A]` and the order to plan for."""

    mdp: MDP
    mu: np.ndarray
    rho: float
    name: str


def two_blocks(rng: np.random.Generator, coupling: float) -> MDP:
    """Returns two blocks of two to five states with random moves inside, and one or two ways over each."""
    sizes = rng.integers(2, 6, 2)
    edge, num_states = int(sizes[0]), int(sizes.sum())
    blocks = [(0, edge), (edge, num_states)]
    P = np.zeros((num_states, NUM_ACTIONS, num_states))
    for low, high in blocks:
        P[low:high, :, low:high] = rng.dirichlet(np.ones(high - low), (high - low, NUM_ACTIONS))
    for (low, high), (there, end) in (blocks, blocks[::-1]):
        for _ in range(rng.integers(1, 3)):
            s, a = rng.integers(low, high), rng.integers(NUM_ACTIONS)
            P[s, a] *= 1 - coupling
            P[s, a, rng.integers(there, end)] += coupling
    return MDP(P)


def cases(rounds: int, seed: int = 0) -> Iterator[Case]:
    """Yields a fresh model for each coupling, range of weights and order, `rounds` times over."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        for coupling, decades, rho in itertools.product(COUPLINGS, DECADES, RHOS):
            mdp = two_blocks(rng, coupling)
            mu = 10 ** (decades * (rng.random((mdp.num_states, NUM_ACTIONS)) - 1))
            yield Case(mdp, mu, rho, f"coupling {coupling:g}, {decades:g} decades, rho {rho:g}")


def run() -> None:
    found = [row_of(case) for case in cases(ROUNDS)]
    rows = [summary(rho, [row for row in found if row["rho"] == rho]) for rho in RHOS]
    raised, worse = (sum(row[key] for row in rows) for key in ("raised", "worse than certified"))
    verdicts = {
        f"{worse} of {len(found) - raised} policies are worse than certified (none may be)": worse == 0,
        f"{raised} of {len(found)} raise (at most {MOST_RAISE:.0%})": raised <= MOST_RAISE * len(found),
    }
    report.write("near_reducible", rows, verdicts)


def row_of(case: Case) -> dict[str, float]:
    try:
        best = plan(case.mdp, case.rho, case.mu)
    except NotConvergedError:
        return {"rho": case.rho, "raised": 1, "excess": 0.0, "gap": 0.0}
    visits = Occupancies.average(case.mdp).from_policy(best.policy)
    excess = best.coverage.divergence(visits) - best.divergence
    return {"rho": case.rho, "raised": 0, "excess": excess, "gap": best.gap}


def summary(rho: float, rows: list[dict[str, float]]) -> dict[str, float]:
    return {
        "rho": rho,
        "models": len(rows),
        "raised": sum(row["raised"] for row in rows),
        "worse than certified": sum(row["excess"] > row["gap"] for row in rows),
        "largest excess": max(row["excess"] for row in rows),
        "largest gap": max(row["gap"] for row in rows),
    }
