"""Results as tidy columns: one row per pair, transition, step of a trace, or policy.

A pair has the columns `state` and `action`, which are numbers, and `state_name` and `action_name` if there
are names. Tables of episodes have a row for each pair at each step, with a column `step`. Columns of the same
name mean the same everywhere:

| column | meaning |
|---|---|
| count | visits |
| occupancy | share of the visits; all of them sum to 1 |
| target | share that the weights ask for |
| ratio | target / occupancy: inf without a visit, 0 without weight |
| best | occupancy of the best plan; nan if it is not known for this pair |
| policy | probability of the action in the state |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.datasets.result import Audit
from rhocover.datasets.tally import Tally
from rhocover.errors import InvalidDataError
from rhocover.exploring import Run
from rhocover.mdp import MDP
from rhocover.planning import Plan, Tradeoff
from rhocover.planning.cover import PAIRS
from rhocover.printing import encodable
from rhocover.report.pages.audit import visits_of_audit
from rhocover.report.pages.run import visits_of_run
from rhocover.report.pages.visits import PairShares
from rhocover.showing import Columns
from rhocover.theory import Budget

Names = Sequence[str] | None


def columns_of_model(mdp: MDP) -> Columns:
    """Returns one row per possible transition, with its probability."""
    P = mdp.transitions
    pair = np.repeat(np.arange(mdp.num_pairs), np.diff(P.indptr))
    named = _pairs(mdp.pair_state[pair], mdp.pair_action[pair], mdp.state_labels, mdp.action_labels)
    return named | {"next_state": P.indices.astype(np.int64), "probability": P.data}


def columns_of_plan(plan: Plan) -> Columns:
    """Returns one row per pair: its target, its share of the visits, and the policy.

    Where groups are covered, pairs have no target.
    """
    take, named = _entries(plan.mdp, plan.occupancy.shape)
    if plan.cover != PAIRS:
        return named | {"occupancy": plan.occupancy[take], "policy": plan.policy[take]}
    weights = plan.weights / plan.weights.max()
    tables = {"target": weights / weights.sum(), "occupancy": plan.occupancy, "ratio": plan.ratio}
    tables |= {"policy": plan.policy}
    return named | {name: table[take] for name, table in tables.items()}


def columns_of_groups(plan: Plan) -> Columns:
    """Returns one row per group that is covered: its target and its share of the visits."""
    kept = np.flatnonzero(plan.weights.ravel() > 0)
    weights = plan.weights / plan.weights.max()
    tables = {"target": weights / weights.sum(), "occupancy": plan.shares, "ratio": plan.ratio}
    names = [encodable(plan.group_name(int(group))) for group in kept]
    return {"group": kept, "name": names} | {name: table.ravel()[kept] for name, table in tables.items()}


def columns_of_tradeoff(curve: Tradeoff) -> Columns:
    """Returns one row per point of a trade-off."""
    return {
        "return": curve.returns, "divergence": curve.divergence, "gap": curve.gap, "price": curve.price,
        "worst_ratio": np.array([plan.worst_ratio for plan in curve.plans]),
    }  # fmt: skip


def columns_of_run(run: Run) -> Columns:
    """Returns one row per pair: its visits, its target, and its share in the best plan."""
    return _shares(run.mdp, visits_of_run(run))


def columns_of_trace(run: Run) -> Columns:
    """Returns one row per step of the trace, with `fluctuation` and `limit`, the predictions of theory."""
    return dict(run.trace.columns) | {"fluctuation": run.trace.fluctuation, "limit": run.trace.limit}


def columns_of_audit(audit: Audit) -> Columns:
    """Returns one row per pair of the states in the data, with the standard error of its occupancy."""
    named = _rows(audit.tally)
    flat = {"count": audit.counts, "occupancy": audit.occupancy, "error": audit.error}
    seen = visits_of_audit(audit)
    best = np.full(audit.counts.shape, np.nan) if seen.best is None else seen.best
    flat |= {"target": seen.target, "ratio": seen.ratio, "best": best}
    return named | {name: np.ravel(table) for name, table in flat.items()}


def columns_of_tally(tally: Tally) -> Columns:
    """Returns one row per pair of the states that were met: its visits, and how many ended an episode."""
    return _rows(tally) | {"count": tally.counts.ravel(), "ends": tally.ends}


def columns_of_moves(tally: Tally) -> Columns:
    """Returns one row per transition that was seen, and how often."""
    moves = tally.moves.tocoo()
    state, action = np.divmod(moves.coords[0].astype(np.int64), tally.num_actions)
    named = _pairs(state, action, _state_names(tally), tally.action_names)
    return named | {"next_state": moves.coords[1].astype(np.int64), "count": moves.data}


def columns_of_budget(budget: Budget) -> Columns:
    """Returns one row per policy: the best, and the given one if there is one. inf is never, nan unknown."""
    rows = {"best": budget.best} | ({} if budget.given is None else {"given": budget.given})
    numbers = ("steps", "expected_steps", "sure_steps")
    found: dict[str, Any] = {"policy": list(rows)}
    for name in numbers:
        values = [getattr(effort, name) for effort in rows.values()]
        found[name] = np.array([np.nan if value is None else float(value) for value in values])
    return found | {
        name: [getattr(effort, name) for effort in rows.values()] for name in ("bottleneck", "note")
    }


def columns_of_policies(budget: Budget) -> Columns:
    """Returns one row per pair: how often it should be visited (nan: no such goal), and the policies."""
    mdp, given = budget.mdp, budget.given
    take, named = _entries(mdp, (mdp.num_states, mdp.num_actions))
    nothing = np.full((mdp.num_states, mdp.num_actions), np.nan)
    tables = {"visits": nothing if budget.visits is None else budget.visits, "policy": budget.policy}
    tables |= {} if given is None else {"given_policy": given.policy}
    return named | {name: table[take] for name, table in tables.items()}


def _shares(mdp: MDP, seen: PairShares) -> Columns:
    take, named = _entries(mdp, seen.share.shape)
    best = np.full(seen.share.shape, np.nan) if seen.best is None else seen.best
    tables = {"occupancy": seen.share, "target": seen.target, "ratio": seen.ratio, "best": best}
    tables = ({} if seen.counts is None else {"count": seen.counts}) | tables
    return named | {name: table[take] for name, table in tables.items()}


def _entries(mdp: MDP, shape: tuple[int, ...]) -> tuple[tuple[IntArray, ...], dict[str, Any]]:
    """Returns the index of each pair in a table of this shape, at each step, and the columns that name it."""
    state, action = mdp.pair_state, mdp.pair_action
    if len(shape) == 2:
        return (state, action), _pairs(state, action, mdp.state_labels, mdp.action_labels)
    step = np.repeat(np.arange(shape[0]), mdp.num_pairs)
    state, action = np.tile(state, shape[0]), np.tile(action, shape[0])
    named = {"step": step} | _pairs(state, action, mdp.state_labels, mdp.action_labels)
    return (step, state, action), named


def _rows(tally: Tally) -> dict[str, Any]:
    if not tally.num_states:
        raise InvalidDataError(f"{tally.source} has no transitions: there are no rows.")
    state, action = np.divmod(np.arange(tally.counts.size), tally.num_actions)
    return _pairs(state, action, _state_names(tally), tally.action_names)


def _state_names(tally: Tally) -> Names:
    return [tally.state_name(state) for state in range(tally.num_states)]


def _pairs(state: IntArray, action: IntArray, states: Names, actions: Names) -> dict[str, Any]:
    """Returns the columns that name pairs; names that UTF-8 cannot encode are escaped."""
    found: dict[str, Any] = {"state": state, "action": action}
    for column, number, names in (("state_name", state, states), ("action_name", action, actions)):
        if names is not None:
            texts = [encodable(name) for name in names]
            found[column] = [texts[k] for k in number.tolist()]
    return found
