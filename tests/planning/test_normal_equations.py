"""What surrounds the factorisation: back ends, additions to the diagonal, refinement, memory, clocks."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from rhocover import Coverage, Occupancies, envs
from rhocover.errors import SolverError
from rhocover.linalg import multifrontal
from rhocover.linalg import normal_equations as module
from rhocover.linalg.dissection import nested_dissection
from rhocover.linalg.multifrontal import (
    NormalMatrix,
    SparseBackend,
    Workspace,
    _block_offsets,
    _children,
    best_analysis,
    normal_pattern,
)
from rhocover.linalg.normal_equations import DenseBackend, NormalEquations, NotPositiveDefiniteError, Solution
from rhocover.linalg.symbolic import analyse, inverse
from rhocover.planning.program import SMALL, make_program
from small_models import random_model


def matrix_of(rows: int = 8, columns: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


# --- additions and back ends ----------------------------------------------------------------------------


class Scripted:
    """A back end that fails as often as it is told, and notes what it was asked."""

    def __init__(self, failures: int) -> None:
        self.failures, self.extras = failures, []

    def factorise(self, w, extra):
        self.extras.append(extra)
        if len(self.extras) <= self.failures:
            raise NotPositiveDefiniteError("no")


@pytest.mark.parametrize("failures", [0, 1, 3, 4])
def test_a_pivot_that_fails_is_met_with_a_hundred_times_the_addition_three_times(failures):
    equations = NormalEquations(matrix_of())
    equations._backend = backend = Scripted(failures)
    if failures == 4:
        with pytest.raises(SolverError, match="singular to working precision"):
            equations.factorise(np.ones(30))
    else:
        equations.factorise(np.ones(30))
    assert backend.extras == [1e-14, 1e-12, 1e-10, 1e-8][: failures + 1]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["array", "sparse"])
def test_the_dense_back_end_solves_with_the_scaled_matrix_and_its_addition(make):
    K, w = matrix_of(), np.random.default_rng(1).random(30) + 0.1
    M = (K * w) @ K.T
    scale = 1 / np.sqrt(np.diag(M))
    for extra in (0.0, 0.5):
        backend = DenseBackend(make(K))
        backend.factorise(w, extra)
        right = np.arange(8.0)
        added = scale[:, None] * M * scale + extra * np.eye(8)
        expected = scale * np.linalg.solve(added, scale * right)
        np.testing.assert_allclose(backend.solve(right), expected, rtol=1e-10)
    backend.factorise(2 * w, 0.0)  # the matrix itself was not scaled in place
    np.testing.assert_allclose(backend.solve(right), np.linalg.solve(2 * M, right), rtol=1e-9)


def test_the_sparse_back_end_adds_to_the_unit_diagonal_too():
    K = Occupancies.average(envs.grid_world(num_rows=6)).flow[:-1]
    w = np.random.default_rng(1).random(K.shape[1]) + 0.1
    pattern = normal_pattern(K)
    sparse = SparseBackend(K, analyse(pattern, nested_dissection(pattern)))
    dense = DenseBackend(K)
    right = np.random.default_rng(2).normal(size=K.shape[0])
    for extra in (1e-14, 0.5):
        for backend in (sparse, dense):
            backend.factorise(w, extra)
        np.testing.assert_allclose(sparse.solve(right), dense.solve(right), rtol=1e-8)


@pytest.mark.thorough
def test_back_ends_are_chosen_by_rows_and_by_fill():
    small = sp.eye_array(200, 300, format="csr")
    large = sp.eye_array(201, 300, format="csr")
    assert isinstance(module.choose_backend(small), DenseBackend)
    assert isinstance(module.choose_backend(large), SparseBackend)
    crowded = sp.csr_array(np.ones((201, 2)))
    assert isinstance(module.choose_backend(crowded), DenseBackend)


@pytest.mark.thorough
def test_a_factor_that_fills_more_than_its_share_of_the_triangle_is_not_taken(monkeypatch):
    K = sp.csr_array(sp.diags_array([np.ones(60), np.ones(59)], offsets=[0, 1], shape=(60, 60)))  # a band
    pattern = normal_pattern(K)
    symbolic = best_analysis(pattern)
    triangle = 0.5 * 60**2
    share = symbolic.num_entries / triangle
    assert pattern.nnz < symbolic.num_entries
    assert SparseBackend.try_analyse(K, share * 1.001) is not None
    assert SparseBackend.try_analyse(K, share * 0.999) is None
    assert SparseBackend.try_analyse(K, share) is not None
    monkeypatch.setattr(
        multifrontal, "best_analysis", lambda pattern: pytest.fail("the pattern alone is too full")
    )
    assert SparseBackend.try_analyse(K, 0.999 * pattern.nnz / triangle) is None


@pytest.mark.parametrize(("rows", "is_sparse"), [(19_999, False), (20_001, True)])
def test_a_triangle_of_more_than_two_hundred_million_entries_is_never_dense(rows, is_sparse):
    band = sp.csr_array(
        sp.diags_array([np.ones(rows), np.ones(rows - 1)], offsets=[0, 1], shape=(rows, rows))
    )
    pattern = normal_pattern(band)
    between = (pattern.nnz + best_analysis(pattern).num_entries) / 2
    assert (SparseBackend.try_analyse(band, between / (0.5 * rows**2)) is not None) == is_sparse


def test_metis_is_asked_only_where_it_pays_and_taken_only_where_it_saves(monkeypatch):
    pattern = normal_pattern(Occupancies.average(envs.grid_world(num_rows=9)).flow)
    own = analyse(pattern, nested_dissection(pattern))
    natural = analyse(pattern, np.arange(pattern.shape[0]))
    assert own.num_operations < natural.num_operations
    asked = []
    monkeypatch.setattr(multifrontal, "metis_order", lambda p: asked.append(p) or np.arange(pattern.shape[0]))
    monkeypatch.setattr(multifrontal, "has_metis", lambda: True)
    best_analysis(pattern)
    assert not asked  # few operations
    monkeypatch.setattr(multifrontal, "METIS_PAYS", 0.0)
    best_analysis(pattern)
    assert not asked  # planar
    limit = own.num_operations / pattern.shape[0] ** 1.5
    monkeypatch.setattr(multifrontal, "PLANAR", 1.01 * limit)
    best_analysis(pattern)
    assert not asked
    monkeypatch.setattr(multifrontal, "PLANAR", 0.99 * limit)
    assert best_analysis(pattern).num_operations == own.num_operations
    assert len(asked) == 1
    monkeypatch.setattr(multifrontal, "nested_dissection", lambda p: np.arange(pattern.shape[0]))
    monkeypatch.setattr(multifrontal, "metis_order", nested_dissection)
    assert best_analysis(pattern).num_operations == own.num_operations
    monkeypatch.setattr(multifrontal, "has_metis", lambda: False)
    assert best_analysis(pattern).num_operations == natural.num_operations


def test_operations_and_entries_are_counted_block_by_block():
    # A dense matrix of 5 rows is one supernode: n^3/3 operations, n(n+1)/2 entries.
    dense = analyse(sp.csr_array(np.ones((5, 5))), np.arange(5))
    assert dense.first.size == 2
    assert dense.num_entries == 15
    assert dense.num_operations == pytest.approx(125 / 3)
    grid = normal_pattern(Occupancies.average(envs.grid_world(num_rows=12)).flow)
    found = analyse(grid, nested_dissection(grid))
    assert found.first.size > 2
    width, height = np.diff(found.first), np.diff(found.start)
    assert found.num_entries == sum(w * (w + 1) // 2 + w * h for w, h in zip(width, height, strict=True))
    steps = [w**3 / 3 + w * w * h + w * h * h for w, h in zip(width.tolist(), height.tolist(), strict=True)]
    assert found.num_operations == pytest.approx(sum(steps), rel=1e-14)


# --- refinement -----------------------------------------------------------------------------------------


class Rough:
    """Solves with a matrix that is a little off, as a factor with an addition does."""

    def __init__(self, M: np.ndarray, off: float) -> None:
        self._M, self.solves = M + off * np.eye(M.shape[0]), 0

    def solve(self, right):
        self.solves += 1
        return np.linalg.solve(self._M, right)


def refined(off: float, scale: float = 1.0):
    K, w = matrix_of(), np.random.default_rng(1).random(30) + 0.1
    M = (K * w) @ K.T
    equations = NormalEquations(K)
    equations._w, equations._backend = w, Rough(M, off)
    right = scale * np.arange(1.0, 9.0)
    return equations, M, K, right


@pytest.mark.parametrize("off", [1e-3, 1.0])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_refinement_repairs_what_the_factor_got_wrong(off, scale):
    equations, M, K, right = refined(off, scale)
    rough = equations.solve(right, refine=False)
    assert np.abs(M @ rough.x - right).max() > 1e-5 * scale
    np.testing.assert_allclose(rough.lift, K.T @ rough.x, rtol=1e-15)
    exact = equations.solve(right)
    assert np.abs(M @ exact.x - right).max() <= 1.01e-12 * np.abs(right).max() + 1e-13 * scale
    np.testing.assert_allclose(exact.lift, K.T @ exact.x, rtol=1e-9)


def test_conjugate_gradients_end_after_as_many_solves_as_there_are_directions():
    # One rank is wrong: two directions are enough, where plain refinement would take dozens.
    equations, M, _, right = refined(0.0)
    u = np.ones(8)
    equations._backend._M = M + 5 * np.outer(u, u)
    solution = equations.solve(right)
    assert equations._backend.solves <= 4
    assert np.abs(M @ solution.x - right).max() < 1e-11


def test_an_exact_solution_is_left_alone():
    equations, _, _, right = refined(0.0)
    equations.solve(right)
    assert equations._backend.solves == 1
    nothing = equations.solve(0 * right)
    assert not nothing.x.any()


def test_refinement_stops_where_a_direction_has_no_curvature():
    equations, _, _, right = refined(0.5)
    best = Solution(np.zeros(8), np.zeros(30))
    equations._backend.solve = lambda residual: -residual  # an indefinite preconditioner
    assert equations._refined(right, best) is best


def test_refinement_takes_at_most_twelve_solves():
    equations, _, _, right = refined(300.0)
    equations.solve(right * 0 + 1)
    assert equations._backend.solves <= 13
    hopeless, M, _, right = refined(0.0)
    hopeless._backend._M = M + np.diag(10.0 ** np.arange(8))
    hopeless._K = hopeless._K + 0  # the same matrix
    hopeless.solve(right)
    assert hopeless._backend.solves <= 13


# --- clocks ---------------------------------------------------------------------------------------------


def test_seconds_add_up_stage_by_stage(monkeypatch):
    ticks = itertools.count(1.0, 1.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(ticks))
    equations = NormalEquations(matrix_of())
    assert equations.seconds == {"analyse": 1.0, "factorise": 0.0, "solve": 0.0}
    for count in (1, 2):
        equations.factorise(np.ones(30))
        equations.solve(np.ones(8))
        assert equations.seconds == {"analyse": 1.0, "factorise": count, "solve": count}
    assert equations.name == "DenseBackend"


# --- small parts ----------------------------------------------------------------------------------------


def test_memory_is_handed_out_empty_and_used_again():
    workspace = Workspace()
    entries = workspace.entries(5)
    entries += 1
    assert workspace.entries(5) is entries
    assert not entries.any()
    assert workspace.entries(6) is not entries
    square = workspace.square(3)
    assert square.shape == (3, 3)
    assert square.flags.f_contiguous
    square += 7
    other = workspace.square(3)
    assert not np.shares_memory(square, other)
    workspace.release(square)
    again = workspace.square(3)
    assert np.shares_memory(square, again)
    assert not again.any()
    workspace.release(again)
    assert np.shares_memory(workspace.square(2 + 1), again)
    assert workspace.square(0).shape == (0, 0)


def test_blocks_follow_one_another_and_children_know_their_parents():
    grid = normal_pattern(Occupancies.average(envs.grid_world(num_rows=12)).flow)
    shape = analyse(grid, nested_dissection(grid))
    width, height = np.diff(shape.first), np.diff(shape.start)
    np.testing.assert_array_equal(_block_offsets(shape), [0, *np.cumsum(width * (width + height))])
    children = _children(shape.parent)
    assert [k for k, p in enumerate(shape.parent) if p >= 0] == sorted(itertools.chain(*children))
    assert all(shape.parent[k] == p for p, below in enumerate(children) for k in below)


def test_the_normal_matrix_is_filled_again_for_every_weight():
    K = sp.csr_array(matrix_of(6, 20) * (np.random.default_rng(5).random((6, 20)) < 0.4))
    pattern = normal_pattern(K)
    assert pattern.dtype == np.float32
    np.testing.assert_array_equal(pattern.toarray() > 0, (abs(K) @ abs(K).T).toarray() > 0)
    symbolic = analyse(pattern, np.random.default_rng(6).permutation(6))
    matrix = NormalMatrix(K, symbolic)
    assert matrix._places.dtype == np.int32
    for seed in range(2):
        w = np.random.default_rng(seed).random(20)
        lower = sp.csc_array((matrix.fill(w), symbolic.indices, symbolic.indptr), shape=(6, 6)).toarray()
        dense = ((K * w) @ K.T).toarray()[np.ix_(symbolic.order, symbolic.order)]
        np.testing.assert_allclose(lower, np.tril(dense), atol=1e-13)
    np.testing.assert_array_equal(inverse(symbolic.order)[symbolic.order], np.arange(6))


@pytest.mark.parametrize(("size", "dtype"), [(2**30, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)])
def test_places_have_thirty_two_bits_while_those_can_number_them(size, dtype, monkeypatch):
    monkeypatch.setattr(multifrontal, "_find_places", lambda *given: None)
    K = sp.csr_array(matrix_of(4, 6))
    shape = SimpleNamespace(indices=SimpleNamespace(size=size), indptr=None, order=np.arange(4))
    matrix = NormalMatrix(K, shape)  # type: ignore[arg-type]
    assert matrix._places.dtype == dtype
    assert matrix._places.size == 6 * (4 * 5 // 2)  # the lower triangle of each column's outer product


@pytest.mark.parametrize("options", [{}, {"discount": 0.9}, {"horizon": 3}], ids=str)
def test_a_program_is_the_set_in_the_solvers_form(options):
    members = Occupancies.of(random_model(2), **options)
    program = make_program(members, Coverage(2.0, np.arange(members.num_pairs) + 1.0))
    flow = members.flow.toarray()
    expected = flow[:-1] if not options else flow
    np.testing.assert_array_equal(program.K, expected)
    np.testing.assert_array_equal(program.KT, expected.T)
    np.testing.assert_array_equal(program.k0, members.inflow[: expected.shape[0]])
    assert program.has_mass_row == (not options)
    np.testing.assert_allclose(program.moving, np.abs(expected).sum(axis=0), rtol=1e-14)
    levels = 1 if options else 2  # the whole and its states; under a discount or a horizon the states
    assert program.terms == 2 * (flow != 0).sum(axis=0).max() + levels
    assert not program.has_floor
    assert program.num_pairs == members.num_pairs
    d = np.random.default_rng(0).random(members.num_pairs)
    missed = np.abs(expected @ d - program.k0 * d.sum()).sum()
    assert program.missed(d) == pytest.approx(missed / min(d.sum(), program.moving @ d), rel=1e-13)
    assert program.missed(1e-3 * d) == pytest.approx(program.missed(d), rel=1e-12)
    assert program.missed(0 * d) == 0


def test_small_matrices_are_arrays_and_large_ones_stay_sparse():
    members = Occupancies.average(envs.grid_world(num_rows=8))  # 63 x 256 entries
    assert 63 * members.num_pairs <= SMALL
    assert isinstance(make_program(members, Coverage(2.0, np.ones(members.num_pairs))).K, np.ndarray)
    members = Occupancies.average(envs.grid_world(num_rows=9))
    assert 80 * members.num_pairs > SMALL
    assert sp.issparse(make_program(members, Coverage(2.0, np.ones(members.num_pairs))).K)
