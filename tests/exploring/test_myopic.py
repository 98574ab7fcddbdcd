"""Planning along trajectories against chasing what is behind where one stands.

The paper: "the FW oracle still accounts for the cumulative reward collected along trajectories, ensuring that its
intermediate decisions move efficiently toward the worst-case region rather than chasing it myopically". The myopic
chaser plays, in each state, the action of the largest gradient (mu/d_hat)^rho: the one visited least for its weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from exploring_models import INF, problem_of

import rhocover as rc
from many_runs import many_runs
from rhocover.exploring import Block, initial_state
from rhocover.exploring.worlds import LowestScore
from rhocover.oracles import make_oracle
from small_models import random_weights
from tiers import tiered

HARD = ("river_swim", "river_swim_strong_current", "six_arms")  # some states are far away, or seldom reached


@dataclass(frozen=True)
class Myopic:
    """Plays argmin_a T(s,a)/mu(s,a), which is argmax_a (mu/d_hat)^rho for every rho > 0."""

    def init(self, belief):
        return initial_state(belief)

    def policy(self, state):
        mu = state.problem.coverage.mu_bar
        return Block(LowestScore(state.counts.astype(float), np.zeros(mu.size), 1 / mu), 1000)

    def update(self, state, visits):
        return state.after(visits)


def shares_of_weights(problem) -> np.ndarray:
    """Returns the occupancy of the policy that plays each action in proportion to its weight."""
    mu, state = problem.coverage.mu_bar, problem.mdp.pair_state
    return problem.members.from_policy(mu / np.bincount(state, mu)[state])


def worst_ratio(problem, explorer, num_steps: int = 30_000) -> float:
    """Returns max mu/d_hat, the mean over three runs."""
    runs = many_runs(problem, explorer, [num_steps], range(3))
    return float(np.mean([problem.coverage.worst_ratio(d) for d in runs.occupancy[:, 0]]))


def test_the_myopic_chaser_tends_to_what_its_weights_alone_would_visit():
    """It balances the actions of each state, and never looks where they lead: no rho and no plan is in it.

    The largest error of 12 shares falls as t^-1/2; 0.01 is ten times the largest of four runs of 10^6 steps.
    """
    mdp = rc.envs.river_swim()
    problem = problem_of(mdp, 8, random_weights(mdp, 1))
    found = many_runs(problem, Myopic(), [1_000_000], [0]).occupancy[0, 0]
    assert np.abs(found - shares_of_weights(problem)).max() < 0.01
    assert np.abs(found - problem.d_star).max() > 0.1


@pytest.mark.parametrize("rho", [1, 2, 8])
@pytest.mark.parametrize("name", HARD)
def test_for_the_same_reward_the_direction_of_algorithm_1_earns_more_than_the_myopic_policy(name, rho):
    """<r, psi> is the most that any trajectory collects in the long run; greed for r itself gets half of it or less."""
    problem = problem_of(rc.envs.make(name), rho)
    d = shares_of_weights(problem)  # where the myopic chaser has come to
    reward, state = problem.coverage.reward(d), problem.mdp.pair_state
    greedy = np.zeros(d.size)
    for s in range(problem.mdp.num_states):
        pairs = np.flatnonzero(state == s)
        best = pairs[reward[pairs] >= reward[pairs].max() * (1 - 1e-9)]
        greedy[best] = 1 / best.size
    assert make_oracle(problem.members).respond(reward).occupancy @ reward > 2 * (
        reward @ problem.members.from_policy(greedy)
    )


@pytest.mark.parametrize("explorer", tiered(["algorithm1", "feedback"]))
@pytest.mark.parametrize("name", tiered(HARD))
def test_where_states_are_hard_to_reach_explorers_that_plan_cover_the_worst_pair_three_times_as_well(
    name, explorer
):
    """Worst ratios after 30,000 steps at rho = inf. RiverSwim: myopic 55, Algorithm 1 2.0, feedback 1.92, best 1.921.

    SixArms: 155 against 30 and 21; the strong current: 307 against 2.9 and 2.8. The least margin is 5.
    """
    problem = problem_of(rc.envs.make(name), INF)
    assert 3 * worst_ratio(problem, explorer) < worst_ratio(problem, Myopic())


def test_where_random_actions_go_everywhere_chasing_is_ahead_of_growing_episodes():
    """The paper's claim is not about every model: on a 4×4 grid chasing comes to 1.09, Algorithm 1 to 1.2, feedback to 1.02."""
    problem = problem_of(rc.envs.grid_world(num_rows=4), INF)
    chasing, growing, steered = (worst_ratio(problem, each) for each in (Myopic(), "algorithm1", "feedback"))
    assert steered < chasing < growing
