"""What one policy needs for a wish: in the long run, in expectation from a start, and for certain.

With d the policy's long-run frequencies of the pairs, a wish for m_i visits takes max_i m_i/d_i steps in the
long run, and a wish sum_i cost_i/(n d_i) <= 1 (a model error) takes sum_i cost_i/d_i. The other two numbers
are those of `visits` and `certainty`. A pair that the policy never visits makes its numbers infinite, and is
named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import chains, checks
from rhocover.checks import FloatArray, frozen
from rhocover.mdp import MDP
from rhocover.theory.certainty import sure_steps
from rhocover.theory.visits import first_time, long_run_frequencies, reached_states

ROUNDING = 1e-9  # of a number of steps, before it is rounded up
TIED = 1e-4  # relative: pairs this close decide together


@dataclass(frozen=True, eq=False)
class Effort:
    """What one policy needs for a wish: whole numbers of steps; inf if never, None if not computed."""

    policy: FloatArray  # [S, A]
    steps: float  # in the long run
    expected_steps: float | None  # until the expected visits are there, from the start
    sure_steps: float | None  # until all visits are there with probability 1 - delta, certified
    bottleneck: str  # the pairs that take longest, or that are never visited
    note: (
        str  # why a number is inf or None, and the share for ways between pairs; "" if nothing is to be said
    )

    def summary(self) -> dict[str, Any]:
        """Returns the numbers, ready for JSON (infinities as text)."""
        numbers = {
            "steps": self.steps,
            "expected_steps": self.expected_steps,
            "sure_steps": self.sure_steps,
        }
        plain = {key: str(x) if x == math.inf else x for key, x in numbers.items()}
        return {**plain, "bottleneck": self.bottleneck, "note": self.note}


def effort_for_visits(
    mdp: MDP, policy: FloatArray, visits: FloatArray, start: FloatArray, delta: float, note: str = ""
) -> Effort:
    """Returns what a policy needs for the visits, `[n]`."""
    chain, choice, d = _long_run(mdp, policy, start)
    bottleneck, steps = _longest(mdp, visits, d)
    expected = first_time(chain, start, _need(mdp, choice, visits), d[0])
    reached = reached_states(chain, start)[mdp.pair_state] & (choice > 0)
    lost = np.flatnonzero((visits > 0) & ~reached)
    notes = [note]
    if lost.size:
        bottleneck, sure = _names(mdp, lost), math.inf
        notes.append(f"Never reached from the start: {bottleneck}.")
    else:
        sure, reason = sure_steps(mdp, chain, choice, start, visits, delta)
        notes += [_expected_note(expected, steps, bottleneck), reason]
    text = " ".join(filter(None, notes))
    return Effort(frozen(mdp.table(choice)), steps, expected, sure, bottleneck, text)


def effort_for_error(mdp: MDP, policy: FloatArray, cost: FloatArray, start: FloatArray) -> Effort:
    """Returns what a policy needs so that sum_i cost_i/(n d_i) <= 1."""
    _, choice, d = _long_run(mdp, policy, start)
    bottleneck, longest = _longest(mdp, cost, d)
    note = f"Not visited for ever: {bottleneck}." if longest == math.inf else ""
    needed = cost > 0
    steps = math.inf if note else whole(float((cost[needed] / d[1][needed]).sum()))
    return Effort(frozen(mdp.table(choice)), steps, None, None, bottleneck, note)


def _long_run(mdp: MDP, policy: FloatArray, start: FloatArray) -> tuple[Any, FloatArray, Any]:
    """Returns the chain, pi(a|s) per pair, and the long-run frequencies of states and of pairs."""
    chain = chains.policy_chain(mdp, policy)
    choice = mdp.per_pair(policy, "policy")
    choice = choice / np.bincount(mdp.pair_state, choice, mdp.num_states)[mdp.pair_state]
    states = long_run_frequencies(chain, start)
    return chain, choice, (states, states[mdp.pair_state] * choice)


def _longest(mdp: MDP, need: FloatArray, d: tuple[FloatArray, FloatArray]) -> tuple[str, float]:
    """Returns the pairs with the largest need/d, by name, and that ratio, rounded up; inf where d is zero."""
    seen = np.where(d[1] > 0, d[1], 1.0)
    ratio = np.where(need > 0, np.where(d[1] > 0, need / seen, np.inf), 0.0)
    worst = float(ratio.max())
    names = _names(mdp, np.flatnonzero(ratio >= (1 - TIED) * worst))
    return names, whole(worst) if worst < math.inf else math.inf


def _need(mdp: MDP, choice: FloatArray, visits: FloatArray) -> FloatArray:
    """Returns how often each state must be visited so that all its pairs get their visits in expectation."""
    need = np.zeros(mdp.num_states)
    asked = visits > 0
    with np.errstate(divide="ignore"):
        np.maximum.at(need, mdp.pair_state[asked], visits[asked] / choice[asked])
    return need


def whole(steps: float) -> int:
    """Returns the number of steps rounded up, where 400.0000001 is 400."""
    return math.ceil(steps * (1 - ROUNDING))


def _expected_note(expected: float | None, steps: float, bottleneck: str) -> str:
    if expected is None:
        return "expected steps were not found: the chain forgets its start too slowly. Simulate the policy."
    return f"Not visited for ever: {bottleneck}." if steps == math.inf else ""


def _names(mdp: MDP, pairs: Any) -> str:
    """Returns the names of up to four pairs; of more, the first and how many there are."""
    return checks.name_some([mdp.pair_name(int(pair)) for pair in pairs], limit=4 if len(pairs) <= 4 else 1)
