"""plan_features: designs of the textbooks, pairs as a special case, certificates, and refusals."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import rhocover as rc
from rhocover.errors import InvalidArgumentError, NotCommunicatingError, NotConvergedError, SolverError
from rhocover.planning.features import lower_bound
from rhocover.planning.information import information
from tiers import tiered

ORDERS = (0.5, 1.0, 2.0, 4.0, 8.0, np.inf)
RIVER = rc.envs.river_swim()


def bandit(num_arms: int) -> rc.MDP:
    """Returns one state with as many actions as design points: every distribution over them is possible."""
    return rc.MDP(np.ones((1, num_arms, 1)), start=0)


def polynomials(x: np.ndarray, degree: int) -> np.ndarray:
    return np.stack([x**power for power in range(degree + 1)], axis=-1)


def weights_of(design: str, phi: np.ndarray) -> np.ndarray:
    return rc.plan_features(bandit(len(phi)), phi=phi, design=design, tol=1e-9).occupancy[0]


def random_features(num_pairs: int, k: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num_pairs, k))


# Designs of the textbooks.


@pytest.mark.parametrize(
    ("design", "weights"), [("D", (1 / 3, 1 / 3)), ("A", (1 / 4, 1 / 2)), ("E", (1 / 5, 3 / 5))]
)
def test_quadratic_regression_has_the_published_weights(design, weights):
    """Pukelsheim 2006, section 9: at -1, 0 and 1; within 1e-4, because the optimum is flat in the weights."""
    x = np.linspace(-1, 1, 21)
    found = weights_of(design, polynomials(x, 2))
    ends, middle = weights
    assert found[[0, 10, 20]] == pytest.approx([ends, middle, ends], abs=1e-4)


def test_cubic_regression_visits_the_ends_and_the_root_of_a_fifth():
    """The D-optimal points are those where the derivative of the Legendre polynomial vanishes."""
    inner = 1 / np.sqrt(5)
    x = np.unique(np.concatenate([np.linspace(-1, 1, 41), [-inner, inner]]))
    found = weights_of("D", polynomials(x, 3))
    for point in (-1, -inner, inner, 1):
        assert found[np.argmin(np.abs(x - point))] == pytest.approx(1 / 4, abs=1e-3)


@pytest.mark.parametrize("design", ["D", "A", "E"])
def test_on_the_cube_the_vertices_give_the_identity(design):
    """Linear regression with an intercept on [-1, 1]^3: M = 1 is best for every criterion, and D = 0."""
    grid = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    phi = np.concatenate([np.ones((27, 1)), grid], axis=1)
    best = rc.plan_features(bandit(27), phi=phi, design=design, tol=1e-8)
    assert best.information == pytest.approx(np.eye(4), abs=1e-4)
    assert best.divergence == pytest.approx(0, abs=1e-8)


def test_quadratic_mixtures_visit_vertices_and_edge_midpoints_equally():
    """Scheffé's model on the simplex of three components: six points of weight 1/6 (Kiefer 1961)."""
    steps = [(i, j, 6 - i - j) for i in range(7) for j in range(7 - i)]
    x = np.array(steps) / 6
    phi = np.concatenate([x, x[:, [0]] * x[:, [1]], x[:, [0]] * x[:, [2]], x[:, [1]] * x[:, [2]]], axis=1)
    found = weights_of("D", phi)
    support = (x == 1).any(axis=1) | ((x == 0.5).sum(axis=1) == 2)
    assert found[support] == pytest.approx(np.full(6, 1 / 6), abs=1e-4)


# Pairs are a special case.


@pytest.mark.parametrize("rho", tiered(ORDERS, short=[1.0, np.inf]))
@pytest.mark.parametrize("criterion", [{}, {"discount": 0.9, "start": 0}])
def test_features_that_mark_pairs_are_the_pairs(rho, criterion):
    rng = np.random.default_rng(1)
    mu = rng.uniform(0.5, 2, size=12)
    pairs = rc.plan(RIVER, rho, mu, **criterion)
    marks = rc.plan_features(RIVER, rho, phi=np.eye(12), mu=mu, tol=1e-8, **criterion)
    assert marks.lower_bound <= pairs.divergence + 1e-12
    assert pairs.lower_bound <= marks.divergence + 1e-12
    same = rc.Coverage(rho, mu.reshape(6, 2)).divergence(marks.occupancy)
    assert marks.divergence == pytest.approx(same, abs=1e-10)
    assert 1 / marks.eigenvalues[0] == pytest.approx(marks.worst_ratio)


