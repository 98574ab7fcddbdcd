"""Every explorer in every named model for every rho: what is reported is consistent, and no bound is wrong.

Second sources: the identity of the theory (`identity_error`), certificates against the truth that they
bound, the trace against formulas written out. Feedback is measured against playing the plan, and its
safeguard is tried on visits that no explorer would make.
"""

from __future__ import annotations

import numpy as np
import pytest
from exploring_models import INF, one_state, problem_of, random_model, same_run, with_transient_states

import rhocover as rc
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.explorers import Block, feedback, initial_state
from rhocover.exploring.explorers.registry import CLASSES, VARIANTS
from rhocover.exploring.runs.result import measure
from rhocover.exploring.worlds import FlowCorrectedScore, LowestScore, SamplePolicy, Visits
from rhocover.exploring.worlds.simulator import Simulator
from small_models import SMALL_ENVS, random_weights
from tiers import tiered

RHOS = [0, 0.5, 1, 2, 16, INF]
OWN = (*CLASSES, *VARIANTS)  # the cited systems have tests of their own
NUMBERS = ("divergence", "gap", "oracle_gap", "excess", "pathwise_excess", "pathwise_gap", "worst_ratio",
           "suboptimality", "bregman", "regret")  # fmt: skip


def check_run(run: rc.Run, num_steps: int) -> None:
    """Asserts everything that holds for any run of any explorer."""
    trace = run.trace
    assert run.num_steps == run.visits.sum() == run.moves.sum() == run.counts.sum() == num_steps
    assert run.occupancy.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(trace["steps"]) > 0).all()
    assert trace["steps"][-1] == num_steps
    assert (np.diff(trace["visited"]) >= 0).all()
    assert (np.diff(trace["least_count"]) >= 0).all()
    check_ends(run)
    done = trace["visited"] == trace.num_weighted
    for name in NUMBERS:
        np.testing.assert_array_equal(np.isnan(trace[name]), ~done, err_msg=name)
    check_bounds({name: trace[name][done] for name in NUMBERS}, run.best.gap)
    if run.is_complete:
        assert run.identity_error() <= 1e-10
    else:
        assert np.isnan(run.identity_error())


def check_ends(run: rc.Run) -> None:
    """What comes into a state and what leaves it differ by the run's two ends."""
    mdp = run.problem.mdp
    S = mdp.num_states
    arrivals = np.bincount(mdp.transitions.indices, run.moves, S)
    departures = np.bincount(mdp.pair_state, run.visits, S)
    ends = np.bincount(run.last_states, minlength=S) - np.bincount(run.first_states, minlength=S)
    np.testing.assert_array_equal(arrivals - departures, ends)


def check_bounds(columns: dict[str, np.ndarray], plan_gap: float) -> None:
    """Certificates are never below the truth, which the plan knows up to its own gap."""
    rounding = 1e-12 * (1 + np.abs(columns["divergence"]))
    assert (columns["pathwise_excess"] >= 0).all()
    assert (columns["regret"] >= 0).all()
    assert (columns["gap"] >= columns["excess"] - rounding).all()
    assert (columns["gap"] <= np.maximum(columns["excess"], 0) + plan_gap + rounding).all()
    assert (columns["oracle_gap"] >= columns["excess"] - rounding).all()
    assert (columns["pathwise_gap"] <= 1e-8).all()
    scale = 1 + np.abs(columns["suboptimality"]) + np.exp(np.minimum(columns["divergence"], 300))
    assert (columns["bregman"] >= -1e-12 * scale).all()
    # Breg is U^(g) + <g, d> - U(d) for prices that are equal along the path: it bounds the regret there.
    assert (columns["bregman"] >= columns["regret"] - 1e-7 * scale).all()


# --- every model, every rho, every explorer -----------------------------------------------------------


def test_every_named_model_is_explored_here():
    assert set(SMALL_ENVS) == set(rc.envs.names())


def never(*_):
    raise AssertionError("the safeguard of feedback is for abuse, not for a run in order")


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("name", tiered(SMALL_ENVS))
def test_every_explorer_runs_in_every_model_for_every_rho(name, rho, monkeypatch):
    monkeypatch.setattr(feedback, "_steering_back", never)
    mdp = rc.envs.make(name, **SMALL_ENVS[name])
    for explorer in OWN:
        run = rc.explore(mdp, rho, 3000, explorer=explorer, seed=1, trace_points=1)
        assert run.explorer == explorer
        check_run(run, 3000)


