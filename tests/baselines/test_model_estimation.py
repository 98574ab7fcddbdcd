"""MaxEnt, Weighted-MaxEnt, FW-MODEST, FW-AME and the random policy: each tends to its own paper's optimum."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import rhocover as rc
from rhocover.baselines.active_exploration import ActiveExploration
from rhocover.baselines.frank_wolfe_play import entropy_gradient, floored, noise_estimate
from rhocover.baselines.fw_modest import FWModest
from rhocover.baselines.maxent import MaxEnt
from rhocover.baselines.uniform_random import UniformRandom
from rhocover.baselines.weighted_maxent import WeightedMaxEnt
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError, UnknownNameError
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.belief.learned import Learned
from rhocover.exploring.problem import make_problem
from rhocover.exploring.runs.spec import RunSpec, make_belief
from rhocover.learning.estimate import exact_estimate
from rhocover.oracles import best_response
from rhocover.planning.problem import Objective
from tiers import tiered

pytestmark = pytest.mark.thorough  # every test makes long runs

RIVER = rc.envs.river_swim()
ETA = 0.005
STEPS = 300_000
# The last of K = (3 STEPS)^(1/3) = 96 episodes moves the visits by 3/K = 0.031 of the way to a vertex, where
# the objectives are worse by about 1; half of that is left on average. Chance moves an objective by
# sigma/sqrt(STEPS), sigma <= 0.44 for each of them: 5 sigma (probability 6e-7) are 0.004.
TOLERANCE = 0.02
PAIRED = [MaxEnt(over="pairs"), WeightedMaxEnt(), FWModest(), ActiveExploration(), UniformRandom()]
ALL = [MaxEnt(), *PAIRED]


def name_of(explorer) -> str:
    return f"{type(explorer).__name__}{' over pairs' if getattr(explorer, 'over', '') == 'pairs' else ''}"


def shares(explorer, *, num_steps: int = STEPS, model: str = "known", seed: int = 0, mdp=RIVER) -> np.ndarray:
    run = rc.explore(mdp, 1, num_steps, explorer=explorer, model=model, seed=seed, trace_points=1)
    return run.visits / num_steps


def noise(mdp) -> np.ndarray:
    P = mdp.transitions.toarray()
    return np.sqrt(P * (1 - P)).sum(axis=1)


def entropy(d: np.ndarray, weights=1.0) -> float:
    return float(-np.sum(weights * d * np.log(np.maximum(d, 1e-300))))


def state_matrix(mdp) -> np.ndarray:
    return (np.arange(mdp.num_states)[:, None] == mdp.pair_state).astype(float)


B_RIVER = state_matrix(RIVER)


def optimum(objective, mdp=RIVER) -> tuple[float, np.ndarray]:
    """Returns the largest value of a concave function of a model's occupancies, and where it is."""
    flow = rc.Occupancies.average(mdp).flow.toarray()
    d = cp.Variable(mdp.num_pairs, nonneg=True)
    problem = cp.Problem(cp.Maximize(objective(d)), [flow @ d == 0, cp.sum(d) == 1])
    return problem.solve(solver="CLARABEL"), d.value


def largest(objective) -> float:
    return optimum(objective)[0]


def model_error(mdp, d: np.ndarray, num_steps: int) -> float:
    """Returns the expected L1 error of an estimated row, sqrt(2/(pi N)) V after N visits, averaged."""
    return float(np.sqrt(2 / np.pi / num_steps) * np.mean(noise(mdp) / np.sqrt(np.maximum(d, 1e-12))))


GRADIENTS = {
    "MaxEnt": lambda d: B_RIVER.T @ -np.log(B_RIVER @ d),
    "MaxEnt over pairs": lambda d: -np.log(d),
    "WeightedMaxEnt": lambda d: noise(RIVER) * (-np.log(d) - 1),
    "FWModest": lambda d: noise(RIVER) / d**1.5,
    "ActiveExploration": lambda d: RIVER.per_pair(rc.weights.transition_std(RIVER), "std") ** 2 / d**2,
}