def test_marks_of_states_cover_states():
    """The reference values of coverage of states on RiverSwim, to their nine digits."""
    phi = np.eye(6)[RIVER.pair_state]
    expected = {1.0: 0.004096198, 2.0: 0.008101347, 8.0: 0.027229319, np.inf: 0.054867561}
    for rho, value in expected.items():
        assert rc.plan_features(RIVER, rho, phi=phi, tol=1e-9).divergence == pytest.approx(value, abs=2e-9)


# Certificates.

MODELS = {
    "river": RIVER,
    "rooms": rc.envs.four_rooms(),
    "garnet": rc.envs.garnet(num_states=200),
    "grid": rc.envs.grid_world(num_rows=20),
}


def features_of(kind: str, num_pairs: int, k: int) -> np.ndarray:
    if kind == "random":
        return random_features(num_pairs, k)
    if kind == "polynomial":
        return polynomials(np.linspace(-1, 1, num_pairs), k - 1)
    return np.eye(k)[np.arange(num_pairs) % k]


@pytest.mark.thorough
@pytest.mark.parametrize("rho", ORDERS)
@pytest.mark.parametrize("mu", [None, "identity"])
@pytest.mark.parametrize(
    ("kind", "k"),
    [("random", 2), ("random", 5), ("random", 12), ("polynomial", 4), ("marks", 6), ("random", 24)],
)
@pytest.mark.parametrize("name", MODELS)
def test_every_plan_of_the_grid_is_certified(name, kind, k, mu, rho):
    mdp = MODELS[name]
    if k > mdp.num_pairs:
        pytest.skip("more features than pairs cannot all be excited")
    best = rc.plan_features(mdp, rho, phi=features_of(kind, mdp.num_pairs, k), mu=mu)
    assert best.gap <= 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("rho", [1.0, 8.0, np.inf])
def test_fifty_features_are_certified(rho):
    mdp = MODELS["garnet"]
    assert rc.plan_features(mdp, rho, phi=random_features(mdp.num_pairs, 50)).gap <= 1e-6


@pytest.mark.parametrize("rho", ORDERS)
def test_no_policy_is_below_the_bound(rho):
    phi, members = random_features(12, 3, seed=2), rc.Occupancies.average(RIVER)
    best = rc.plan_features(RIVER, rho, phi=phi, tol=1e-8)
    coverage = rc.planning.features.FeatureCoverage.of(rho, information(phi, np.full(12, 1 / 12)))
    rng = np.random.default_rng(3)
    for concentration in (0.1, 1.0, 10.0):
        for _ in range(40):
            d = members.from_policy(rng.dirichlet([concentration, concentration], size=6))
            assert coverage.divergence(information(phi, d)) >= best.lower_bound - 1e-12
    assert coverage.divergence(best.information) == pytest.approx(best.divergence, abs=1e-12)


@pytest.mark.parametrize("rho", ORDERS)
def test_nonsense_as_multiplier_proves_less_and_nothing_wrong(rho):
    from rhocover.planning.features import _Task
    from rhocover.planning.problem import Criterion

    task = _Task.read(RIVER, rho, random_features(12, 3, seed=4), None, Criterion())
    best = rc.plan_features(RIVER, rho, phi=random_features(12, 3, seed=4), tol=1e-8)
    for seed in range(30):
        X = np.random.default_rng(seed).normal(size=(5, 3))
        assert lower_bound(task.core, X.T @ X, X.T @ X) <= best.divergence + 1e-12
    assert lower_bound(task.core, np.zeros((3, 3)), np.zeros((3, 3))) == -np.inf


