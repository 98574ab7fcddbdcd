"""What the tests of the episodic systems share: states to ask, and values computed another way."""

from __future__ import annotations

import numpy as np

from rhocover import MDP, envs
from rhocover.baselines.cov_game import CovGame
from rhocover.baselines.ent_game import EntGame
from rhocover.baselines.reward_free import RewardFree
from rhocover.baselines.rf_express import RFExpress
from rhocover.baselines.rf_ucrl import RFUCRL
from rhocover.exploring.explorers import State
from rhocover.exploring.problem import make_problem
from rhocover.exploring.runs.spec import RunSpec, make_belief
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.exploring.worlds.simulator import Simulator
from rhocover.planning.problem import Criterion, Objective

RIVER, WHEEL = envs.river_swim(num_states=4), MDP(envs.wheel().dense(), start=0)
SYSTEMS = (EntGame, RFUCRL, RFExpress, RewardFree, CovGame)
EVERY_RULE = (
    EntGame(), EntGame(bonus=0, scope="pair"), RFUCRL(), RFUCRL(truncate=True), RFExpress(),
    RFExpress(truncate=True, scale=1e-3), RewardFree(episodes=2), CovGame(), CovGame(scope="pair"),
)  # fmt: skip


def begin(explorer, mdp: MDP, horizon: int, model: str = "learned", mu=None) -> State:
    """Returns the state before the first step."""
    problem = make_problem(mdp, Objective(2.0, mu), Criterion(horizon=horizon))
    roots = np.flatnonzero(problem.start)
    spec = RunSpec(Objective(2.0), 1, explorer=explorer, model=model).checked()
    return explorer.init(make_belief(spec, problem, roots))


def after_random_steps(
    explorer, state: State, mdp: MDP, horizon: int, num_steps: int, seed: int = 0
) -> State:
    """Returns the state after one long block of the uniform policy in `mdp`."""
    problem = make_problem(mdp, Objective(2.0), Criterion(horizon=horizon))
    world, seen = Simulator(problem.mdp, problem.start), Visits.none(problem.mdp)
    act = world.follow(SamplePolicy(np.ones(problem.mdp.num_pairs)))
    world.advance(world.begin(seed), act, seen, num_steps)
    return explorer.update(state, seen)


def value_of(P: np.ndarray, reward: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Returns the value of each first state, given P `[S, A, S]`, reward and policy `[H, S, A]`."""
    value = np.zeros(P.shape[0])
    for h in range(reward.shape[0] - 1, -1, -1):
        value = (policy[h] * (reward[h] + P @ value)).sum(axis=1)
    return value


def best_of(P: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (the best value of each first state, a policy `[H, S, A]` that has it)."""
    value, policy = np.zeros(P.shape[0]), np.zeros(reward.shape)
    for h in range(reward.shape[0] - 1, -1, -1):
        Q = reward[h] + P @ value
        policy[h] = np.eye(P.shape[1])[Q.argmax(axis=1)]
        value = Q.max(axis=1)
    return value, policy


def occupancy_of(P: np.ndarray, start: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Returns how likely each (step, state, action) is, `[H, S, A]`; each step sums to 1."""
    d, here = np.zeros(policy.shape), start
    for h in range(policy.shape[0]):
        d[h] = here[:, None] * policy[h]
        here = np.einsum("sa,sat->t", d[h], P)
    return d


def shortfall(mdp, run, gain) -> float:
    """Returns by how much the visits miss the largest gain `[H, S, A]` of an episode, as a share of it."""
    best = best_of(mdp.dense(), gain)[0] @ mdp.start
    episodes = run.num_steps / run.counts.shape[0]
    return float(1 - (gain * run.counts).sum() / episodes / best)