@pytest.mark.parametrize(
    "explorer",
    tiered(
        [
            MaxEnt(sigma=1e-12),
            MaxEnt(over="pairs", sigma=1e-12),
            WeightedMaxEnt(sigma=1e-12, estimate_noise=False),
            FWModest(eta=ETA, estimate_noise=False),
            ActiveExploration(eta=ETA, estimate_noise=False),
        ]
    ),
    ids=name_of,
)
def test_each_episode_aims_where_the_papers_objective_rises_fastest(explorer):
    members = rc.Occupancies.average(RIVER, eta=getattr(explorer, "eta", 0.0))
    first = explorer.init(KnownModel(make_problem(RIVER, Objective(1))))
    for seed in range(20):
        counts = np.random.default_rng(seed).integers(300, 1000, RIVER.num_pairs)
        state = replace(first, counts=counts, num_steps=int(counts.sum()), num_blocks=1)
        block = explorer.policy(state)
        reward = GRADIENTS[name_of(explorer)](counts / counts.sum())
        best = best_response(members, reward)
        # Oracles are exact to 1e-8 of the largest reward; a smoothing of 1e-12 moves logs by 1e-8.
        assert block.direction is not None
        assert block.direction @ reward == pytest.approx(best.value, abs=1e-7 * np.abs(reward).max())
        assert block.num_steps == 4


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
def test_maxent_reaches_the_largest_entropy_of_states(model):
    best = largest(lambda d: cp.sum(cp.entr(B_RIVER @ d)))
    assert entropy(B_RIVER @ shares(MaxEnt(), model=model)) > best - TOLERANCE
    assert entropy(B_RIVER @ shares(UniformRandom())) < best - 5 * TOLERANCE  # it is not reached by itself


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
def test_maxent_over_pairs_reaches_the_largest_entropy_of_pairs(model):
    best = np.log(RIVER.num_pairs) - rc.plan(RIVER, 0).divergence
    assert best == pytest.approx(largest(lambda d: cp.sum(cp.entr(d))), abs=1e-6)  # two solvers at 1e-8
    assert entropy(shares(MaxEnt(over="pairs"), model=model)) > best - TOLERANCE
    assert entropy(shares(MaxEnt())) < best - 2 * TOLERANCE  # that of states is another objective


@pytest.mark.parametrize("power", tiered([1.0, 0.5]))
def test_weighted_maxent_reaches_the_largest_weighted_entropy(power):
    weights = noise(RIVER) ** power
    best = largest(lambda d: cp.sum(cp.multiply(weights, cp.entr(d))))
    d = shares(WeightedMaxEnt(power=power, estimate_noise=False))
    assert entropy(d, weights) > best - TOLERANCE * weights.max()
    assert entropy(shares(MaxEnt(over="pairs")), weights) < best - 2 * TOLERANCE * weights.max()


@pytest.mark.parametrize(
    ("kind", "rho", "weights"),
    tiered([(FWModest, 1.5, rc.weights.model_error), (ActiveExploration, 2.0, rc.weights.transition_std)]),
)
def test_systems_with_a_floor_reach_the_plan_of_their_rho_and_weights(kind, rho, weights):
    best = rc.plan(RIVER, rho, weights(RIVER), eta=ETA)
    coverage = rc.Coverage(rho, RIVER.per_pair(weights(RIVER), "weights"))

    def excess(d) -> float:
        return coverage.divergence(d) - best.divergence

    assert excess(shares(kind(eta=ETA, estimate_noise=False))) < TOLERANCE
    # At N = 10^4 the bonus is 0.02 and gives pairs without noise 0.02^(2/3) = 0.07 of the others' weight: 7% of
    # the visits, of which the floor has 6% and some are spent there anyway.
    for model in ("known", "learned"):
        assert excess(shares(kind(eta=ETA), model=model)) < 2 * TOLERANCE
    assert excess(shares(UniformRandom())) > 5 * TOLERANCE


@pytest.mark.parametrize("kind", tiered([FWModest, ActiveExploration]))
def test_the_loss_falls_towards_the_optimum_with_more_episodes(kind):
    rho, weights = kind.rho, RIVER.per_pair(kind.rule(upper=False)(exact_estimate(RIVER)), "weights")
    best = rc.plan(RIVER, rho, weights, eta=ETA).divergence
    few, many = (
        np.mean([rc.Coverage(rho, weights).divergence(shares(kind(eta=ETA), num_steps=n, seed=k)) for k in (0, 1)])
        for n in (3_000, STEPS)
    )  # fmt: skip
    # 100 times the steps are 100^(1/3) = 4.6 times the episodes; Frank-Wolfe's loss falls as 1/K.
    assert many - best < (few - best) / 3