@pytest.mark.parametrize("criterion", [{}, {"discount": 0.95, "start": 0}, {"horizon": 8, "start": 0}])
def test_the_equivalence_theorem_holds(criterion):
    """Kiefer and Wolfowitz 1960: at a D-optimal design the best response to phi'M^-1 phi earns k, and no more."""
    phi = random_features(12, 4, seed=5)
    best = rc.plan_features(RIVER, phi=phi, design="D", tol=1e-8, **criterion)
    members = rc.Occupancies.of(RIVER, **criterion)
    answer = rc.planning.features.best_response(members, best.scores()[members.pair])
    assert answer.value == pytest.approx(4, abs=1e-5)
    assert best.efficiency >= 1 - 1e-8


@pytest.mark.parametrize("method", ["corrective", "frank_wolfe"])
@pytest.mark.parametrize("rho", tiered([1.0, 0.5, 4.0, np.inf], short=[1.0]))
def test_the_methods_agree(method, rho):
    if (method, rho) == ("frank_wolfe", np.inf):
        pytest.skip("finite orders only")
    phi = random_features(12, 4, seed=6)
    one, two = (rc.plan_features(RIVER, rho, phi=phi, method=name) for name in ("interior_point", method))
    assert one.lower_bound <= two.divergence + 1e-12
    assert two.lower_bound <= one.divergence + 1e-12
    assert two.method == method


def test_mixtures_continue_where_the_interior_point_ends():
    """On a grid with few features the visits concentrate, and Newton's equations lose their digits."""
    mdp = MODELS["grid"]
    best = rc.plan_features(mdp, np.inf, phi=random_features(mdp.num_pairs, 5, seed=7), tol=1e-7)
    assert best.gap <= 1e-7


# Invariance.


def test_the_d_optimal_visits_do_not_depend_on_coordinates():
    phi, T = random_features(12, 3, seed=8), random_features(3, 3, seed=9)
    one = rc.plan_features(RIVER, phi=phi, design="D", tol=1e-9)
    two = rc.plan_features(RIVER, phi=phi @ T, design="D", tol=1e-9)
    assert two.occupancy == pytest.approx(one.occupancy, abs=1e-4)
    shift = 2 / 3 * np.log(abs(np.linalg.det(T)))
    assert two.divergence == pytest.approx(one.divergence - shift, abs=2e-9)


def test_the_worst_case_against_weights_does_not_depend_on_coordinates():
    phi, T = random_features(12, 3, seed=8), random_features(3, 3, seed=9)
    one, two = (rc.plan_features(RIVER, np.inf, phi=x, tol=1e-9) for x in (phi, phi @ T))
    assert two.divergence == pytest.approx(one.divergence, abs=2e-9)
    assert two.eigenvalues[0] == pytest.approx(one.eigenvalues[0], abs=1e-8)


@pytest.mark.parametrize("rho", ORDERS)
@pytest.mark.parametrize("mu", [None, "identity"])
def test_rotations_change_nothing(rho, mu):
    phi = random_features(12, 3, seed=8)
    Q = np.linalg.qr(random_features(3, 3, seed=9))[0]
    one, two = (rc.plan_features(RIVER, rho, phi=x, mu=mu, tol=1e-8) for x in (phi, phi @ Q))
    assert two.divergence == pytest.approx(one.divergence, abs=2e-8)
    assert two.eigenvalues[0] == pytest.approx(one.eigenvalues[0], rel=1e-3)  # at inf the others are free


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0, np.inf])
@pytest.mark.parametrize("scale", [1e-40, 1e3])
def test_the_scale_of_features_does_not_matter(rho, scale):
    phi = random_features(12, 3, seed=10)
    one, two = (rc.plan_features(RIVER, rho, phi=x, tol=1e-8) for x in (phi, scale * phi))
    assert two.divergence == pytest.approx(one.divergence, abs=1e-8)  # the gap
    three = rc.plan_features(RIVER, rho, phi=scale * phi, mu="identity", tol=1e-8)
    four = rc.plan_features(RIVER, rho, phi=phi, mu="identity", tol=1e-8)
    assert three.divergence + 2 * np.log(scale) == pytest.approx(four.divergence, abs=1e-8)
    assert three.eigenvalues[0] / scale**2 == pytest.approx(four.eigenvalues[0], rel=1e-4)


