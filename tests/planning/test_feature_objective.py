"""The divergence of information matrices: pairs as a special case, its derivatives, and its bound."""

from __future__ import annotations

import numpy as np
import pytest

from rhocover.coverage import Coverage
from rhocover.planning.feature_objective import FeatureCoverage, log_sinh_ratio
from rhocover.planning.information import Blends, Rays, information, quadratic_forms, svec_outer, svec_places
from tiers import tiered

ORDERS = (0.5, 0.7, 1.0, 1.3, 2.0, 3.5, 8.0, 64.0)


def matrices(k: int, seed: int, rank: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a positive definite M, a target N of some rank, and a symmetric direction."""
    rng = np.random.default_rng(seed)
    X, R, H = rng.normal(size=(2 * k, k)), rng.normal(size=(k, rank or k)), rng.normal(size=(k, k))
    return X.T @ X / (2 * k), R @ R.T, (H + H.T) / 2


def curvature(coverage: FeatureCoverage, M: np.ndarray, H: np.ndarray) -> float:
    near = coverage.local(M)
    i, j, weight = svec_places(len(M))
    x = (near.basis.T @ H @ near.basis)[i, j] * weight
    return float(x @ near.hessian @ x)


@pytest.mark.parametrize("rho", [*ORDERS, np.inf])
def test_diagonal_matrices_have_the_divergence_of_pairs(rho):
    rng = np.random.default_rng(0)
    mu, d = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(7))
    found = FeatureCoverage.of(rho, np.diag(mu)).divergence(np.diag(d))
    assert found == pytest.approx(Coverage(rho, mu).divergence(d), abs=1e-12)


@pytest.mark.parametrize("rho", [0.5, 2.0, 8.0])
def test_with_the_identity_it_is_the_logarithm_of_kiefers_criterion(rho):
    M, _, _ = matrices(4, 1)
    size = np.linalg.eigvalsh(M)
    expected = np.log(np.mean(size ** (1 - rho))) / (rho - 1)
    assert FeatureCoverage.of(rho, np.eye(4)).divergence(M) == pytest.approx(expected, abs=1e-12)


def test_orders_1_2_and_inf_are_determinant_trace_and_smallest_eigenvalue():
    M, _, _ = matrices(4, 2)
    values = [FeatureCoverage.of(rho, np.eye(4)).divergence(M) for rho in (1.0, 2.0, np.inf)]
    inverse = np.linalg.inv(M)
    expected = [np.log(np.linalg.det(inverse)) / 4, np.log(np.trace(inverse) / 4)]
    assert values == pytest.approx([*expected, -np.log(np.linalg.eigvalsh(M)[0])], abs=1e-12)


@pytest.mark.parametrize("rank", [4, 2])
@pytest.mark.parametrize("rho", ORDERS)
def test_gradient_and_curvature_are_those_of_differences(rho, rank):
    """Central differences with 1e-5 are right to about 1e-8; a wrong term is wrong by a tenth or more."""
    M, N, H = matrices(4, 3, rank)
    coverage, step = FeatureCoverage.of(rho, N), 1e-5
    G = coverage.gradient(M)
    slope = (coverage.divergence(M + step * H) - coverage.divergence(M - step * H)) / (2 * step)
    bend = (coverage.gradient(M + step * H) - coverage.gradient(M - step * H)) / (2 * step)
    assert np.sum(G * H) == pytest.approx(-slope, rel=1e-6)
    assert curvature(coverage, M, H) == pytest.approx(-np.sum(bend * H), rel=1e-6)


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0, 8.0])
def test_the_gradient_for_the_identity_is_a_power_of_the_matrix(rho):
    M, _, _ = matrices(5, 4)
    size, V = np.linalg.eigh(M)
    expected = (V * size**-rho) @ V.T / np.sum(size ** (1 - rho))
    found = FeatureCoverage.of(rho, np.eye(5)).gradient(M)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("rho", ORDERS)
def test_nothing_is_lost_where_eigenvalues_tie(rho):
    """At a multiple of the identity all divided differences are derivatives; near it they must be close."""
    _, N, H = matrices(4, 5)
    coverage = FeatureCoverage.of(rho, N)
    tied = 2 * np.eye(4)
    for apart in (1e-13, 1e-9, 1e-5):
        M = tied + apart * np.diag([0.0, 1.0, -1.0, 2.0])
        assert coverage.gradient(M) == pytest.approx(coverage.gradient(tied), rel=1e-3, abs=1e-3)
        assert curvature(coverage, M, H) == pytest.approx(curvature(coverage, tied, H), rel=1e-2)


@pytest.mark.parametrize("rho", [0.5, 1.0, 3.0, 1000.0])
def test_scores_average_to_one(rho):
    M, N, _ = matrices(6, 6)
    assert np.sum(FeatureCoverage.of(rho, N).gradient(M) * M) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("rho", tiered([1.0, 0.5, 1.3, 2.0, 8.0], short=[1.0, 8.0]))
def test_the_bound_holds_for_every_pair_of_matrices(rho):
    """D(M') >= D(M) - log tr(G M'): what the certificate rests on, also where matrices do not commute."""
    for seed in range(200):
        M, N, _ = matrices(4, 100 + seed)
        other, _, _ = matrices(4, 500 + seed)
        coverage = FeatureCoverage.of(rho, N)
        bound = coverage.divergence(M) - np.log(np.sum(coverage.gradient(M) * other))
        assert coverage.divergence(other) >= bound - 1e-10


def test_any_weighting_bounds_the_worst_case():
    for seed in range(100):
        M, N, _ = matrices(4, 900 + seed)
        W, _, _ = matrices(4, 1300 + seed)
        found = FeatureCoverage.of(np.inf, N).divergence(M)
        assert found >= np.log(np.sum(W * N) / np.sum(W * M)) - 1e-10


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0, 2.0, 8.0, np.inf])
def test_it_is_convex_along_segments(rho):
    for seed in range(20):
        M, N, _ = matrices(4, 40 + seed)
        other, _, _ = matrices(4, 80 + seed)
        coverage = FeatureCoverage.of(rho, N)
        share = np.linspace(0, 1, 21)
        D = np.array([coverage.divergence((1 - a) * M + a * other) for a in share])
        assert (D[:-2] + D[2:] - 2 * D[1:-1] >= -1e-10).all()


def test_it_grows_with_the_order():
    for seed in range(20):
        M, N, _ = matrices(4, 60 + seed)
        D = [FeatureCoverage.of(rho, N).divergence(M) for rho in (*ORDERS, np.inf)]
        assert (np.diff(D) >= -1e-10).all()


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.0 + 1e-6, 2.0, 8.0, np.inf])
def test_the_rounding_allowance_covers_what_a_rotation_changes(rho):
    """In rotated coordinates the number is the same; computed ones differ by no more than both allowances."""
    M, N, H = matrices(5, 7)
    M = M + 1e6 * np.outer(H[0], H[0])
    Q = np.linalg.qr(H)[0]
    one, two = FeatureCoverage.of(rho, N), FeatureCoverage.of(rho, Q @ N @ Q.T)
    turned = Q @ M @ Q.T
    difference = abs(one.divergence(M) - two.divergence((turned + turned.T) / 2))
    assert difference <= 2 * one.rounding(M)
    assert one.rounding(M) < 1e-4


def test_a_singular_matrix_has_infinite_divergence():
    coverage = FeatureCoverage.of(2.0, np.eye(3))
    singular = np.diag([1.0, 1.0, 0.0])
    assert coverage.divergence(singular) == np.inf
    assert coverage.rounding(singular) == np.inf


def test_ratios_of_hyperbolic_sines_do_not_overflow():
    t = np.array([0.0, 1e-7, 1e-3, 1.0, 300.0, 1e4])
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.log(np.sinh(0.5 * t[2:5]) / (0.5 * np.sinh(t[2:5])))
    found = log_sinh_ratio(0.5, t)
    assert found[2:5] == pytest.approx(plain, rel=1e-9)
    assert np.isfinite(log_sinh_ratio(1000.0, t)).all()
    assert found[0] == 0
    assert log_sinh_ratio(0.0, np.array([1.0]))[0] == pytest.approx(np.log(1 / np.sinh(1.0)))
    assert (log_sinh_ratio(1.0, t) == 0).all()


def test_pairs_and_mixtures_of_them_have_the_same_matrices():
    rng = np.random.default_rng(8)
    phi, d, W, T = (
        rng.normal(size=(9, 3)),
        rng.dirichlet(np.ones(9)),
        matrices(3, 9)[0],
        rng.normal(size=(3, 3)),
    )
    rays, blends = Rays(phi), Blends(np.einsum("ni,nj->nij", phi, phi))
    assert rays.information(d) == pytest.approx(blends.information(d))
    assert rays.scores(W) == pytest.approx(blends.scores(W))
    assert rays.vectors(T) == pytest.approx(blends.vectors(T))
    assert np.sum(rays.information(d) * W) == pytest.approx(d @ rays.scores(W))


def test_blocks_do_not_change_sums(monkeypatch):
    rng = np.random.default_rng(10)
    phi, d = rng.normal(size=(50, 3)), rng.dirichlet(np.ones(50))
    whole, scores = information(phi, d), quadratic_forms(phi, np.eye(3))
    monkeypatch.setattr("rhocover.planning.information.BLOCK", 7)
    assert information(phi, d) == pytest.approx(whole, rel=1e-14)
    assert (quadratic_forms(phi, np.eye(3)) == scores).all()


def test_vectors_keep_inner_products():
    phi = np.random.default_rng(11).normal(size=(5, 4))
    assert svec_outer(phi) @ svec_outer(phi).T == pytest.approx((phi @ phi.T) ** 2)
