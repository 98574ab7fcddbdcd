"""What can be visited is planned on, what cannot is named: by end component, or by reach from a start.

The named mutants: transient pairs kept, the lightest component chosen, an unreachable one chosen, weight
counted in pairs, pairs without weight refused.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rhocover as rc
from rhocover.chains import is_communicating, maximal_end_components, reachable_states
from rhocover.errors import InvalidArgumentError, NotCommunicatingError
from rhocover.planning.problem import average_structure, reachable_structure

reproducible = settings(max_examples=80, deadline=None, derandomize=True)


def deterministic(successors: list[list[int]], **options) -> rc.MDP:
    """Returns the model in which action a of state s leads to successors[s][a]."""
    states = [s for s, row in enumerate(successors) for _ in row]
    actions = [a for row in successors for a in range(len(row))]
    rows = np.eye(len(successors))[[t for row in successors for t in row]]
    return rc.MDP.from_pairs(rows, states, actions, **options)


# 0 leads to two components: {1, 2}, of four pairs, and {3}, of one.
FORK = [[1, 3], [1, 2], [1, 2], [3]]
TRANSIENT, LARGE, SMALL = [0, 1], [2, 3, 4, 5], [6]


def uniform(mdp: rc.MDP) -> np.ndarray:
    return np.ones(mdp.num_pairs)


def test_a_communicating_model_keeps_everything_and_has_nothing_to_say() -> None:
    mdp = rc.envs.river_swim(num_states=6)
    for structure in (
        average_structure(mdp, uniform(mdp), restrict=False),
        reachable_structure(mdp, uniform(mdp), 0, restrict=False),
    ):
        assert structure.kept.all()
        assert structure.dropped_pairs.size == 0
        assert (structure.dropped_weight, structure.num_components) == (0.0, 1)
        assert structure.describe(mdp) == ""


def test_transient_pairs_are_refused_by_name_with_the_way_out() -> None:
    mdp = deterministic([[1, 2], [1, 2], [1, 2]])
    with pytest.raises(NotCommunicatingError) as caught:
        average_structure(mdp, uniform(mdp), restrict=False)
    assert str(caught.value) == (
        "2 pairs can never be visited again once left: (0, 0), (0, 1). "
        "Pass restrict=True to plan on the end component of 2 states."
    )
    assert caught.value.pairs == ((0, 0), (0, 1))


def test_several_components_are_refused_with_word_of_restarts() -> None:
    mdp = deterministic(FORK, state_labels=["door", "hall", "room", "pit"])
    mu = uniform(mdp)
    mu[TRANSIENT] = 0
    with pytest.raises(NotCommunicatingError, match="one trajectory stays in one of them") as caught:
        average_structure(mdp, mu, restrict=False)
    assert caught.value.pairs == ((3, 0),)
    for words in ("1 pair ", "(pit, 0)", "discount= or horizon=", "restrict=True", "of 2 states"):
        assert words in str(caught.value)
    assert "once left" not in str(caught.value)


def test_only_the_first_eight_of_many_pairs_are_named_and_all_are_attached() -> None:
    mdp = deterministic([[20] for _ in range(20)] + [[20]])
    with pytest.raises(
        NotCommunicatingError, match=r"20 pairs .*\(7, 0\) and 12 more\. .* 1 state\."
    ) as caught:
        average_structure(mdp, uniform(mdp), restrict=False)
    assert len(caught.value.pairs) == 20


def test_restricting_keeps_the_heaviest_component_and_reports_the_weight_of_the_rest() -> None:
    mdp = deterministic(FORK)
    mu = np.array([1.0, 2, 3, 0, 0, 0, 4])
    structure = average_structure(mdp, mu, restrict=True)
    assert np.flatnonzero(structure.kept).tolist() == SMALL  # by weight, though the other has more pairs
    assert structure.dropped_pairs.tolist() == TRANSIENT + LARGE
    assert structure.dropped_weight == pytest.approx(0.6, abs=1e-15)
    assert structure.num_components == 2
    text = structure.describe(mdp)
    for words in ("6 of 7 pairs", "0.6 of the weight", "2 in no end component", "4 in another", "1 state"):
        assert words in text


def test_equal_weight_goes_to_more_pairs_and_then_to_the_lowest_state() -> None:
    mdp = deterministic([[1, 2], [1], [2, 3], [2, 3]])
    mu = np.array([0, 0, 0.4 + 0.3 + 0.2 + 0.1, 0.1, 0.2, 0.3, 0.4])
    assert np.flatnonzero(average_structure(mdp, mu, restrict=True).kept).tolist() == [3, 4, 5, 6]
    twins = deterministic([[1, 2], [1], [2]])
    assert average_structure(twins, uniform(twins), restrict=True).kept.tolist() == [
        False,
        False,
        True,
        False,
    ]


def test_pairs_without_weight_are_dropped_without_a_refusal() -> None:
    mdp = deterministic(FORK)
    mu = np.zeros(7)
    mu[LARGE] = 1
    structure = average_structure(mdp, mu, restrict=False)
    assert np.flatnonzero(structure.kept).tolist() == LARGE
    assert structure.dropped_weight == 0
    assert "0 of the weight" in structure.describe(mdp)


def test_only_components_that_the_start_reaches_count() -> None:
    mdp = deterministic(FORK, start=3)
    structure = average_structure(mdp, uniform(mdp), restrict=True)
    assert np.flatnonzero(structure.kept).tolist() == SMALL
    assert "4 in one out of reach" in structure.describe(mdp)
    mu = np.zeros(7)
    mu[LARGE] = 1
    for restrict in (False, True):
        with pytest.raises(
            NotCommunicatingError, match=r"4 pairs cannot be reached .* No other pair has weight"
        ):
            average_structure(mdp, mu, restrict=restrict)


def test_weight_on_transient_pairs_alone_leaves_nothing_to_restrict_to() -> None:
    mdp = deterministic(FORK)
    with pytest.raises(NotCommunicatingError, match="No other pair has weight"):
        average_structure(mdp, np.array([1.0, 1, 0, 0, 0, 0, 0]), restrict=True)


def test_what_the_start_does_not_reach_is_refused_or_dropped() -> None:
    mdp = deterministic(FORK)
    with pytest.raises(NotCommunicatingError) as caught:
        reachable_structure(mdp, uniform(mdp), 1, restrict=False)
    assert str(caught.value) == (
        "3 pairs cannot be reached from the start: (0, 0), (0, 1), (3, 0). "
        "Pass restrict=True to plan on the 2 states within reach."
    )
    assert caught.value.pairs == ((0, 0), (0, 1), (3, 0))
    structure = reachable_structure(mdp, uniform(mdp), 1, restrict=True)
    assert np.flatnonzero(structure.kept).tolist() == LARGE
    assert structure.dropped_weight == pytest.approx(3 / 7, abs=1e-15)
    assert "out of reach" in structure.describe(mdp)


def test_restarts_join_what_one_trajectory_cannot() -> None:
    mdp = deterministic(FORK)
    assert reachable_structure(mdp, uniform(mdp), 0, restrict=False).kept.all()
    start = [0, 0.5, 0, 0.5]
    kept = reachable_structure(mdp, [0, 0, 1, 1, 1, 1, 1], start, restrict=False).kept
    assert np.flatnonzero(kept).tolist() == LARGE + SMALL


def test_a_start_that_reaches_no_weight_is_refused_even_with_restrict() -> None:
    mdp = deterministic(FORK)
    with pytest.raises(NotCommunicatingError, match="No other pair has weight"):
        reachable_structure(mdp, [1, 1, 0, 0, 0, 0, 0], 3, restrict=True)


@pytest.mark.parametrize(
    ("mu", "words"),
    [(np.zeros(7), "positive for at least one pair"), (-np.ones(7), "non-negative"), (np.ones(6), "shape")],
)
def test_weights_are_checked(mu: np.ndarray, words: str) -> None:
    mdp = deterministic(FORK)
    with pytest.raises(InvalidArgumentError, match=words):
        average_structure(mdp, mu, restrict=True)
    with pytest.raises(InvalidArgumentError, match=words):
        reachable_structure(mdp, mu, 0, restrict=True)


def test_weights_near_the_largest_float_do_not_overflow_the_share() -> None:
    mdp = deterministic(FORK)
    structure = average_structure(mdp, np.full(7, 1e308), restrict=True)
    assert structure.dropped_weight == pytest.approx(3 / 7, abs=1e-15)


@reproducible
@given(st.integers(0, 10**6), st.booleans())
def test_what_is_kept_is_a_model_of_its_own(seed: int, with_start: bool) -> None:
    """Closed, communicating for the average criterion, and nothing weighted is kept or lost unaccounted."""
    rng = np.random.default_rng(seed)
    successors = [rng.integers(0, 6, rng.integers(1, 4)).tolist() for _ in range(6)]
    mdp = deterministic(successors, start=0 if with_start else None)
    mu = rng.integers(0, 4, mdp.num_pairs).astype(float)
    mu[rng.integers(mdp.num_pairs)] = 1
    labels = maximal_end_components(mdp).pair_label
    reached = reachable_states(mdp, 0)[mdp.pair_state] if with_start else np.ones(mdp.num_pairs, bool)
    if not (mu > 0)[(labels >= 0) & reached].any():
        with pytest.raises(NotCommunicatingError):
            average_structure(mdp, mu, restrict=True)
        return
    structure = average_structure(mdp, mu, restrict=True)
    part, states = mdp.subset(structure.kept)
    assert is_communicating(part)
    assert states.tolist() == np.unique(mdp.pair_state[structure.kept]).tolist()
    assert structure.dropped_weight == pytest.approx(1 - mu[structure.kept].sum() / mu.sum(), abs=1e-12)
    weights = [mu[(labels == label) & reached].sum() for label in range(labels.max() + 1)]
    assert mu[structure.kept].sum() == max(weights)  # whole numbers: exact
    if structure.dropped_weight > 0:
        with pytest.raises(NotCommunicatingError):
            average_structure(mdp, mu, restrict=False)


@reproducible
@given(st.integers(0, 10**6))
def test_what_a_start_reaches_is_a_model_of_its_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = deterministic([rng.integers(0, 6, rng.integers(1, 3)).tolist() for _ in range(6)], start=2)
    structure = reachable_structure(mdp, uniform(mdp), mdp.start, restrict=True)
    part, states = mdp.subset(structure.kept)
    assert reachable_states(part, part.start).all()
    assert 2 in states
