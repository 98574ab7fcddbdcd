"""How good is the model that the visits allow to estimate? Mean over pairs of |P_hat - P|_1 after 10^5 steps.

Ours: rho = 3/2 with weights V^(2/3) that are learned along the way. Yardsticks: uniform random choices, and
every cited system; episodic ones with resets and H = 20 (their transitions are added up over steps), the
generative one with as many draws as the others take steps. `possible` is what the exact optimum of the known
model would have, (1/SA) sum sqrt(2/(pi n)) V/sqrt(d*), and beside it the same for the uniform policy: what
is between the two is all that any explorer can gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import rhocover as rc
from benchmarks import report, seeds
from rhocover.baselines.generative_sampling import sample_counts
from rhocover.learning import model_error

STEPS, SEEDS, HORIZON, BAR = 100_000, 20, 20, 0.08
GARNET, GARNETS = "garnet(20,10,5)", 100


def garnet(seed: int) -> rc.MDP:
    return rc.envs.garnet(num_states=20, num_actions=10, num_successors=5, seed=seed)


MODELS = {
    GARNET: garnet(0),
    "noisy_river_swim(12)": rc.envs.noisy_river_swim(),
    "wheel(5)": rc.envs.wheel(),
}
OURS = "feedback, learned weights"
CITED: dict[str, dict[str, Any]] = {
    "uniform_random": {}, "maxent": {}, "weighted_maxent": {}, "fw_modest": {}, "active_exploration": {},
    "state_marginal_matching": {}, "max_renyi": {}, "ent_game": {"horizon": HORIZON},
    "reward_free": {"horizon": HORIZON}, "rf_ucrl": {"horizon": HORIZON}, "rf_express": {"horizon": HORIZON},
    "cov_game": {"horizon": HORIZON},
}  # fmt: skip


def run() -> None:
    rows, verdicts = [], {}
    for name in MODELS:
        here = [row_of(name, explorer) for explorer in (OURS, *CITED, "generative_sampling")]
        rows += here
        verdicts |= verdicts_of(name, {row["explorer"]: row for row in here})
    gain = largest_possible_gain()
    verdicts[f"of {GARNETS} {GARNET} the one with most to gain allows {gain:.1%} (>= {BAR:.0%})"] = (
        gain >= BAR
    )
    report.write("model_error", rows, verdicts)


def largest_possible_gain() -> float:
    """Returns by how much the exact optimum is below the uniform policy, at most, over many draws."""
    draws = (garnet(seed) for seed in range(GARNETS))
    return max(1 - best / uniform for best, uniform in map(possible, draws))


def verdicts_of(name: str, found: dict[str, dict[str, Any]]) -> dict[str, bool]:
    ours, random = found[OURS], found["uniform_random"]
    less = 1 - ours["mean L1"] / random["mean L1"]
    possible = 1 - ours["possible"] / ours["uniform, exact"]
    others = [row for row in found.values() if row["explorer"] not in (OURS, "generative_sampling")]
    best = min(others, key=lambda row: row["mean L1"])
    noise = 2 * np.hypot(ours["± SE"], best["± SE"])
    bar = f" (>= {BAR:.0%})" if name == GARNET else ""
    return {
        f"{name}: {less:.1%} below uniform random{bar}; the exact optimum is {possible:.1%} below": (
            less >= (BAR if bar else 0)
        ),
        f"{name}: no worse than any cited system: {ours['mean L1']:.4g} against {best['mean L1']:.4g} "
        f"({best['explorer']}), two standard errors {noise:.1g}": ours["mean L1"] <= best["mean L1"] + noise,
    }


def row_of(name: str, explorer: str) -> dict[str, Any]:
    found = np.array(seeds.over(errors, [(name, explorer, seed) for seed in range(SEEDS)]))
    mean, error = seeds.mean_and_error(found[:, 0])
    worst, squared = found[:, 1].mean(), found[:, 2].mean()
    optimum, uniform = possible(MODELS[name])
    return {
        "case": name, "explorer": explorer, "mean L1": mean, "± SE": error, "worst pair L1": float(worst),
        "mean L2²": float(squared), "possible": optimum, "uniform, exact": uniform,
    }  # fmt: skip


def errors(name: str, explorer: str, seed: int) -> tuple[float, float, float]:
    mdp = MODELS[name]
    found = model_error(mdp, transitions(mdp, explorer, seed))
    return found.l1_mean, found.l1_worst, found.l2_mean


def transitions(mdp: rc.MDP, explorer: str, seed: int) -> Any:
    """Returns how often each state followed each pair, `[n, S]`."""
    common = {"seed": seed, "trace_points": 1, "model": "learned"}
    if explorer == OURS:
        return rc.explore(mdp, 1.5, STEPS, "model_error", **common).transitions
    if explorer == "generative_sampling":
        system = rc.baselines.GenerativeSampling(loss="l1", aggregate="average")
        world = rc.baselines.generative_world(mdp)
        run = rc.explore(world, system.rho, 2 * STEPS, system.weights(world), explorer=system, **common)
        return sample_counts(run, mdp)
    arguments = CITED[explorer]
    start = 0 if arguments else None
    run = rc.explore(mdp, 1, STEPS, explorer=explorer, start=start, **arguments, **common)
    return added_up(run) if arguments else run.transitions


def added_up(run: rc.Run) -> Any:
    """Returns the transitions of episodes added up over steps; what follows the last step is not seen."""
    members, seen = run.problem.question.members, run.transitions.tocoo()
    row, column = seen.coords
    inner = members.step[row] < members.num_steps - 1
    node_state = np.zeros(run.problem.mdp.num_states, np.int64)
    node_state[members.node] = members.mdp.pair_state[members.pair]
    where = (members.pair[row[inner]], node_state[column[inner]])
    shape = (members.mdp.num_pairs, members.mdp.num_states)
    return sp.coo_array((seen.data[inner], where), shape=shape).tocsr()


def possible(mdp: rc.MDP) -> tuple[float, float]:
    """Returns the error of the exact optimum, and that of the uniform policy, both to first order."""
    P = mdp.transitions
    V = np.add.reduceat(np.sqrt(np.maximum(P.data * (1 - P.data), 0)), P.indptr[:-1])
    count = np.bincount(mdp.pair_state)
    uniform = rc.Occupancies.average(mdp).from_policy(1 / count[mdp.pair_state])
    best = rc.plan(mdp, 1.5, rc.weights.model_error(mdp))
    d_star = mdp.per_pair(best.occupancy, "occupancy")
    noisy = V > 0

    def error(d: Any) -> float:
        return float(np.sqrt(2 / (np.pi * STEPS)) * np.sum(V[noisy] / np.sqrt(d[noisy])) / V.size)

    return error(d_star), error(uniform)