@pytest.mark.thorough
@pytest.mark.parametrize("rho", tiered([0, 2, 8], short=[2]))
def test_weights_spread_over_four_orders_of_magnitude_do_not_call_the_safeguard(rho, monkeypatch):
    # Mutant: a bound of 50 (n^2 + t) on f'Hf, which knows nothing of pairs whose share is 1e-4.
    monkeypatch.setattr(feedback, "_steering_back", never)
    for name in ("river_swim", "river_swim_strong_current", "six_arms"):
        mdp = rc.envs.make(name)
        for seed in range(2):
            mu = random_weights(mdp, seed) ** 3
            check_run(rc.explore(mdp, rho, 4000, mu, seed=seed, trace_points=1), 4000)


@pytest.mark.parametrize("explorer", tiered(OWN))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_random_weights_and_actions_by_state_are_no_exception(rho, explorer):
    mdp = random_model(11, 7, 3)
    check_run(rc.explore(mdp, rho, 4000, random_weights(mdp, 2), explorer=explorer, trace_points=2), 4000)


@pytest.mark.parametrize("explorer", tiered(OWN))
@pytest.mark.parametrize("rho", tiered([0.5, 1, 2, 16, INF], short=[2]))
def test_pairs_without_weight_are_not_asked_for(rho, explorer):
    mdp = random_model(12, 7, 3)
    mu = random_weights(mdp, 3)
    mu[[1, 4]] = 0.0
    run = rc.explore(mdp, rho, 4000, mu, explorer=explorer, trace_points=2)
    check_run(run, 4000)
    assert run.trace.num_weighted == np.count_nonzero(mdp.per_pair(mu, "mu"))
    assert mu[mdp.pair_state[run.trace["least_pair"]], mdp.pair_action[run.trace["least_pair"]]].min() > 0


@pytest.mark.parametrize("scale", tiered([1e-300, 1e-5, 7.0, 1e200]))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_no_reported_number_depends_on_the_scale_of_the_weights(rho, scale):
    """The same visits, measured with weights that differ by a factor; both plans are exact to 1e-10."""
    mdp = random_model(13)
    mu, counts = random_weights(mdp, 4), np.random.default_rng(0).integers(50, 99, mdp.num_pairs)
    rows = [measure(problem_of(mdp, rho, factor * mu), counts, int(counts.sum())) for factor in (1.0, scale)]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("explorer", tiered(OWN))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_one_state_and_one_pair_are_explored_too(rho, explorer):
    run = rc.explore(one_state(), rho, 3000, [[3.0, 4.0, 5.0]], explorer=explorer, trace_points=2)
    check_run(run, 3000)
    assert run.trace["excess"][-1] >= -1e-9  # every distribution is an occupancy of one state
    single = rc.explore(rc.MDP(np.ones((1, 1, 1))), rho, 100, explorer=explorer, trace_points=1)
    assert single.divergence == pytest.approx(0, abs=1e-12)
    assert single.counts.tolist() == [[100]]


@pytest.mark.parametrize("explorer", tiered(OWN))
@pytest.mark.parametrize("num_chains", tiered([2, 10]))
def test_several_chains_share_their_counts(explorer, num_chains):
    mdp = rc.envs.river_swim()
    run = rc.explore(mdp, 2, 5000, explorer=explorer, num_chains=num_chains, trace_points=2)
    check_run(run, 5000)
    assert run.first_states.size == run.last_states.size == num_chains
    assert (run.trace["steps"] % num_chains == 0).all()


@pytest.mark.parametrize("explorer", tiered(OWN))
def test_transient_states_are_left_out_on_request_and_their_counts_are_zero(explorer):
    mdp = with_transient_states()
    with pytest.raises(rc.errors.NotCommunicatingError, match="restrict=True"):
        rc.explore(mdp, 2, 3000, explorer=explorer)
    run = rc.explore(mdp, 2, 3000, explorer=explorer, restrict=True, trace_points=2)
    check_run(run, 3000)
    assert run.counts.shape == (8, 2)
    assert not run.counts[:2].any()
    inside = rc.explore(rc.envs.river_swim(), 2, 3000, explorer=explorer, trace_points=2)
    np.testing.assert_array_equal(run.counts[2:], inside.counts)
    elsewhere = rc.explore(mdp, 2, 3000, explorer=explorer, restrict=True, start=5, trace_points=2)
    assert run.problem.question.states[elsewhere.first_states[0]] == 5


