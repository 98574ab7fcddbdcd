"""The sparse solver without its compiler: in plain Python an index outside its array is an error.

Compiled loops do not look where they read. A slice that is one too short is the same memory to them, and an index
one too large is whatever stands there; so the whole way from the pattern to the solution is gone once more in
plain Python, on grids small enough for that, and must end at the solution of dense linear algebra.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher

from rhocover import Occupancies, envs
from rhocover.linalg import dissection, multifrontal, symbolic
from rhocover.linalg.multifrontal import SparseBackend, normal_pattern

MODULES = (dissection, multifrontal, multifrontal, multifrontal, symbolic)


@pytest.fixture
def plain(monkeypatch):
    """Takes the compiler out of the sparse solver."""
    for module in MODULES:
        for name, value in list(vars(module).items()):
            if isinstance(value, Dispatcher):
                monkeypatch.setattr(module, name, value.py_func)


@pytest.fixture(params=["as it is", "many supernodes"])
def size(request, monkeypatch):
    """Sets parts and supernodes to their sizes, or so small that a grid has many of them."""
    if request.param != "as it is":
        monkeypatch.setattr(dissection, "LEAF_SIZE", 4)
        monkeypatch.setattr(symbolic, "SUBTREE_COLUMNS", 3)
        monkeypatch.setattr(symbolic, "RELAXED_COLUMNS", 4)


def two_grids():
    """Returns K of two grids that nothing connects, one larger than a leaf."""
    parts = [Occupancies.average(envs.grid_world(num_rows=rows)).flow[:-1] for rows in (9, 3)]
    return sp.csr_array(sp.block_diag(parts))


@pytest.mark.usefixtures("plain", "size")
def test_every_index_of_the_sparse_solver_is_inside_its_array():
    K = two_grids()
    rng = np.random.default_rng(0)
    w, right = rng.random(K.shape[1]) + 0.1, rng.normal(size=K.shape[0])
    backend = SparseBackend.try_analyse(K, 1.0)
    assert backend is not None
    backend.factorise(w, 0.0)
    dense = (K * w).toarray() @ K.toarray().T
    # The condition number is 1e4: 1e-9 is a thousand roundings of it.
    np.testing.assert_allclose(backend.solve(right), np.linalg.solve(dense, right), rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("size")
def test_without_the_compiler_the_analysis_is_the_same(monkeypatch):
    pattern = normal_pattern(two_grids())
    compiled = multifrontal.best_analysis(pattern)
    for module in MODULES:
        for name, value in list(vars(module).items()):
            if isinstance(value, Dispatcher):
                monkeypatch.setattr(module, name, value.py_func)
    again = multifrontal.best_analysis(pattern)
    for name in ("order", "indptr", "indices", "first", "start", "rows", "parent"):
        np.testing.assert_array_equal(getattr(again, name), getattr(compiled, name))
    assert again.num_entries == compiled.num_entries


def test_a_tree_that_is_one_path_is_as_deep_as_it_has_vertices():
    path = np.array([1, 2, 3, 4, -1])
    np.testing.assert_array_equal(symbolic._postorder.py_func(path), np.arange(5))
    np.testing.assert_array_equal(symbolic._subtree_sizes.py_func(path), [1, 2, 3, 4, 5])
    roots = np.array([-1, -1, 1, 1])
    np.testing.assert_array_equal(symbolic._postorder.py_func(roots), [0, 2, 3, 1])