def test_the_best_divergence_grows_with_the_order():
    phi = random_features(12, 4, seed=11)
    plans = [rc.plan_features(RIVER, rho, phi=phi, tol=1e-8) for rho in (*ORDERS[:-1], 64.0, 1000.0, np.inf)]
    for one, two in itertools.pairwise(plans):
        assert one.lower_bound <= two.divergence


# Rank.


def test_collinear_features_count_once():
    phi = random_features(12, 3, seed=12)
    double = np.concatenate([phi, phi @ random_features(3, 2, seed=13)], axis=1)
    best = rc.plan_features(RIVER, np.inf, phi=double, tol=1e-8)
    assert best.divergence == pytest.approx(
        rc.plan_features(RIVER, np.inf, phi=phi, tol=1e-8).divergence, abs=2e-8
    )
    assert best.restriction == "The 5 features span 3 directions."
    assert best.eigenvalues.shape == (3,)
    assert best.information.shape == (5, 5)


def test_the_identity_over_collinear_features_is_refused_with_the_way_out():
    phi = random_features(12, 3, seed=12)
    double = np.concatenate([phi, phi[:, :2]], axis=1)
    with pytest.raises(
        InvalidArgumentError, match=r"2 of 5 directions of the target cannot be.*restrict=True"
    ):
        rc.plan_features(RIVER, phi=double, design="A")
    best = rc.plan_features(RIVER, phi=double, design="A", restrict=True)
    assert best.restriction.startswith("Left out 2 of 5 directions")
    assert best.eigenvalues.shape == (3,)


def test_more_features_than_pairs_span_what_the_pairs_span():
    best = rc.plan_features(RIVER, phi=random_features(12, 20, seed=14))
    assert best.restriction == "The 20 features span 12 directions."


def test_directions_of_transient_pairs_are_refused_or_left_out():
    """State 0 is left for good; only its pairs have the third feature."""
    P = np.zeros((3, 2, 3))
    P[0, :, 1] = P[1, 0, 1] = P[1, 1, 2] = P[2, 0, 2] = P[2, 1, 1] = 1
    phi = np.array([[[0.0, 0, 1], [0, 0, 1]], [[1, 0, 0], [1, 1, 0]], [[0, 1, 0], [1, -1, 0]]])
    mdp = rc.MDP(P)
    with pytest.raises(InvalidArgumentError, match=r"1 direction of the target cannot be, for example.*1\."):
        rc.plan_features(mdp, phi=phi)
    best = rc.plan_features(mdp, phi=phi, restrict=True)
    assert best.restriction.startswith("Left out 1 direction")
    assert best.occupancy[0].sum() == 0
    phi[0, :, :] = [[1, 1, 0], [0, 1, 0]]  # other pairs see what they see
    assert rc.plan_features(mdp, phi=phi[..., :2]).restriction == ""


def test_several_end_components_are_refused_unless_restricted():
    mdp = rc.MDP(np.eye(2)[:, None, :])
    with pytest.raises(NotCommunicatingError, match=r"2 end components.*restrict=True"):
        rc.plan_features(mdp, phi=np.ones((2, 1)))
    assert rc.plan_features(mdp, phi=np.ones((2, 1)), restrict=True).occupancy.sum() == pytest.approx(1)


def test_a_target_of_low_rank_needs_only_its_directions():
    """Weight on one pair: the target is phi phi', and its divergence at rho = inf is that of one direction."""
    phi = random_features(12, 3, seed=15)
    mu = np.zeros(12)
    mu[4] = 1
    best = rc.plan_features(RIVER, np.inf, phi=phi, mu=mu, tol=1e-8)
    v = phi[4]
    assert best.divergence == pytest.approx(np.log(v @ np.linalg.solve(best.information, v)), abs=1e-9)
    assert best.eigenvalues.shape == (1,)


# The result and its arguments.


def test_the_worst_direction_is_where_information_is_smallest():
    phi = random_features(12, 4, seed=16)
    best = rc.plan_features(RIVER, 2.0, phi=phi)
    v = best.worst_direction
    assert v @ v == pytest.approx(1)
    ratio = (v @ best.information @ v) / (v @ best.target @ v)
    assert ratio == pytest.approx(best.eigenvalues[0]) == pytest.approx(1 / best.worst_ratio)
    assert best.information == pytest.approx(information(phi, best.occupancy.ravel()), abs=1e-12)