def test_a_floor_that_binds_is_kept():
    for kind in (FWModest, ActiveExploration):
        assert shares(kind(eta=0, estimate_noise=False)).min() < 0.01
        # 2 eta = 0.03 is asked for in every episode; visits of 9,000 steps' worth vary by some percent.
        assert shares(kind(eta=0.015, estimate_noise=False)).min() > 0.025


def test_fw_modest_estimates_noisy_river_swim_better_than_maxent():
    mdp, n = rc.envs.noisy_river_swim(), 200_000
    best = rc.plan(mdp, 1.5, rc.weights.model_error(mdp))
    lowest = model_error(mdp, mdp.per_pair(best.occupancy, "occupancy"), n)
    modest, maxent = (
        model_error(mdp, shares(explorer, num_steps=n, model="learned", mdp=mdp), n)
        for explorer in (FWModest(), MaxEnt(over="pairs"))
    )
    # Chance moves d_hat off the flow equations, and the error with it, by 1% at most; 84 episodes leave 10 to
    # 15% (the last is 3.6% of the visits, the rarest pairs have 0.3% of them). The optima differ by 1.47.
    assert 0.99 * lowest < modest < 1.2 * lowest
    assert maxent > 1.3 * modest


def test_weighted_entropy_is_nearly_best_for_the_model_with_the_cube_root_of_the_noise():
    mdp = rc.envs.noisy_river_swim()
    best = rc.plan(mdp, 1.5, rc.weights.model_error(mdp))
    errors = [model_error(mdp, mdp.per_pair(best.occupancy, "occupancy"), 2_000_000)]
    for power in (1 / 3, 1 / 2, 1):
        weights = noise(mdp) ** power
        _, d = optimum(lambda d, w=weights: cp.sum(cp.multiply(w, cp.entr(d))), mdp)
        errors.append(model_error(mdp, d, 2_000_000))
    # The numbers of the module's chapter, to their digits.
    np.testing.assert_allclose(errors, [0.2963e-2, 0.2965e-2, 0.3027e-2, 0.4163e-2], atol=0.00005e-2)


@pytest.mark.parametrize("explorer", tiered(PAIRED[:-1]), ids=name_of)
@pytest.mark.parametrize("env", tiered(["river_swim", "wheel"]))
def test_a_learned_model_does_not_keep_pairs_from_being_visited(explorer, env):
    run = rc.explore(getattr(rc.envs, env)(), 1, 20_000, explorer=explorer, model="learned")
    assert run.is_complete


def test_maxent_meets_every_state_of_a_learned_model():
    assert (B_RIVER @ shares(MaxEnt(), num_steps=20_000, model="learned") > 0).all()


def test_the_random_policy_plays_every_action_of_a_state_equally_often():
    run = rc.explore(RIVER, 1, STEPS, explorer="uniform_random", model="learned", trace_points=1)
    chosen = run.visits.reshape(RIVER.num_states, 2)
    visits = chosen.sum(axis=1)
    # Given the visits of a state its choices are coin flips: 6 sigma fail with probability 2e-9 a state.
    assert (np.abs(chosen[:, 0] - visits / 2) <= 3 * np.sqrt(visits)).all()
    assert visits.min() > 0


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
@pytest.mark.parametrize("explorer", tiered(ALL[:-1]), ids=name_of)
def test_episode_k_lasts_tau_k_squared_steps_whatever_the_belief_does(explorer, model):
    run = rc.explore(RIVER, 1, 3_000, explorer=explorer, model=model)
    assert [episode.tau for episode in run.episodes[:-1]] == [k * k for k in range(1, len(run.episodes))]


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
@pytest.mark.parametrize("explorer", tiered(ALL), ids=name_of)
def test_an_interrupted_run_goes_on_to_the_bit(explorer, model, tmp_path):
    options = {"rho": 1, "num_steps": 3_000, "explorer": explorer, "model": model, "seed": 3}
    whole = rc.explore(RIVER, **options)

    def stop(steps: int, num_steps: int) -> None:
        if steps >= 1_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rc.explore(RIVER, **options, out=tmp_path / "run", report=stop)
    again = rc.resume(tmp_path / "run")
    np.testing.assert_array_equal(again.moves, whole.moves)
    for mine, theirs in zip(again.episodes, whole.episodes, strict=True):
        assert (mine.tau, mine.psi.tobytes(), mine.gap) == (theirs.tau, theirs.psi.tobytes(), theirs.gap)


