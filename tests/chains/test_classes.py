"""Classes, reachability and period against a transitive closure. The mutant: a transposed graph."""

from __future__ import annotations

import numpy as np
from chain_models import closure, random_mdp, reproducible, seeds, state_graph
from hypothesis import given

from rhocover import chains


@reproducible
@given(seeds)
def test_a_recurrent_class_is_what_its_states_reach_and_no_more(seed: int) -> None:
    mdp = random_mdp(seed, most_states=7, most_actions=1)
    reach = closure(mdp.transitions.toarray() > 0)
    recurrent = [s for s in range(len(reach)) if (reach[:, s] >= reach[s]).all()]
    expected = {tuple(np.flatnonzero(reach[s]).tolist()) for s in recurrent}
    found = [tuple(states.tolist()) for states in chains.recurrent_classes(mdp.transitions)]
    assert found == sorted(expected)


@reproducible
@given(seeds)
def test_reachable_states_are_those_of_the_transitive_closure(seed: int) -> None:
    mdp = random_mdp(seed, most_states=7)
    reach = closure(state_graph(mdp))
    start = np.zeros(mdp.num_states)
    start[[0, -1]] = 0.5
    start /= start.sum()
    assert chains.reachable_states(mdp, start).tolist() == (reach[0] | reach[-1]).tolist()
    assert chains.reachable_states(mdp, 0).tolist() == reach[0].tolist()


def test_the_period_is_the_common_divisor_of_the_cycles() -> None:
    cycle = np.roll(np.eye(12), 1, axis=1)
    short = cycle.copy()
    short[7, [8, 0]] = 0.5  # cycles of 12 and of 8
    lazy = cycle.copy()
    lazy[3, [3, 4]] = 0.5
    leading_in = np.block([[cycle, np.zeros((12, 1))], [np.eye(1, 12), np.zeros((1, 1))]])
    assert [chains.period(P) for P in (cycle, short, lazy, leading_in)] == [12, 4, 1, 12]
    assert chains.period([[1.0]]) == 1
