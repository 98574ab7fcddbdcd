"""State marginal matching and maximum Rényi entropy reach the optimum of their own papers' objectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import rel_entr

import rhocover as rc
from rhocover.baselines.max_renyi import MaxRenyi, renyi_entropy
from rhocover.baselines.state_marginal_matching import StateMarginalMatching, best_policy, uniform_policy
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.runs import checkpoint
from rhocover.planning.problem import Criterion, Objective
from small_models import random_model, random_weights
from tiers import tiered

ALPHA = 0.2  # far from 1/2, where alpha and rho = 1 - alpha are the same
RIVER = rc.envs.river_swim()
RANDOM = random_model(3)
WEIGHTS = random_weights(RANDOM, 1)
CASES: dict[str, tuple[rc.MDP, Any, dict[str, Any]]] = {
    "river_swim": (RIVER, None, {}),
    "a random model, random weights": (RANDOM, WEIGHTS, {}),
    "river_swim in episodes of 8": (RIVER, None, {"horizon": 8, "start": 0}),
}
EXPLORERS = {"state_marginal_matching": StateMarginalMatching(), "max_renyi": MaxRenyi(alpha=ALPHA)}
MODELS = ("known", "learned")
SHORT, LONG = 1000, 16_000  # steps
SOLVED = 1e-6  # what the independent solver may leave of the optimum and its prices


@dataclass(frozen=True, eq=False)
class Own:
    """A paper's own objective, to be made small, and its optimum with the prices that prove it.

    It is over groups of pairs: the caller's states, or each pair of the acting model by itself.
    """

    problem: Problem
    group: np.ndarray  # of each pair of the acting model
    target: np.ndarray | None  # KL(d || target), or minus the power sum of order ALPHA
    best: float
    prices: np.ndarray

    def loss(self, d: np.ndarray) -> float:
        d = np.bincount(self.group, weights=d)
        return -float(np.sum(d**ALPHA)) if self.target is None else float(np.sum(rel_entr(d, self.target)))

    def excess(self, d: np.ndarray) -> float:
        """Returns the loss above the best, without the run's luck (of first order).

        The loss is convex, and its gradient at the optimum is a constant plus F'h plus a slack >= 0. So
        loss(d) - best - <h, F d> is a Bregman divergence plus slack: never negative for d >= 0 of mass
        1. F d is what the world's chances did to the visits, besides the run's two ends.
        """
        return self.loss(d) - self.best - float(self.prices @ (self.problem.members.flow @ d))


def own_objective(explorer: Any, mdp: rc.MDP, mu: Any, **criterion: Any) -> Own:
    """Returns the optimum from a solver that shares nothing with the library."""
    problem = make_problem(mdp, Objective(1.0, mu), Criterion(**criterion))
    members = problem.question.members
    matches = isinstance(explorer, StateMarginalMatching)
    group = members.mdp.pair_state[members.pair] if matches else np.arange(members.num_pairs)
    target = np.bincount(group, weights=problem.coverage.mu_bar) if matches else None
    d = cp.Variable(group.size, nonneg=True)
    visits = np.eye(int(group.max()) + 1)[:, group] @ d
    loss = -cp.sum(cp.power(visits, ALPHA)) if target is None else cp.sum(cp.rel_entr(visits, target))
    flow = problem.members.flow.toarray() @ d == 0
    program = cp.Problem(cp.Minimize(loss), [flow, cp.sum(d) == 1])
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    return Own(problem, group, target, float(program.value), -np.asarray(flow.dual_value))


def excesses(explorer: Any, model: str, case: str) -> tuple[float, float, float]:
    """Returns the excess after few and after many steps, and that of uniform actions for ever."""
    mdp, mu, criterion = CASES[case]
    own = own_objective(explorer, mdp, mu, **criterion)

    def excess(num_steps: int) -> float:
        run = rc.explore(mdp, 1.0, num_steps, mu, explorer=explorer, model=model, seed=0, **criterion)
        return own.excess(run.visits / num_steps)

    at_random = own.problem.members.from_policy(uniform_policy(own.problem))
    return excess(SHORT), excess(LONG), own.excess(at_random)


EPISODES = "river_swim in episodes of 8"
COMBINATIONS = [(c, e, m) for c in CASES for e in EXPLORERS for m in MODELS]
SLOW = (EPISODES, "state_marginal_matching", "learned")


@pytest.mark.parametrize(("case", "name", "model"), tiered([one for one in COMBINATIONS if one != SLOW]))
def test_visits_come_to_the_optimum_of_the_papers_own_objective(case: str, name: str, model: str) -> None:
    early, late, at_random = excesses(EXPLORERS[name], model, case)
    assert late >= -SOLVED
    assert late <= early / 4 + SOLVED  # 16 times the steps: at least t^-1/2, the rate of the random actions
    assert late <= at_random / 10


def test_state_marginals_in_episodes_are_matched_though_each_step_is_learned_by_itself() -> None:
    early, late, at_random = excesses(StateMarginalMatching(), "learned", EPISODES)
    assert late >= -SOLVED
    assert (
        late <= early / 2
    )  # only random actions are sure to try all of 66 pairs, and most come late in an episode
    assert late <= at_random / 10


@pytest.mark.parametrize("name", tiered(EXPLORERS))
def test_a_learner_visits_every_pair(name: str) -> None:
    for mdp in (RIVER, RANDOM, rc.envs.noisy_river_swim()):
        run = rc.explore(mdp, 1.0, 5000, explorer=EXPLORERS[name], model="learned", seed=1)
        assert run.is_complete, mdp.name


# State marginal matching.


def test_states_are_sought_by_how_much_they_are_missing() -> None:
    problem = make_problem(RIVER, Objective(1.0, rc.weights.per_state(RIVER, [1, 1, 1, 1, 1, 5])))
    explorer = StateMarginalMatching(randomness=0.0)
    state = explorer.init(KnownModel(problem))
    right = best_policy(problem, (RIVER.pair_state == 5).astype(float))
    np.testing.assert_array_equal(explorer.policy(state).behaviour.policy, right)


def test_the_target_is_the_marginal_of_the_weights_unless_it_is_uniform() -> None:
    mu = rc.weights.per_state(RIVER, [8, 1, 1, 1, 1, 8])
    own = {
        "mu": own_objective(StateMarginalMatching(), RIVER, mu),
        "uniform": own_objective(StateMarginalMatching(), RIVER, None),
    }
    for target, other in (("mu", "uniform"), ("uniform", "mu")):
        run = rc.explore(RIVER, 1.0, 5000, mu, explorer=StateMarginalMatching(target=target), seed=0)
        excess = {name: one.excess(run.visits / run.num_steps) for name, one in own.items()}
        assert 10 * excess[target] < excess[other]


def test_a_share_of_the_actions_is_uniform_that_falls_as_the_root_of_the_steps() -> None:
    problem = make_problem(RIVER, Objective(1.0))
    explorer = StateMarginalMatching(randomness=2.0)
    state = explorer.init(KnownModel(problem))
    np.testing.assert_array_equal(explorer.policy(state).behaviour.policy, uniform_policy(problem))
    later = state.__class__(state.belief, state.counts, 400, 9)
    assert np.unique(explorer.policy(later).behaviour.policy).tolist() == pytest.approx([0.05, 0.95])


@pytest.mark.thorough
def test_short_episodes_leave_no_bias() -> None:
    """Where the best response never comes, uniform actions would cost each change of policy a constant: with
    episodes of 20 steps the excess would stay at 2e-3 for ever."""
    explorer = StateMarginalMatching(episode_length=20, randomness=0.0)
    own = own_objective(explorer, RIVER, None)
    assert own.excess(rc.explore(RIVER, 1.0, 32_000, explorer=explorer).visits / 32_000) < 5e-4


def test_a_target_that_is_zero_in_a_state_is_refused() -> None:
    mu = rc.weights.mask(RIVER, np.arange(6) != 2)
    with pytest.raises(InvalidArgumentError, match=r"positive in every state.*state 2.*target='uniform'"):
        rc.explore(RIVER, 1.0, 100, mu, explorer=StateMarginalMatching())
    assert rc.explore(RIVER, 1.0, 100, mu, explorer=StateMarginalMatching(target="uniform")).num_steps == 100


# Maximum Rényi entropy.


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_the_entropy_of_order_alpha_is_the_coverage_of_order_one_minus_alpha(alpha: float) -> None:
    d = np.random.default_rng(0).dirichlet(np.ones(12))
    divergence = rc.Coverage(MaxRenyi(alpha).rho, np.ones(12)).divergence(d)
    assert divergence == pytest.approx((1 - alpha) / alpha * (np.log(12) - renyi_entropy(d, alpha)))


def test_the_plan_of_order_one_minus_alpha_has_the_largest_entropy() -> None:
    own = own_objective(MaxRenyi(ALPHA), RIVER, None)
    plan = rc.plan(RIVER, 1 - ALPHA)
    largest = np.log(-own.best) / (1 - ALPHA)
    assert renyi_entropy(plan.occupancy, ALPHA) == pytest.approx(largest, abs=1e-6)  # the solver's accuracy


@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_regret_of_renyi_entropy_falls_faster_than_chance(model: str) -> None:
    def regret(num_steps: int) -> float:
        arguments = {"explorer": MaxRenyi(ALPHA), "model": model}
        runs = [rc.explore(RIVER, 1 - ALPHA, num_steps, seed=seed, **arguments) for seed in range(2)]
        return float(np.mean([run.regret for run in runs]))

    assert regret(LONG) <= regret(SHORT) / 8  # 16 times the steps; t^-1/2 would leave a fourth


@pytest.mark.parametrize("model", tiered(MODELS))
@pytest.mark.parametrize("case", tiered(CASES))
def test_a_run_of_one_order_is_better_at_it_than_the_best_plan_of_another(case: str, model: str) -> None:
    mdp, mu, criterion = CASES[case]
    own = own_objective(MaxRenyi(ALPHA), mdp, mu, **criterion)
    run = rc.explore(mdp, 1.0, 32_000, mu, explorer=MaxRenyi(ALPHA), model=model, **criterion)
    other = own.problem.mdp.per_pair(rc.plan(own.problem.mdp, 0.5).occupancy, "occupancy")
    assert own.excess(run.visits / run.num_steps) < own.excess(other)


# Both.


@pytest.mark.parametrize("name", tiered(EXPLORERS))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_runs_resume_to_the_bit(name: str, model: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    arguments = {"explorer": EXPLORERS[name], "model": model, "seed": 3, "trace_points": 3}
    whole = rc.explore(RIVER, 1.0, 3000, **arguments)

    def stop(steps: int, num_steps: int) -> None:
        if steps >= 1500:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        rc.explore(RIVER, 1.0, 3000, **arguments, out=tmp_path / "run", report=stop)
    again = rc.resume(tmp_path / "run")
    np.testing.assert_array_equal(again.moves, whole.moves)
    assert again.explorer_settings == whole.explorer_settings
    assert again.explorer == name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StateMarginalMatching(target="nu"), r"unknown target 'nu'.*mu, uniform"),
        (lambda: StateMarginalMatching(episode_length=0), r"`episode_length` must be at least 1, got 0"),
        (lambda: StateMarginalMatching(randomness=-1.0), r"`randomness` must be in \[0, inf\), got -1"),
        (lambda: StateMarginalMatching(prior=0.0), r"`prior` must be positive and finite, got 0"),
        (lambda: MaxRenyi(alpha=1.0), r"`alpha` must be in \(0, 1\), got 1.*'maxent'"),
        (lambda: MaxRenyi(alpha=0.0), r"`alpha` must be in \(0, 1\), got 0"),
        (lambda: MaxRenyi(episode_length=2.5), r"`episode_length` must be a whole number, got 2.5"),
        (lambda: MaxRenyi(prior=float("inf")), r"`prior` must be positive and finite, got inf"),
        (lambda: renyi_entropy([0.5, -0.5], 0.5), r"`d` must be non-negative, got d\[1\]"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()
