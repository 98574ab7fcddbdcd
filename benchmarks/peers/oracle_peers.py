"""Solvers of Markov decision processes that people use instead of `best_response`, behind one function.

Each gets the model in its own format, prepared beforehand and not timed: nested lists for mdpsolver, arrays
and a sparse matrix for quantecon, our model for HiGHS, which solves the linear program of occupancies. Their
tolerance is the loosest that still makes the policy right to 1e-6 of the largest reward.

A cold answer is timed from that format to the policy. A warm one begins with the answer to a similar reward
and, where the solver can keep it, with the model: quantecon takes a new reward beside the old matrix, HiGHS
keeps its program and basis, mdpsolver has to be given everything again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import report
from benchmarks.peers.workers import Clock
from rhocover.checks import FloatArray, IntArray
from rhocover.oracles import LPOracle

TOLERANCE = 1e-4  # of values, which are 1/(1 - discount) = 100 times a reward
LARGE_LU = 2_000  # states of a random graph beyond which policy iteration factorises for minutes


@dataclass(frozen=True, eq=False)
class Answered:
    """The pair that is taken in each state, and how long that took."""

    seconds: float
    pairs: IntArray  # [S]


def methods(peer: str, discount: float | None, kind: str, states: int) -> list[str]:
    """Returns what a peer offers for a criterion; the fastest that is right counts."""
    if peer == "HiGHS":
        return ["linear program"]
    if peer == "mdpsolver":
        serial = ["mpi standard", "mpi standard parallel"]
        return [*serial, "mpi gs"] if discount is not None else [*serial, "vi standard"]
    is_small = states <= (LARGE_LU if kind == "Garnet" else 10 * LARGE_LU)
    offered = ["modified_policy_iteration", *(["policy_iteration"] if is_small else [])]
    return offered if discount is not None else []  # quantecon has no average reward


def prepared(mdp: rc.MDP, reward: FloatArray, other: FloatArray) -> Callable[..., Answered]:
    """Returns a function that answers: cold to `reward`, or warm to `other`, with what came before."""
    lists = _nested(mdp)
    solvers = {"quantecon": _quantecon, "mdpsolver": _mdpsolver, "HiGHS": _highs}
    _warm_up()

    def answer(peer: str, method: str, discount: float | None, is_warm: bool) -> Answered:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return solvers[peer](mdp, lists, (reward, other), method, discount, is_warm)

    return answer


def _warm_up() -> None:
    """Answers on a small model first: quantecon compiles."""
    if report.absent("quantecon") is not None:
        return
    mdp = rc.envs.river_swim()
    reward = np.ones(mdp.num_pairs)
    for method in ("modified_policy_iteration", "policy_iteration"):
        _quantecon(mdp, None, (reward, reward), method, 0.9, False)


def _nested(mdp: rc.MDP) -> tuple[list[Any], list[Any]]:
    """Returns probabilities and successors as lists of states of actions."""
    P = mdp.transitions
    start, columns, data = P.indptr.tolist(), P.indices.tolist(), P.data.tolist()
    found: tuple[list[Any], list[Any]] = ([], [])
    first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1)).tolist()
    for state in range(mdp.num_states):
        pairs = range(first[state], first[state + 1])
        for rows, values in zip(found, (data, columns), strict=True):
            rows.append([values[start[i] : start[i + 1]] for i in pairs])
    return found


def _quantecon(
    mdp: rc.MDP, _: Any, rewards: tuple[Any, Any], method: str, discount: float, is_warm: bool
) -> Answered:
    from quantecon.markov import DiscreteDP

    where = {"s_indices": mdp.pair_state, "a_indices": mdp.pair_action}
    clock = Clock()
    problem = DiscreteDP(rewards[0], mdp.transitions, discount, **where)
    found = problem.solve(method, epsilon=TOLERANCE, max_iter=10**6)
    if is_warm:
        clock = Clock()
        problem.R = rewards[1]
        found = problem.solve(method, v_init=found.v, epsilon=TOLERANCE, max_iter=10**6)
    return Answered(clock.seconds, _pairs(mdp, found.sigma))


def _mdpsolver(
    mdp: rc.MDP, lists: Any, rewards: tuple[Any, Any], method: str, discount: float | None, is_warm: bool
) -> Answered:
    import mdpsolver

    algorithm, update, *parallel = method.split()
    options: dict[str, Any] = {"algorithm": algorithm, "update": update, "parallel": bool(parallel)}
    options |= {"tolerance": TOLERANCE, "criterion": "average" if discount is None else "discounted"}
    model, clock = None, Clock()
    for reward in [_by_state(mdp, reward) for reward in rewards[: 2 if is_warm else 1]]:
        clock = Clock()
        begun = {} if model is None else {"initValueVector": list(model.getValueVector())}
        model = mdpsolver.model()
        model.mdp(
            discount=0.99 if discount is None else discount, rewards=reward, tranMatProbs=lists[0],
            tranMatColumns=lists[1],
        )  # fmt: skip
        model.solve(**options, **begun)
    seconds = clock.seconds
    assert model is not None
    return Answered(seconds, _pairs(mdp, np.array(model.getPolicy())))


def _by_state(mdp: rc.MDP, reward: FloatArray) -> list[list[float]]:
    parts = np.split(reward, np.searchsorted(mdp.pair_state, np.arange(1, mdp.num_states)))
    return [part.tolist() for part in parts]


def _highs(
    mdp: rc.MDP, _: Any, rewards: tuple[Any, Any], method: str, discount: float | None, is_warm: bool
) -> Answered:
    start = None if discount is None else even_start(mdp)
    members = rc.Occupancies.of(mdp, discount=discount, start=start)
    clock = Clock()
    oracle = LPOracle(members, keep_basis=is_warm)
    found = oracle.respond(rewards[0])
    if is_warm:
        clock = Clock()
        found = oracle.respond(rewards[1])
    seconds = clock.seconds
    return Answered(seconds, oracle.choices.chosen(found.policy))


def even_start(mdp: rc.MDP) -> FloatArray:
    """Returns the start that is even over the states: the solvers weigh all states alike."""
    return np.full(mdp.num_states, 1 / mdp.num_states)


def _pairs(mdp: rc.MDP, rank: Any) -> IntArray:
    """Returns the pair of each state from the rank of its action among those the state allows."""
    first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states))
    return first + np.asarray(rank, np.int64)