@pytest.mark.parametrize("explorer", tiered(OWN))
@pytest.mark.parametrize("rho", tiered([2, INF]))
def test_the_same_seed_gives_the_same_bits_and_another_one_others(rho, explorer):
    mdp = rc.envs.river_swim()
    one, again, other = (
        rc.explore(mdp, rho, 1500, explorer=explorer, seed=seed, trace_points=2) for seed in (5, 5, 6)
    )
    same_run(one, again)
    assert (one.counts != other.counts).any()


@pytest.mark.parametrize("rho", tiered([2, 16, INF]))
def test_how_often_a_run_is_reported_does_not_change_it(rho):
    """A row of the trace cuts a block, and nothing else."""
    mdp = rc.envs.river_swim()
    for explorer in ("feedback", "tracking", "stationary", "algorithm1"):
        runs = [rc.explore(mdp, rho, 1000, explorer=explorer, trace_points=k) for k in (1, 10)]
        np.testing.assert_array_equal(runs[0].moves, runs[1].moves)
        assert len(runs[1].trace) > 3 * len(runs[0].trace)


# --- feedback -----------------------------------------------------------------------------------------


def mean_excess(mdp, rho: float, explorer: str, num_steps: int = 10_000) -> float:
    runs = [
        rc.explore(mdp, rho, num_steps, explorer=explorer, seed=seed, trace_points=1) for seed in range(2)
    ]
    return float(np.mean([run.trace["pathwise_excess"][-1] for run in runs]))


@pytest.mark.parametrize(("rho", "margin"), tiered([(0.5, 30), (2, 30), (16, 30), (INF, 4)]))
@pytest.mark.parametrize("model", tiered(["river_swim", "random"]))
def test_feedback_leaves_far_less_regret_than_playing_the_plan(model, rho, margin):
    """Measured: 500 to 10,000 times less at finite rho, 20 to 30 times at rho = inf."""
    mdp = random_model(3) if model == "random" else rc.envs.make(model)
    assert margin * mean_excess(mdp, rho, "feedback") < mean_excess(mdp, rho, "stationary")


@pytest.mark.parametrize("rho", tiered([1, 2], short=[2]))
def test_tracking_lies_between_feedback_and_playing_the_plan(rho):
    mdp = rc.envs.river_swim()
    ahead, between, behind = (mean_excess(mdp, rho, e) for e in ("feedback", "tracking", "stationary"))
    assert 5 * ahead < between < behind


def skewed(problem, num_steps: int = 20_000):
    """Returns feedback's state after a history that hardly ever played anything but action 0."""
    world = Simulator(problem.mdp, problem.start)
    position, seen = world.begin(0), Visits.none(problem.mdp)
    policy = np.where(problem.mdp.pair_action == 0, 1.0, 1e-3)
    world.advance(position, world.follow(SamplePolicy(policy)), seen, num_steps)
    return world, position, rc.Feedback().init(KnownModel(problem)).after(seen)


def energy(state) -> float:
    f = feedback.deviation(state)
    return float(f @ (feedback._curvature(state.problem) * f))


def is_astray(state) -> bool:
    return feedback.is_astray(state, feedback.deviation(state))


def steered_back(world, position, state, num_blocks: int):
    """Returns the state after blocks of the safeguard's policy, as long as it is called for."""
    for _ in range(num_blocks):
        if not is_astray(state):
            break
        block, seen = rc.Feedback().policy(state), Visits.none(state.problem.mdp)
        assert isinstance(block.behaviour, SamplePolicy)
        world.advance(position, world.follow(block.behaviour), seen, block.num_steps)
        state = state.after(seen)
    return state


@pytest.mark.parametrize("rho", tiered([0, 0.5, 2, 16, INF], short=[2]))
@pytest.mark.parametrize("model", tiered(["river_swim", "grid_world", "random"]))
def test_the_safeguard_steers_back_from_visits_that_are_far_off(model, rho):
    """f'Hf falls with every ten blocks of the safeguard's policy."""
    mdp = random_model(3) if model == "random" else rc.envs.make(model, **SMALL_ENVS[model])
    world, position, state = skewed(problem_of(mdp, rho))
    energies = [energy(state)]
    assert is_astray(state)
    for _ in range(5):
        state = steered_back(world, position, state, 10)
        energies.append(energy(state))
    assert (np.diff(energies) < 0).all()


@pytest.mark.thorough
def test_a_run_that_is_handed_to_feedback_after_a_skewed_history_recovers():
    """The safeguard plays until it is not needed any more; then the scores do."""
    problem = problem_of(random_model(3), 2)
    state = steered_back(*skewed(problem), 1000)
    assert not is_astray(state)
    assert isinstance(rc.Feedback().policy(state).behaviour, FlowCorrectedScore)