def test_what_is_reported_is_the_policys_own_visits():
    best = rc.plan_features(RIVER, phi=random_features(12, 3, seed=17))
    members = rc.Occupancies.average(RIVER)
    assert best.occupancy == pytest.approx(members.table(members.from_policy(best.policy)), abs=1e-12)
    assert not best.occupancy.flags.writeable


def test_visits_of_episodes_add_up_over_steps():
    phi = random_features(12, 3, seed=18)
    best = rc.plan_features(RIVER, phi=phi, horizon=6, start=0)
    assert best.occupancy.shape == (6, 6, 2)
    total = best.occupancy.sum(axis=0).ravel()
    assert best.information == pytest.approx(information(phi, total), abs=1e-12)
    assert "visits in episodes of 6 steps" in str(best)


def test_features_may_be_a_table_rows_or_a_function():
    table = random_features(12, 3, seed=19).reshape(6, 2, 3)
    plans = [rc.plan_features(RIVER, phi=x) for x in (table, table.reshape(12, 3), lambda mdp: table)]
    assert len({plan.divergence for plan in plans}) == 1


def test_the_text_and_the_summary_say_what_was_reached():
    best = rc.plan_features(RIVER, phi=random_features(12, 3, seed=20), design="A")
    assert str(best).startswith("A-optimal design for 3 features of river_swim")
    assert f"{best.divergence:.9g}" in str(best)
    document = json.loads(json.dumps(best.summary()))
    assert document["efficiency"] == pytest.approx(np.exp(-best.gap))
    assert document["num_features"] == 3
    worst = rc.plan_features(RIVER, np.inf, phi=random_features(12, 3, seed=20))
    assert worst.summary()["rho"] == "inf"


def test_too_few_steps_are_an_error_or_an_honest_plan():
    phi = random_features(12, 3, seed=21)
    with pytest.raises(
        NotConvergedError, match=r"tol=1e-06 was not reached.*after 2 steps of interior_point"
    ):
        rc.plan_features(RIVER, phi=phi, max_steps=2)
    rough, best = rc.plan_features(RIVER, phi=phi, max_steps=2, throw=False), rc.plan_features(RIVER, phi=phi)
    assert rough.gap > 1e-6
    assert rough.lower_bound <= best.divergence <= rough.divergence + 1e-12


def test_without_a_bound_on_the_scores_nothing_is_proved(monkeypatch):
    def fail(*_, **__):
        raise SolverError("no bound")

    monkeypatch.setattr("rhocover.planning.features.best_response", fail)
    found = rc.plan_features(RIVER, phi=random_features(12, 3, seed=22), throw=False)
    assert found.gap == np.inf
    assert found.efficiency == 0
    assert found.summary()["gap"] == "inf"
    with pytest.raises(NotConvergedError, match="it proves nothing"):
        rc.plan_features(RIVER, phi=random_features(12, 3, seed=22))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": 0.3}, r"`rho` must be in \[1/2, inf\]"),
        ({"rho": 1e6}, "at most 10000 or inf"),
        ({"design": "C"}, "design"),
        ({"design": "A", "rho": 4.0}, "`rho` must be 2 for a design of the kind A"),
        ({"design": "D", "mu": "uniform"}, "`mu` must be left out with `design`"),
        ({"phi": np.ones((5, 2))}, r"`phi` must have shape \(6, 2, k\) or \(12, k\)"),
        ({"phi": np.zeros((12, 2))}, "not all zero"),
        ({"phi": np.full((12, 2), 1e200)}, "Rescale"),
        ({"phi": np.full((12, 2), np.nan)}, "must be finite"),
        ({"mu": np.zeros((6, 2))}, "`mu` must be positive"),
        ({"rho": np.inf, "method": "frank_wolfe"}, "smallest eigenvalue has no gradient"),
        ({"discount": 0.9, "horizon": 3}, "cannot be combined"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        rc.plan_features(RIVER, **{"phi": random_features(12, 2), **arguments})
