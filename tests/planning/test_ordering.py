"""Each step of nested dissection does what its first line says, on graphs small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

from rhocover.linalg import dissection
from rhocover.linalg.dissection import nested_dissection


def random_graph(n: int, seed: int, degree: float = 2.0):
    """Returns a symmetric pattern with its diagonal."""
    rng = np.random.default_rng(seed)
    edges = sp.random_array((n, n), density=degree / n, rng=rng, format="csr")
    pattern = sp.csr_array(edges + edges.T + sp.eye_array(n))
    pattern.sort_indices()
    return pattern


def path_graph(n: int):
    return sp.csr_array(sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]))


def dissected(pattern, leaf_size):
    order = np.arange(pattern.shape[0])
    dissection._dissect(pattern.indptr, pattern.indices, order, leaf_size, order.size, True)
    return order


def levels(pattern, root, label, part):
    n = pattern.shape[0]
    level, queue = np.full(n, -1, np.int64), np.full(n, -7, np.int64)
    reached = dissection._levels(pattern.indptr, pattern.indices, root, label, part, level, queue)
    return reached, level, queue


@pytest.mark.parametrize("seed", range(5))
def test_levels_are_distances_inside_the_part(seed):
    pattern = random_graph(30, seed)
    label = np.random.default_rng(seed).integers(1, 3, 30)
    inside = np.flatnonzero(label == 2)
    root = int(inside[0])
    reached, level, queue = levels(pattern, root, label, 2)
    distance = shortest_path(pattern[inside][:, inside], unweighted=True, indices=[0])[0]
    expected = np.full(30, -1)
    expected[inside] = np.where(np.isfinite(distance), distance, -1)
    np.testing.assert_array_equal(level, expected)
    assert reached == np.isfinite(distance).sum()
    assert set(queue[:reached]) == set(np.flatnonzero(level >= 0))
    assert (np.diff(level[queue[:reached]]) >= 0).all()
    assert (queue[reached:] == -7).all()


@pytest.mark.parametrize("seed", range(40))
def test_the_best_cut_is_the_first_smallest_level_that_leaves_each_side_a_third(seed):
    sizes = np.random.default_rng(seed).integers(1, 6, 3 + seed % 6)
    total = int(sizes.sum())
    sides = [(sizes[:k].sum(), sizes[k + 1 :].sum()) for k in range(sizes.size)]
    fair = [k for k, pair in enumerate(sides) if 3 * min(pair) >= total - sizes[k]]
    expected = min(fair, key=lambda k: (sizes[k], k)) if fair else -1
    assert dissection._best_cut(sizes, total) == expected
    heaviest = np.array([1, total, 1])
    assert dissection._best_cut(heaviest, total + 2) == 1  # exactly a half on each side of what is left
    assert dissection._best_cut(np.array([9, 1, 1]), 11) == -1


@pytest.mark.parametrize("seed", range(20))
def test_the_median_level_is_where_half_is_reached(seed):
    sizes = np.random.default_rng(seed).integers(1, 6, 1 + seed % 6)
    expected = int(np.flatnonzero(2 * np.cumsum(sizes) >= sizes.sum())[0])
    assert dissection._median_level(sizes, int(sizes.sum())) == expected
    assert dissection._median_level(sizes, 10 * int(sizes.sum())) == sizes.size - 1


@pytest.mark.parametrize(("least", "bounds"), [(0, [(1, 4), (4, 5), (5, 7)]), (3, [(1, 4), (4, 7)])])
def test_components_stand_in_order_of_their_lowest_vertices(least, bounds):
    """Edges 0-4, 4-5 and 2-3 among the vertices 0 to 5; those left over at the end are not told apart."""
    graph = np.eye(8)
    graph[[0, 4, 2, 1], [4, 5, 3, 6]] = 1
    pattern = sp.csr_array(graph + graph.T)
    label, level = np.array([1, 1, 1, 1, 1, 1, 2, 2]), np.full(8, 5, np.int64)
    order = np.array([7, 0, 1, 2, 3, 4, 5, 6])
    found = dissection._components(
        pattern.indptr, pattern.indices, order, 1, 7, label, 1, level, np.zeros(8, np.int64), least
    )
    assert [pair for pair in found if pair[0] < pair[1]] == bounds
    np.testing.assert_array_equal(order, [7, 0, 4, 5, 1, 2, 3, 6])


def test_a_whole_level_is_the_separator_without_trimming():
    path, order = path_graph(5), np.arange(5)
    level, label = np.array([0, 1, 2, 2, 2]), np.ones(5, np.int64)
    bounds = dissection._three_way(
        order, 0, 5, level, 2, path.indptr, path.indices, label, 1, np.zeros(5, np.int64), False
    )
    assert bounds == (2, 2)
    np.testing.assert_array_equal(order, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("seed", [0, 1, 6, 7, 8, 9, 11, 12, 13, 17, 18, 19, 20, 23, 24, 27, 29, 31, 33, 34])
def test_the_separator_is_the_cut_level_without_those_that_touch_nothing_above(seed):
    pattern = random_graph(24, seed, degree=1.5)
    label = np.ones(24, np.int64)
    label[[3, 17]] = 5  # of another part: does not count as a neighbour
    reached, level, _ = levels(pattern, 0, label, 1)
    segment = np.flatnonzero(level >= 0)[::-1]
    assert level.max() > 2  # and some of level 2 touch something above, and some do not
    order = np.concatenate([[3], segment, [17]])
    cut, dense = 2, pattern.toarray() != 0
    touches = [bool((dense[v] & (label == 1) & (level > cut)).any()) for v in segment]
    on_cut = level[segment] == cut
    below = segment[(level[segment] < cut) | (on_cut & ~np.array(touches))]
    above = segment[level[segment] > cut]
    separator = segment[on_cut & np.array(touches)]
    first, second = dissection._three_way(
        order,
        1,
        1 + reached,
        level,
        cut,
        pattern.indptr,
        pattern.indices,
        label,
        1,
        np.zeros(24, np.int64),
        True,
    )
    np.testing.assert_array_equal(order, [3, *below, *above, *separator, 17])
    assert (first, second) == (1 + below.size, 1 + below.size + above.size)
    assert not dense[np.ix_(below, above)].any()


def dissected_path(path: list[int], leaf_size: int) -> list[int]:
    """Returns the order of a path, seen from its first vertex: the first fair cut goes last, then its sides."""
    n = len(path)
    if n <= leaf_size or n < 3:
        return path
    cut = next(k for k in range(n) if 3 * min(k, n - 1 - k) >= n - 1)
    return [*dissected_path(path[:cut], leaf_size), *dissected_path(path[cut + 1 :], leaf_size), path[cut]]


@pytest.mark.parametrize("leaf_size", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 10, 20, 33])
def test_a_path_is_cut_where_each_side_has_a_third(n, leaf_size):
    path = path_graph(n)
    assert dissected(path, leaf_size).tolist() == dissected_path([*range(n)], leaf_size)


def test_a_path_that_begins_in_its_middle_is_seen_from_an_end():
    names = np.array([3, 1, 4, 0, 2, 5, 6])  # the path 3-1-4-0-2-5-6: vertex 0 stands inside
    path = sp.csr_array(path_graph(7).tocoo())
    place = np.argsort(names)
    path = sp.csr_array(path[place][:, place])
    # The farthest from 0 is vertex 3 or 6; from there, and back, levels count from one of the two ends.
    found = dissected(path, 5).tolist()
    assert found[-1] in (names[2], names[4])
    halves = [{3, 1}, {0, 2, 5, 6}] if found[-1] == names[2] else [{6, 5}, {0, 4, 1, 3}]
    assert {frozenset(found[:2]), frozenset(found[2:6])} == {frozenset(half) for half in halves} or {
        frozenset(found[:4]), frozenset(found[4:6])
    } == {frozenset(half) for half in halves}  # fmt: skip


def test_unconnected_parts_are_taken_apart_before_they_are_cut():
    graph = sp.csr_array(sp.block_diag([path_graph(7), path_graph(4)]))
    expected = [*dissected_path([*range(7)], 2), *dissected_path([*range(7, 11)], 2)]
    assert dissected(graph, 2).tolist() == expected


def test_a_complete_graph_has_no_separator_and_keeps_its_order():
    full = sp.csr_array(np.ones((9, 9)))
    assert dissected(full, 2).tolist() == [*range(9)]


def test_a_graph_without_a_fair_cut_is_cut_at_its_median_level():
    # A path 0-1-2 that ends in ten leaves: levels of 1, 1, 1 and 10 vertices, seen from 0 or from a leaf.
    star = np.zeros((13, 13))
    star[0, 1] = star[1, 2] = 1
    star[2, 3:] = 1
    star = sp.csr_array(star + star.T + np.eye(13))
    order = dissected(star, 4).tolist()
    assert order[-1] == 2  # its removal leaves the leaves alone
    assert sorted(order) == [*range(13)]


def test_parts_of_up_to_sixty_four_vertices_are_leaves():
    small, large = path_graph(64), path_graph(65)
    assert nested_dissection(small).tolist() == [*range(64)]
    assert nested_dissection(large).tolist() == dissected_path([*range(65)], 64) != [*range(65)]


def test_the_diagonal_is_no_edge():
    graph = dissection._without_diagonal(random_graph(12, 0))
    assert not graph.diagonal().any()
    expected = random_graph(12, 0).toarray() != 0
    np.fill_diagonal(expected, False)
    np.testing.assert_array_equal(graph.toarray(), expected)