def test_the_safeguards_policy_earns_most_against_what_is_ahead():
    problem = problem_of(rc.envs.river_swim(), 2)
    _, _, state = skewed(problem)
    cost = feedback._curvature(problem) * feedback.deviation(state)
    policy = rc.Feedback().policy(state).behaviour.policy
    occupancy = problem.members.from_policy(policy)
    assert cost @ occupancy < 0
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = rng.dirichlet([0.3, 0.3], size=6).ravel()
        assert cost @ occupancy <= cost @ problem.members.from_policy(other) + 1e-9 * np.abs(cost).max()


def test_visits_in_order_are_never_steered_back():
    problem = problem_of(rc.envs.river_swim(), 2)
    state = rc.Feedback().init(KnownModel(problem))
    assert isinstance(rc.Feedback().policy(state).behaviour, FlowCorrectedScore)


def test_the_part_that_feedback_corrects_leaves_flow_and_mass_alone():
    mdp = random_model(9, 8, 3)
    problem = problem_of(mdp, 2, random_weights(mdp, 9))
    _, _, state = skewed(problem)
    f, flow = feedback.deviation(state), problem.members.flow
    assert np.abs(flow @ f).max() <= 1e-9 * state.num_steps
    assert abs(f.sum()) <= 1e-9 * state.num_steps


@pytest.mark.parametrize("rho", tiered([2, 16]))
def test_models_of_any_size_are_tracked_with_scores_between_blocks_when_they_are_large(rho, monkeypatch):
    """Above 256 states the scores are refreshed by a sparse solve; the regret is as small."""
    monkeypatch.setattr(feedback, "DENSE_STATES", 3)
    mdp = rc.envs.river_swim()
    problem = problem_of(mdp, rho)
    assert isinstance(rc.Feedback().policy(rc.Feedback().init(KnownModel(problem))).behaviour, LowestScore)
    run = rc.explore(mdp, rho, 10_000, trace_points=2)
    check_run(run, 10_000)
    plain = rc.explore(mdp, rho, 10_000, explorer="stationary", trace_points=1)
    assert 20 * run.trace["pathwise_excess"][-1] < plain.trace["pathwise_excess"][-1]


# --- explorers of one's own ---------------------------------------------------------------------------


class Uniform:
    """Plays every action alike, in blocks of 10 steps."""

    def init(self, belief):
        return initial_state(belief, calls=np.array([0]))

    def policy(self, state):
        return Block(SamplePolicy(np.ones(state.counts.size)), 10)

    def update(self, state, visits):
        return state.after(visits, calls=state.memory["calls"] + 1)


def test_an_explorer_of_ones_own_is_run_and_named_after_its_class():
    run = rc.explore(rc.envs.river_swim(), 2, 2005, explorer=Uniform(), trace_points=2)
    check_run(run, 2005)
    assert run.explorer == "Uniform"
    assert run.episodes == ()


def test_a_block_without_steps_is_refused_and_does_not_hang():
    class Idle(Uniform):
        def policy(self, state):
            return Block(SamplePolicy(np.ones(state.counts.size)), 0)

    with pytest.raises(
        rc.errors.InvalidArgumentError, match=r"^`Block.num_steps` must be at least 1, got 0\.$"
    ):
        rc.explore(rc.envs.river_swim(), 2, 100, explorer=Idle())


def test_a_state_is_not_changed_by_what_comes_after_it():
    """policy and update are pure: the same state gives the same block, before and after an update."""
    problem = problem_of(rc.envs.river_swim(), INF)
    for name in OWN:
        from rhocover.exploring.explorers.registry import make_explorer

        explorer = make_explorer(name)
        state = explorer.init(KnownModel(problem))
        world = Simulator(problem.mdp, problem.start)
        position = world.begin(0)
        for _ in range(8):
            block, counts = explorer.policy(state), state.counts.copy()
            seen = Visits.none(problem.mdp)
            world.advance(position, world.follow(block.behaviour), seen, min(block.num_steps, 60))
            later = explorer.update(state, seen)
            np.testing.assert_array_equal(state.counts, counts)
            again = explorer.policy(state)
            assert again.num_steps == block.num_steps
            for field in vars(block.behaviour):
                np.testing.assert_array_equal(
                    getattr(again.behaviour, field), getattr(block.behaviour, field)
                )
            state = later
