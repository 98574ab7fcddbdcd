"""Models, layouts, named environments and weights: what goes in comes out, and files give it back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junk_calls import SMALL
from property_tools import about, few, many, models, seeds, weighted_models

import rhocover as rc
from rhocover.errors import RhocoverError


@about("MDP")
@many
@given(models())
def test_a_model_is_its_table(mdp):
    P = mdp.dense()
    allowed = mdp.table(np.ones(mdp.num_pairs)) > 0
    assert P[allowed].sum(axis=1) == pytest.approx(1, abs=1e-12)
    P[~allowed, 0] = 1.0
    again = rc.MDP(P, available=allowed, start=mdp.start)
    assert again.fingerprint == mdp.fingerprint
    values = np.arange(mdp.num_pairs, dtype=float)
    assert (mdp.per_pair(mdp.table(values), "values") == values).all()


@about("MDP")
@few
@given(models(), st.text(max_size=5))
def test_a_model_comes_back_from_its_file(tmp_path_factory, mdp, name):
    path = tmp_path_factory.mktemp("models") / "model.rhocover"
    labels = [f"{name}{k}" for k in range(mdp.num_states)]
    layout = rc.Layout(np.arange(2.0 * mdp.num_states).reshape(-1, 2))
    rows = {"state_labels": labels, "layout": layout, "name": name, "start": mdp.start}
    named = rc.MDP.from_pairs(
        mdp.transitions, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions, **rows
    )
    named.save(path)
    again = rc.MDP.load(path)
    assert again.fingerprint == named.fingerprint == mdp.fingerprint
    assert (again.state_labels, again.name) == (named.state_labels, name)
    assert (again.layout.positions == layout.positions).all()
    with pytest.raises(RhocoverError, match="overwrite=True"):
        named.save(path)


@about("Layout")
@many
@given(st.integers(1, 9), seeds)
def test_a_part_of_a_layout_has_the_places_of_its_states(num_states, seed):
    rng = np.random.default_rng(seed)
    layout = rc.Layout(rng.normal(size=(num_states, 2)))
    states = rng.permutation(num_states)[: rng.integers(1, num_states + 1)]
    assert (layout.subset(states).positions == layout.positions[states]).all()
    assert not layout.positions.flags.writeable


@about(*SMALL, "make", "names", "parameters", "describe", "parse_parameters", "EnvInfo")
@pytest.mark.parametrize("name", SMALL)
def test_every_named_model_communicates_and_is_described(name):
    assert name in rc.envs.names()
    mdp = rc.envs.make(name, **SMALL[name])
    assert mdp.fingerprint == getattr(rc.envs, name)(**SMALL[name]).fingerprint
    assert mdp.name == name
    assert rc.plan(mdp, 2.0).gap <= 1e-8  # plans refuse models that do not communicate
    texts = [f"{key}={value}" for key, value in rc.envs.parameters(name).items() if value is not None]
    parsed = rc.envs.parse_parameters(name, texts)
    assert parsed == {key: value for key, value in rc.envs.parameters(name).items() if value is not None}
    (info,) = (info for info in rc.envs.describe() if info.name == name)
    assert isinstance(info, rc.envs.EnvInfo)
    assert info.num_pairs == rc.envs.make(name).num_pairs
    assert dataclasses.asdict(info)["parameters"] == rc.envs.parameters(name)


@about("garnet")
@few
@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 4), seeds)
def test_a_garnet_has_the_shape_it_was_asked_for(num_states, num_actions, num_successors, seed):
    asked = {"num_states": num_states, "num_actions": num_actions, "seed": seed}
    mdp = rc.envs.garnet(**asked, num_successors=min(num_successors, num_states))
    assert (mdp.num_states, mdp.num_actions) == (num_states, num_actions)
    assert (
        mdp.fingerprint == rc.envs.garnet(**asked, num_successors=min(num_successors, num_states)).fingerprint
    )


# --- weights -------------------------------------------------------------------------------------------


@about("uniform", "target", "per_state", "mask", "transition_std", "model_error")
@many
@given(weighted_models(), seeds)
def test_weights_are_tables_that_plans_take(drawn, seed):
    mdp, mu = drawn
    rng = np.random.default_rng(seed)
    per_state = rc.weights.per_state(mdp, rng.random(mdp.num_states) + 0.1)
    assert per_state.sum() == pytest.approx(per_state.sum(axis=1).sum())
    assert rc.weights.target(mdp, mu).sum() == pytest.approx(1)
    assert (rc.weights.uniform(mdp) == mdp.table(np.ones(mdp.num_pairs))).all()
    marks = np.zeros(mdp.num_states, bool)
    marks[rng.integers(mdp.num_states)] = True
    assert (rc.weights.mask(mdp, marks).any(axis=1) == marks).all()
    for made in (
        per_state, rc.weights.target(mdp, mu), rc.weights.mask(mdp, marks),
        rc.weights.transition_std(mdp, min_weight=0.1), rc.weights.model_error(mdp, min_weight=0.1),
    ):  # fmt: skip
        assert made.shape == (mdp.num_states, mdp.num_actions)
        assert np.isfinite(made).all()
        assert (made >= 0).all()
        rc.Coverage(2.0, made)


@about("transition_std", "model_error")
@many
@given(models())
def test_what_is_random_has_weight_and_what_is_not_has_none(mdp):
    rows = mdp.transitions.toarray()
    is_random = mdp.table(rows.max(axis=1) < 1 - 1e-12) > 0
    if is_random.any():
        assert ((rc.weights.transition_std(mdp) > 0) == is_random).all()
        assert ((rc.weights.model_error(mdp) > 0) == is_random).all()
    else:
        with pytest.raises(RhocoverError, match="min_weight"):
            rc.weights.transition_std(mdp)
