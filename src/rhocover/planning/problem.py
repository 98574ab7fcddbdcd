"""A planning problem as the caller wrote it, checked, on the pairs that can carry occupancy.

Pairs that no policy can keep visiting are refused or dropped here, so that solvers only see sets where
every pair can have positive occupancy; tables are laid out in the caller's shape again afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import Occupancies
from rhocover.planning.certificate import Multipliers
from rhocover.planning.program import Program, make_program
from rhocover.planning.rows import Rows, flow_rows
from rhocover.structure import Structure, average_structure, horizon_structure, reachable_structure


@dataclass(frozen=True, eq=False)
class Problem:
    """A checked problem: `members` has the kept pairs of `mdp`, `states` their old state numbers."""

    mdp: MDP
    members: Occupancies
    program: Program
    rows: Rows
    states: IntArray
    kept: BoolArray
    restriction: str

    def table(self, d: FloatArray) -> FloatArray:
        """Returns values per entry as a table over all of the caller's states and actions."""
        small = self.members.table(d)
        if self.states.size == self.mdp.num_states:
            return small
        large = np.zeros((*small.shape[:-2], self.mdp.num_states, self.mdp.num_actions))
        large[..., self.states, :] = small
        return large

    def policy_table(self, d: FloatArray) -> FloatArray:
        """Returns the policy of d as a table; dropped states choose uniformly among their actions."""
        policy = self.members.to_policy(d)
        if self.kept.all() and self.members.num_steps is None:
            return policy
        policy = self.table(self.members.flatten(policy, "policy"))
        allowed = self.mdp.table(np.ones(self.mdp.num_pairs))
        uniform = allowed / allowed.sum(axis=1, keepdims=True)
        return np.where(policy.sum(axis=-1, keepdims=True) > 0, policy, uniform)

    def potential_table(self, multipliers: Multipliers) -> FloatArray:
        """Returns the potential of each state, `[S]` or `[H, S]`; nan where the problem has none."""
        members = self.members
        nu = self.rows.potential(multipliers.nu)
        if members.criterion != "average":
            nu = nu + multipliers.alpha * members.unit_potential()
        shape = (*members.shape[:-2], self.mdp.num_states)
        result = np.full(shape, np.nan)
        states = self.states[members.mdp.pair_state[members.pair]]
        result[states if members.num_steps is None else (members.step, states)] = nu[members.node]
        return result


def read_problem(
    mdp: Any, rho: Any, mu: Any, discount: Any, horizon: Any, start: Any, eta: Any, restrict: bool
) -> Problem:
    """Returns the checked problem; refuses what is wrong, by the caller's own names."""
    check_mdp(mdp)
    full = Occupancies.of(mdp, discount=discount, horizon=horizon, start=start, eta=eta)
    mu = None if mu is None else _read_weights(mdp, mu)
    weights = np.ones(full.num_pairs) if mu is None else full.flatten(mu, "mu")
    if mu is not None:
        checked_weights(mu, "mu")
    structure = _structure(full, mu, weights, restrict)
    coverage = Coverage(rho, checked_weights(weights, "mu"))
    members, kept_weights, states = _kept(full, weights, structure)
    if kept_weights is not weights:
        coverage = Coverage(rho, kept_weights)
    if coverage.rho == 0 and not coverage.support.all():
        raise InvalidArgumentError(
            "rho=0 measures KL(d || mu), which is infinite once a pair of zero weight is visited. "
            "Give every pair some weight, or use a small rho such as 0.05."
        )
    members.check_floor()
    rows = flow_rows(members)
    program = make_program(members, coverage, rows)
    return Problem(mdp, members, program, rows, states, structure.kept, structure.describe(mdp))


def _read_weights(mdp: MDP, mu: Any) -> FloatArray:
    """Returns the weights as the caller shaped them; one value a pair becomes `[S, A]`."""
    mu = checks.float_array(mu, "mu")
    checks.check_nonnegative(mu, "mu")
    return mdp.table(mu) if mu.shape == (mdp.num_pairs,) else mu


def _structure(full: Occupancies, mu: Any, weights: FloatArray, restrict: bool) -> Structure:
    if full.criterion == "average":
        return average_structure(full.mdp, weights, restrict=restrict)
    if full.criterion == "discounted":
        return reachable_structure(full.mdp, weights, full.start, restrict=restrict)
    return horizon_structure(full.mdp, mu, full.table(np.ones(full.num_pairs)) > 0, restrict=restrict)


def _kept(
    full: Occupancies, weights: FloatArray, structure: Structure
) -> tuple[Occupancies, FloatArray, IntArray]:
    """Returns the set, the weights and the old state numbers after dropping what cannot be covered.

    A horizon set holds only what can be reached in the first place.
    """
    if full.num_steps is not None or structure.kept.all():
        return full, weights, np.arange(full.mdp.num_states)
    mdp, states = full.mdp.subset(structure.kept)
    start = None if full.start is None else full.start[states]
    members = Occupancies.of(mdp, discount=full.discount, start=start, eta=full.eta)
    return members, weights[structure.kept], states


def leximin_multipliers(members: Occupancies, rows: Rows, dual: FloatArray) -> Multipliers:
    """Returns a linear program's row multipliers in the form of a certificate."""
    if members.criterion != "average":
        return Multipliers(rows.multipliers(dual), 0.0)
    return Multipliers(rows.multipliers(dual[:-1]), float(dual[-1]))
