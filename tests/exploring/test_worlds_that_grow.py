"""What is hard about a world that is met piece by piece: late states, interruptions, rules that see too little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exploring_models import same_run, with_transient_states
from test_discovering import with_rare_state
from test_learned import until_step

import rhocover as rc
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Block, SamplePolicy, initial_state
from rhocover.learning import StdRule

pytestmark = pytest.mark.thorough  # every test makes long runs

RIVER = rc.envs.river_swim()
NOT_KNOWN = ["learned", "from_scratch"]


def interrupted(out: Any, world: rc.MDP, step: int, **arguments: Any) -> rc.Run:
    """Returns the run after Ctrl-C at a step, gone on with."""
    with pytest.raises(KeyboardInterrupt):
        rc.explore(world, **arguments, out=out, report=until_step(step))
    return rc.resume(out)


@pytest.mark.parametrize("model", ["known", *NOT_KNOWN])
def test_a_run_interrupted_just_before_its_last_look_stops_there(model, tmp_path):
    asked = {"rho": 2, "num_steps": 20_000, "until": rc.EveryPair(20), "seed": 1, "model": model}
    whole = rc.explore(RIVER, **asked)
    same_run(interrupted(tmp_path / "out", RIVER, whole.num_steps, **asked), whole)


def test_a_rule_that_is_met_at_the_last_step_is_met():
    n = rc.explore(RIVER, 2, 5000, until=rc.EveryPair(10), seed=0).num_steps
    assert rc.explore(RIVER, 2, n, until=rc.EveryPair(10), seed=0).is_enough


@pytest.mark.thorough
@pytest.mark.parametrize("explorer", ["algorithm1", "algorithm1_short", "algorithm1_adaptive"])
def test_episodes_of_a_world_that_grew_can_be_stored(explorer, tmp_path):
    for seed in range(3):
        asked = {"rho": 2, "num_steps": 5000, "explorer": explorer, "model": "learned", "seed": seed}
        run = rc.explore(with_rare_state(), **asked, out=tmp_path / str(seed))
        same_run(run, rc.explore(with_rare_state(), **asked))
        same_run(run, rc.resume(tmp_path / str(seed)))
        assert all(e.psi.size == e.psi_hat.size == 8 for e in run.episodes)


@pytest.mark.parametrize("step", [538, 546, 578])
def test_a_run_interrupted_on_the_way_to_a_late_discovery_keeps_its_warm_start(step, tmp_path):
    mu = np.full((6, 2), 1e-3)
    mu[0, 0] = mu[5, 1] = 1.001
    asked = {
        "rho": 2.0, "mu": mu, "num_steps": 3000, "seed": 2, "model": "from_scratch",
        "explorer": "algorithm1_short", "trace_points": 2,
    }  # fmt: skip
    same_run(interrupted(tmp_path / "out", RIVER, step, **asked), rc.explore(RIVER, **asked))


@pytest.mark.parametrize("until", [rc.EveryPair(1), rc.SmallModelError(1.9)])
def test_no_rule_is_met_while_an_unknown_world_is_being_discovered(until):
    """Two steps in, both pairs of the only state met have a visit; that is no reason to stop."""
    run = rc.explore(RIVER, 2, 20_000, model="from_scratch", until=until, seed=1)
    assert run.num_steps > 20
    assert run.counts[run.counts > 0].min() >= 4


@pytest.mark.parametrize("until", [rc.EveryPair(1), rc.SmallModelError(0.5)])
def test_no_rule_is_met_before_something_that_matters_was_met(until):
    mu = np.zeros((6, 2))
    mu[5] = 1.0
    run = rc.explore(RIVER, 2, 300, mu, model="from_scratch", until=until, seed=1)
    assert not run.is_enough or run.counts[5].min() >= 1


@pytest.mark.parametrize("asked", [{"model": "from_scratch"}, {"model": "learned", "mu": "model_error"}])
def test_a_certified_gap_needs_states_and_weights_that_are_known(asked):
    with pytest.raises(InvalidArgumentError, match="needs known weights and states"):
        rc.explore(RIVER, 2, 1000, until=rc.CertifiedGap(0.1), **asked)


def test_without_knowing_the_states_nothing_is_certified():
    found = rc.explore(RIVER, 2, 2000, model="from_scratch", seed=0).certificate()
    assert found.gap == np.inf
    assert np.isfinite(found.plug_in_gap)
    assert str(found).startswith("nothing is certified while the set of states is not known")


def test_a_certificate_for_learned_weights_says_whose_weights():
    """Once it proves something: before that there is nothing for the weights to hold of."""
    found = rc.explore(RIVER, 2, 2000, "model_error", model="learned", seed=0).certificate()
    assert found.proves_nothing
    assert "weights" not in str(found)
    found = rc.explore(RIVER, 2, 200_000, "model_error", model="learned", seed=0).certificate()
    assert not found.proves_nothing
    assert "for the weights as they are estimated now" in str(found)


@pytest.mark.parametrize("explorer", ["maxent", "fw_modest", "uniform_random"])
def test_cited_systems_know_the_states(explorer):
    with pytest.raises(InvalidArgumentError, match="knows all states from the start"):
        rc.explore(RIVER, 2, 100, explorer=explorer, model="from_scratch")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"know_states": "no"}, "`know_states` must be True or False, got 'no'"),
     ({"know_states": False, "discovery": False}, "`know_states`=False needs `discovery`")],
)  # fmt: skip
def test_ways_to_learn_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InvalidArgumentError, match=message):
        rc.Learned(**settings)


def test_a_rule_that_goes_wrong_late_says_when_and_leaves_a_checkpoint(tmp_path):
    def late(estimate):
        return np.full(estimate.num_pairs, np.nan if 500 < estimate.visits.sum() < 10**6 else 1.0)

    with pytest.raises(InvalidArgumentError, match=r"The rule for `mu` returned this after \d+ steps"):
        rc.explore(RIVER, 2, 5000, late, model="learned", seed=0, out=tmp_path / "out")
    assert any(path.name.startswith("checkpoint") for path in (tmp_path / "out").iterdir())


def test_nothing_is_certified_before_something_that_matters_was_met():
    mu = np.zeros((6, 2))
    mu[5] = 1.0
    run = rc.explore(RIVER, 2, 5, mu, model="from_scratch", seed=1)
    assert run.certificate().gap == np.inf


@pytest.mark.parametrize("rho", [0, 2])
def test_a_rule_that_finds_nothing_uncertain_yet_counts_all_pairs_alike(rho):
    """After one visit each, every row looks deterministic; at rho = 0 one weight of zero is one too many."""
    run = rc.explore(
        rc.envs.double_chain(num_states=5), rho, 500, StdRule(upper=False), model="learned", seed=0
    )
    assert run.is_complete


def test_a_rule_on_a_world_without_chance_is_refused_with_the_way_out():
    cycle = rc.MDP(np.eye(3)[[[1, 2], [2, 0], [0, 1]]])
    with pytest.raises(InvalidArgumentError, match=r"nothing in it is uncertain. Use uniform weights"):
        rc.explore(cycle, 2, 100, "transition_std", model="learned")


class Tables:
    """Plays a table of probabilities over the states that are known."""

    def __init__(self, behaviour: Any) -> None:
        self.behaviour = behaviour

    def init(self, belief):
        return initial_state(belief)

    def policy(self, state):
        mdp = state.problem.mdp
        return Block(self.behaviour(np.ones((mdp.num_states, mdp.num_actions))), 50)

    def update(self, state, visits):
        return state.after(visits)


@pytest.mark.parametrize("model", ["known", *NOT_KNOWN])
def test_an_explorer_of_your_own_may_play_a_table_of_what_is_known(model):
    assert rc.explore(RIVER, 2, 3000, explorer=Tables(SamplePolicy), model=model, seed=0).num_steps == 3000


@pytest.mark.parametrize("model", ["known", *NOT_KNOWN])
def test_what_is_no_behaviour_is_refused_whatever_is_known(model):
    with pytest.raises(
        InvalidArgumentError,
        match=r"`Block.behaviour` must be SamplePolicy, LowestScore or FlowCorrectedScore",
    ):
        rc.explore(RIVER, 2, 3000, explorer=Tables(np.asarray), model=model, seed=0)


def test_numbers_of_numpy_can_be_stored(tmp_path):
    rule, until = StdRule(delta=np.float32(0.1)), rc.EveryPair(np.int64(3))
    run = rc.explore(RIVER, 2, 1000, rule, model="learned", until=until, seed=0, out=tmp_path / "out")
    same_run(rc.resume(tmp_path / "out"), run)


def test_evidence_has_the_numbers_of_the_callers_model():
    """The model's last states are kept; numbers of the part that is explored would be others."""
    mdp = with_transient_states()
    run = rc.explore(mdp, 2, 10, restrict=True, model="learned", seed=0)
    missing = set(np.flatnonzero(run.counts.sum(axis=1) == 0)) & set(run.problem.question.states.tolist())
    assert set(run.evidence().unmet) <= missing