@pytest.mark.parametrize("explorer", ALL[:-1], ids=name_of)
def test_episodes_are_planned_on_the_estimate_of_now_not_on_that_of_the_last_renewal(explorer):
    run = rc.explore(RIVER, 1, 1_000, explorer="uniform_random")
    belief = make_belief(
        RunSpec(Objective(2.0), 1, explorer=explorer, model=Learned()), run.problem, run.first_states
    )
    belief = replace(belief, moves=run.moves, num_steps=run.num_steps)
    state = replace(explorer.init(belief), counts=run.visits, num_steps=run.num_steps)
    direction = explorer.policy(state).direction
    assert rc.Occupancies.average(belief.known.estimate.model).contains(direction)
    assert not rc.Occupancies.average(state.problem.mdp).contains(direction, tol=1e-3)


def test_the_noise_of_a_known_model_is_read_from_the_transitions_seen_unless_it_is_asked():
    explorer = FWModest()
    state = explorer.init(KnownModel(make_problem(RIVER, Objective(1))))
    assert noise_estimate(state, True).visits.sum() == 0
    run = rc.explore(RIVER, 1, 1_000, explorer=explorer)
    state = replace(state, memory={"moves": run.moves})
    np.testing.assert_array_equal(noise_estimate(state, True).visits, run.visits)
    np.testing.assert_array_equal(noise_estimate(state, True).counts.toarray(), run.transitions.toarray())
    np.testing.assert_array_equal(noise_estimate(state, False).counts.toarray(), RIVER.transitions.toarray())


def test_the_gradient_of_the_smoothed_entropy_is_its_derivative():
    d, sigma, step = np.array([0.0, 0.1, 0.9]), 0.01, 1e-6

    def value(d):
        return -np.sum(d * np.log(d + sigma))

    slope = [(value(d + step * e) - value(d - step * e)) / (2 * step) for e in np.eye(3)]
    # Central differences: step^2 times the third derivative, at most 3/sigma^2, over 6.
    np.testing.assert_allclose(entropy_gradient(d, sigma), slope, atol=1e-7)


def test_a_floor_that_an_estimate_does_not_allow_is_lowered_and_one_that_the_world_does_not_is_refused():
    t_star = rc.Occupancies.average(RIVER).max_floor()[0]
    assert floored(RIVER, 0.4, True).floor < t_star
    assert floored(RIVER, None, False).floor == pytest.approx(t_star / 10)
    for kind in (FWModest, ActiveExploration):
        with pytest.raises(InfeasibleFloorError, match=r"eta=0\.4 asks every pair for 0\.8"):
            rc.explore(RIVER, 1, 100, explorer=kind(eta=0.4))


def test_episodic_and_discounted_runs_follow_the_same_rules():
    for criterion in ({"horizon": 8}, {"discount": 0.9}):
        for explorer in ALL:
            run = rc.explore(RIVER, 1, 500, explorer=explorer, start=0, **criterion)
            assert run.visits.sum() == 500


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MaxEnt(over="actions"), UnknownNameError, "Known: pairs, states"),
        (lambda: MaxEnt(sigma=0), InvalidArgumentError, "`sigma` must be positive and finite, got 0"),
        (lambda: MaxEnt(tau_1=0), InvalidArgumentError, "`tau_1` must be at least 1, got 0"),
        (lambda: WeightedMaxEnt(power=-1), InvalidArgumentError, r"`power` must be in \[0, inf\), got -1"),
        (lambda: WeightedMaxEnt(delta=1), InvalidArgumentError, r"`delta` must be in \(0, 1\), got 1"),
        (lambda: FWModest(eta=0.5), InvalidArgumentError, r"`eta` must be None or in \[0, 1/2\), got 0.5"),
        (lambda: FWModest(eta="much"), InvalidArgumentError, "`eta` must be a number, got 'much'"),
        (lambda: ActiveExploration(estimate_noise=1), InvalidArgumentError, "must be True or False, got 1"),
        (lambda: ActiveExploration(delta=0), InvalidArgumentError, r"`delta` must be in \(0, 1\), got 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_known_model_without_noise_cannot_be_asked_for_its_noise():
    ring = rc.MDP([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]], start=0)
    for kind in (WeightedMaxEnt, FWModest, ActiveExploration):
        with pytest.raises(InvalidArgumentError, match="every pair of this one is deterministic"):
            rc.explore(ring, 1, 100, explorer=kind(estimate_noise=False))
        assert rc.explore(ring, 1, 1_000, explorer=kind()).is_complete
