"""Compiled loops and their Python source give the same bits, whatever the library does with them.

Work of every kind runs on random models with each compiled function stood in for by a pair of twins (see
`twin_kernels`). None is left out: a loop that the work here does not reach fails the test by name.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from differing_cases import random_case
from numba import njit
from numba.core.errors import NumbaPendingDeprecationWarning
from second_opinions import foreign_order, sparse_solver
from twin_kernels import Ledger, all_kernels, checking, unlike

import rhocover as rc
from rhocover.datasets import Tallier
from rhocover.environments.encoding.training import _untrained
from rhocover.learning import confidence, shortest_paths
from rhocover.learning.search import Search
from rhocover.linalg import multifrontal
from rhocover.linalg.dissection import nested_dissection
from rhocover.oracles import best_response

SOURCE = Path(rc.__file__).parent
# Where bits may differ, relative to the largest entry, and why. NumPy adds in pairs and takes exponentials
# with its own vector code; compiled code adds in a row and takes them from the C library: a few roundings
# for each of at most some hundred terms. `_backward` is compiled with leave to add in any order, and it
# solves with factors whose condition multiplies what that does.
ROUNDED = {
    "rhocover.baselines.episodic.backward_induction": 1e-13,  # value.mean()
    "rhocover.learning.shortest_paths._eliminate": 1e-13,  # sums of rows
    "rhocover.learning.confidence._end": 1e-12,  # log1p, at the end of a bisection
    "rhocover.learning.confidence._slope": 1e-12,  # log and log1p
    "rhocover.learning.confidence._fill_ball": 1e-12,  # exp of a sum over HALVINGS rounds
    "rhocover.learning.confidence._fill_intervals": 1e-13,  # sums of a row
    "rhocover.learning.confidence.interval_ends": 1e-12,  # exp and expm1
    "rhocover.oracles.evaluation.moved_visits": 1e-13,  # a sum over the states
    "rhocover.linalg.multifrontal._backward": 1e-6,
}


# --- the work ------------------------------------------------------------------------------------------


def plan_sparsely() -> None:
    for seed in range(30):
        case = random_case(seed)
        with sparse_solver(nested_dissection if seed % 2 else foreign_order):
            rc.plan(case.mdp, case.rho, case.mu, **case.options)


def plan_in_large() -> None:
    """Models with separators, several levels of supernodes, and parts that are not connected."""
    for rows in range(9, 15):
        with sparse_solver(nested_dissection):
            rc.plan(rc.envs.grid_world(num_rows=rows), 2.0, max_steps=2, throw=False)
    for seed in range(9):
        with sparse_solver(nested_dissection):
            rc.plan(rc.envs.garnet(num_states=150, seed=seed), 1.0, max_steps=2, throw=False)
    for count in range(3, 12):
        block = sp.csr_array(np.ones((20, 20)))
        nested_dissection(sp.block_diag([block] * count, format="csr"))


def explore_known_models() -> None:
    for seed in range(8):
        case = random_case(seed)
        for explorer in ("feedback", "tracking", "stationary", "algorithm1"):
            rc.explore(case.mdp, 2.0, 60, explorer=explorer, seed=seed, num_chains=1 + seed % 3)


def explore_unknown_models() -> None:
    for seed, kind in enumerate(("learned", "from_scratch", "posterior")):
        run = rc.explore(random_case(seed + 3).mdp, 1.0, 40, model=kind, seed=seed)
        run.evidence()
    rc.explore(rc.envs.river_swim(), 1.0, 100, model="learned").certificate()


def explore_environments() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    for explorer in ("feedback", "uniform_random"):
        rc.explore(lake, 2.0, 60, model="learned", explorer=explorer)
    rc.explore(lake, 2.0, 100, explorer="stationary")
    rc.explore(lake, 2.0, 100, explorer="tracking")


def search_a_corridor() -> None:
    """A line of cells in codes of five, which an action leaves after some steps, with a door that closes now and then."""
    search, x = Search(3), 0
    for step in range(3500):
        if step % 300 == 0:
            search.begin_episode()
        pair = search.choose(x // 5)
        x = min(max(x + pair % 3 - 1, 0), 59 if step // 60 % 2 else 12)
        search.observe(pair, x // 5)
    again = [Search(3) for _ in range(9)]
    for other in again:
        other.observe_all([0, 1, 2], [0, 1, 1])
        other.replay([0, 0, 0, 4], [0, 0, 1, 0])
        other.expected_steps(0)


def encode_observations() -> None:
    points = np.random.default_rng(3).random((9, 40, 5))
    for part in points:
        net, hashes = rc.Net(0.5).fit(part), rc.SimHash(6).fit(part)
        net.keys(part)
        hashes.keys(part)
        for point in part[:3]:
            net.key(point + 1)
        _untrained(rc.LearnedFeatures(2), part, np.random.default_rng(0)).many(part)
        reward = rc.DensityReward(rc.Neighbours(k=4), 1.0)
        for first in range(0, 40, 8):
            reward.visit(part[first : first + 8])


def play_episodes() -> None:
    for seed, explorer in enumerate(("rf_ucrl", "rf_express", "cov_game", "ent_game", "reward_free")):
        mdp = random_case(seed).mdp
        rc.explore(mdp, 2.0, 60, horizon=3, explorer=explorer, model="learned", restrict=True, seed=seed)


def walk_shortest_paths() -> None:
    with mock.patch.object(shortest_paths, "FEW", 0):
        for seed in range(9):
            mdp = random_case(seed + 20).mdp
            first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1))
            arrival = np.zeros(mdp.num_pairs)
            arrival[0] = 0.5
            onward = (sp.diags_array(1 - arrival) @ mdp.transitions).tocsr()
            shortest_paths.shortest_paths(onward, arrival, first)


def sweep() -> None:
    """Models that mix fast, of as many states as are swept rather than factorised."""
    for seed in range(9):
        mdp = rc.envs.garnet(num_states=60, seed=seed)
        reward = np.random.default_rng(seed).random(mdp.num_pairs)
        for members in (rc.Occupancies.average(mdp), rc.Occupancies.discounted(mdp, 0.9, start=0)):
            best_response(members, reward)


def follow_policies_for_some_steps() -> None:
    for seed in range(9):
        members = rc.Occupancies.horizon(random_case(seed).mdp, 2 + seed, start=0)
        members.from_policy(members.to_policy(np.random.default_rng(seed).random(members.num_pairs)))


def find_interval_ends() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        shares = rng.random(30)
        shares[:2] = 0.0, 1.0
        confidence.interval_ends(shares, 10.0 ** rng.uniform(-12, 1, 30))


def count_transitions() -> None:
    """Streams in pieces that name more and more states, where pairs lead to more states than stand beside them."""
    for seed in range(9):
        rng, tallier = np.random.default_rng(seed), Tallier()
        for size in (5, 20, 40):
            before, action, after = (
                rng.integers(size, size=200),
                rng.integers(3, size=200),
                rng.integers(size, size=200),
            )
            tallier.add(before, action, after, rng.random(200) < 0.1)
        tallier.tally()


WORK: tuple[Callable[[], None], ...] = (
    plan_sparsely, plan_in_large, explore_known_models, explore_unknown_models, explore_environments,
    search_a_corridor, count_transitions, encode_observations, play_episodes, walk_shortest_paths, find_interval_ends, sweep, follow_policies_for_some_steps,
)  # fmt: skip


# --- the comparison ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    with checking(all_kernels(), ROUNDED) as ledger, warnings.catch_warnings():
        # A list that compiled code hands to compiled code is none of Python's, as it is when handed in here.
        warnings.simplefilter("ignore", NumbaPendingDeprecationWarning)
        for work in WORK:
            work()
    return ledger


@pytest.mark.thorough
def test_compiled_and_plain_python_give_the_same_bits(ledger):
    assert ledger.differences == {}


@pytest.mark.thorough
def test_every_compiled_function_was_compared_on_several_calls(ledger):
    assert {name: ledger.calls[name] for name in all_kernels() if ledger.calls[name] < 9} == {}


def test_every_compiled_function_of_the_source_is_known_here():
    """Read from the source itself, so that one which no module attribute holds cannot hide."""
    written = {
        f"{_module(path)}.{node.name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any("compiled" in ast.dump(mark) for mark in node.decorator_list)
    }
    assert written == set(all_kernels())
    assert len(written) > 50
    assert set(ROUNDED) <= written


def _module(path: Path) -> str:
    return ".".join(("rhocover", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def test_a_difference_of_one_bit_is_found():
    """The comparison itself: sums in another order, a list, a whole number, a shape."""
    assert unlike(0.1 + 0.2, 0.3)
    assert not unlike(0.1 + 0.2, 0.3, 1e-15)
    assert unlike(np.array([1.0, -0.0]), np.array([1.0, 0.0]))
    assert unlike([1, 2], [1, 3])
    assert unlike(np.zeros(2), np.zeros(3))
    assert not unlike((np.int64(3), np.array([2, 3])), (3, np.array([2, 3])))


def test_without_leave_to_reorder_the_back_substitution_has_the_same_bits():
    strict, rng = njit(multifrontal._backward.py_func), np.random.default_rng(1)
    for width, height in rng.integers(1, 40, (50, 2)):
        block = rng.random(width * (width + height)) + 0.1
        own, values = rng.random(width), rng.random(height)
        twin = own.copy()
        strict(block, own, values)
        multifrontal._backward.py_func(block, twin, values)
        assert own.tobytes() == twin.tobytes()
