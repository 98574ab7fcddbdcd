"""The smallest divergence over an occupancy set, to 25 digits and more, with a proof that needs no solver.

Everything is computed from the very floats that the library works on, read as exact numbers. Whatever
path led to it, an answer counts only if it is sandwiched: a member of the set (to the working precision)
above, and a dual bound in the same arithmetic below, not more than 1e-25 apart.

Finite rho: Newton's method on the objective itself, primal-dual where a bound may bind (floors, pairs of
zero weight). rho = inf: the simplex method on fractions, which has no rounding at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np

from rhocover import Coverage, Occupancies

AGREEMENT = mp.mpf(10) ** -25  # of upper and lower bound


@dataclass(frozen=True)
class Equations:
    """{d: B d = b, d >= floor} in exact numbers: for each pair the rows it is in, and their values."""

    columns: list[list[tuple[int, object]]]
    right: list
    floor: object


def exact_equations(members: Occupancies, number=mp.mpf) -> Equations:
    """Returns the equations of the set: one redundant flow row dropped, the mass row kept.

    The moves to other states are as given; what a pair takes out of its own state is their exact sum. A
    float of that sum would make the rows add up to 1e-17 instead of 0, a wrong exchange between parts that
    exchange little.
    """
    matrix, right = members.equations()
    columns = matrix.tocsc()
    entries = [
        {int(columns.indices[p]): number(float(columns.data[p])) for p in range(low, high)}
        for low, high in zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
    ]
    if members.criterion != "horizon":
        _set_exact_moves(members, entries, number)
    if members.criterion == "average":
        last = members.mdp.num_states - 1
        entries = [{row - (row > last): v for row, v in column.items() if row != last} for column in entries]
        right = np.delete(right, last)
    return Equations(
        [list(column.items()) for column in entries], [number(float(b)) for b in right], number(members.floor)
    )


def _set_exact_moves(members: Occupancies, entries: list[dict], number) -> None:
    mdp, one = members.mdp, number(1)
    discount = one if members.discount is None else number(float(members.discount))
    P = mdp.transitions
    for i, column in enumerate(entries):
        state = int(mdp.pair_state[i])
        moves = {
            int(P.indices[p]): discount * number(float(P.data[p]))
            for p in range(P.indptr[i], P.indptr[i + 1])
            if P.indices[p] != state
        }
        column.update({target: -share for target, share in moves.items()})
        column[state] = one - discount + sum(moves.values(), number(0))


def exact_weights(coverage: Coverage, number=mp.mpf) -> list:
    """Returns the weights divided by their sum."""
    mu = [number(float(m)) for m in coverage.mu]
    total = sum(mu, number(0))
    return [m / total for m in mu]


def exact_divergence(rho: float, mu_bar: list, d: list):
    """Returns D_rho(mubar || d) from its definition; KL(d || mubar) at rho = 0."""
    if rho == 0:
        return mp.fsum(y * mp.log(y / m) for m, y in zip(mu_bar, d, strict=True) if y > 0)
    weighted = [(m, y) for m, y in zip(mu_bar, d, strict=True) if m > 0]
    if rho == 1:
        return mp.fsum(m * mp.log(m / y) for m, y in weighted)
    if rho == mp.inf:
        return max(mp.log(m / y) for m, y in weighted)
    order = mp.mpf(rho)
    return mp.log(mp.fsum(m**order * y ** (1 - order) for m, y in weighted)) / (order - 1)


def exact_dual_bound(rho: float, mu_bar: list, y: list, total):
    """Returns the bound of every d with <y, d> <= total: Hölder's inequality; at rho = 0 Fenchel's."""
    if rho == 0:
        return -total - mp.fsum(m * mp.exp(-v - 1) for m, v in zip(mu_bar, y, strict=True))
    weighted = [(m, v) for m, v in zip(mu_bar, y, strict=True) if m > 0]
    if rho == 1:
        return mp.fsum(m * mp.log(v) for m, v in weighted) - mp.log(total)
    power = (mp.mpf(rho) - 1) / mp.mpf(rho)
    return mp.log(mp.fsum(m * v**power for m, v in weighted)) / power - mp.log(total)


@dataclass(frozen=True)
class Optimum:
    """The smallest divergence, right to 25 digits, and what proves it: multipliers, each rounded once.

    `rows` are those of the equations, `floor` those of the floor; at rho = inf there are none.
    """

    divergence: object
    rows: np.ndarray | None = None
    floor: np.ndarray | None = None


def exact_optimum(members: Occupancies, coverage: Coverage) -> Optimum:
    """Returns the smallest D_rho over the set with its proof."""
    if coverage.rho == np.inf:
        return Optimum(_minimax(members, coverage))
    with mp.workdps(60 + 5 * int(coverage.rho)):  # (mu/d)^rho spreads over as many digits
        return _Newton(members, coverage).solve()


def exact_occupancy(members: Occupancies, policy: np.ndarray) -> list:
    """Returns the occupancy of a policy (a table) as exactly as the working precision allows.

    It satisfies the same equations as the reference: one unknown for each state, one row dropped.
    """
    equations = exact_equations(members)
    choice = [mp.mpf(float(p)) for p in members.flatten(policy, "policy")]
    node = members.node.tolist()
    total = [mp.mpf(0)] * (max(node) + 1)
    for i, s in enumerate(node):
        total[s] += choice[i]
    choice = [p / total[s] for p, s in zip(choice, node, strict=True)]
    matrix = mp.zeros(len(equations.right), len(total))
    for i, column in enumerate(equations.columns):
        for row, value in column:
            matrix[row, node[i]] += value * choice[i]
    mass = mp.lu_solve(matrix, mp.matrix(equations.right))
    return [mass[s] * p for s, p in zip(node, choice, strict=True)]


# Finite rho.


class _Newton:
    """min f(d) over {B d = b, d >= floor}, f = sum mubar^rho d^(1-rho) / (rho-1) up to a factor.

    Primal and dual at once: grad f(d) + B'v = z, (d - floor) z = tau where a bound may bind (a floor, a
    pair of zero weight), tau -> 0. Elsewhere the objective itself keeps d positive and z is absent.
    """

    def __init__(self, members: Occupancies, coverage: Coverage) -> None:
        self.order = mp.mpf(coverage.rho)
        self.mu_bar = exact_weights(coverage)
        self.equations = exact_equations(members)
        self.barred = [i for i, m in enumerate(self.mu_bar) if members.floor > 0 or m == 0]
        self.d = self._onto([mp.mpf(float(x)) for x in members.max_floor()[1]])

    def solve(self) -> Optimum:
        """Returns the minimum: first rho grows from 1 to its value, then tau falls."""
        for stage in self._stages():
            self.rho = stage
            self.factor = 1 / self._size()
            tau = mp.mpf(1) / 100
            self.z = {i: tau / self._room(i) for i in self.barred}
            for _ in range(100):
                _, length = self._step(tau)
                if length == 1:
                    break
        return self._finish(tau)

    def _finish(self, tau) -> Optimum:
        for _ in range(300):
            multipliers, length = self._step(tau)
            upper, lower = self._bounds(multipliers)
            if upper - lower < AGREEMENT:
                assert lower <= upper + AGREEMENT
                floor = np.array([float(self.z.get(i, 0)) for i in range(len(self.d))])
                return Optimum((upper + lower) / 2, np.array([float(v) for v in multipliers]), floor)
            if self.barred and length > 0.5:
                mean = mp.fsum(self._room(i) * z for i, z in self.z.items()) / len(self.barred)
                tau = min(tau, mean) * min(mp.mpf(1) / 10, mp.sqrt(mean))
        raise AssertionError("the reference itself did not converge")

    def _stages(self) -> list:
        """Returns the orders to go through: Newton's method is at home within a factor of 1.5."""
        orders = [mp.mpf(1)]
        while orders[-1] * 1.5 < self.order:
            orders.append(orders[-1] * mp.mpf(1.5))
        return [*orders, self.order] if self.order > 1 else [self.order]

    def _step(self, tau) -> tuple[list, object]:
        """Takes one damped Newton step; returns the multipliers of B and the share taken."""
        slope = [self._slope(i) for i in range(len(self.d))]
        bend = [self._bend(i, g) for i, g in enumerate(slope)]
        for i in self.barred:
            slope[i] -= tau / self._room(i)
            bend[i] += self.z[i] / self._room(i)
        multipliers = self._schur(bend, slope)
        step = [-(g + v) / h for g, v, h in zip(slope, self._lift(multipliers), bend, strict=True)]
        rise = {i: (tau - z * step[i]) / self._room(i) - z for i, z in self.z.items()}
        # No factor (mu/d)^rho changes by much more than e^(1/2) in a step, and bounds are kept.
        relative = [abs(s) / y for s, y, m in zip(step, self.d, self.mu_bar, strict=True) if m > 0]
        fastest = 2 * (1 + self.rho) * max(relative)
        towards = [-step[i] / self._room(i) for i in self.barred] + [
            -rise[i] / self.z[i] for i in self.barred
        ]
        length = 1 / max(mp.mpf(1), fastest, *(t * mp.mpf(1.01) for t in towards))
        self.d = [y + length * s for y, s in zip(self.d, step, strict=True)]
        self.z = {i: z + length * rise[i] for i, z in self.z.items()}
        return multipliers, length

    def _room(self, i: int):
        return self.d[i] - self.equations.floor

    def _size(self):
        """Returns sum mubar^rho d^(1-rho), which is 1 at rho = 0 and 1."""
        pairs = zip(self.mu_bar, self.d, strict=True)
        return mp.fsum(m**self.rho * y ** (1 - self.rho) for m, y in pairs if m > 0)

    def _slope(self, i: int):
        """Returns df/dd_i."""
        m, y = self.mu_bar[i], self.d[i]
        if self.rho == 0:
            return mp.log(y / m) + 1
        return -self.factor * (m / y) ** self.rho if m > 0 else mp.mpf(0)

    def _bend(self, i: int, slope):
        """Returns the second derivative, from the first."""
        return 1 / self.d[i] if self.rho == 0 else -self.rho * slope / self.d[i]

    def _bounds(self, multipliers: list) -> tuple:
        """Returns (upper, lower) bound: d itself, and the multipliers with z taking up what is left."""
        lift = self._lift(multipliers)
        y = [min(v, -self._slope(i)) if i in self.z else v for i, v in enumerate(lift)]
        total = mp.fsum(b * v for b, v in zip(self.equations.right, multipliers, strict=True))
        total -= self.equations.floor * mp.fsum(v - w for v, w in zip(lift, y, strict=True))
        if self.rho > 0 and (min(y) < 0 or total <= 0):
            return mp.inf, -mp.inf
        rho = float(self.rho)
        return exact_divergence(rho, self.mu_bar, self.d), exact_dual_bound(rho, self.mu_bar, y, total)

    def _schur(self, bend: list, slope: list) -> list:
        """Returns the multipliers of a Newton step onto B d = b."""
        right = self._missed(self.d)
        for i, column in enumerate(self.equations.columns):
            for r, v in column:
                right[r] -= v * slope[i] / bend[i]
        return self._solve_normal([1 / h for h in bend], right)

    def _solve_normal(self, weights: list, right: list) -> list:
        """Returns v with B diag(weights) B'v = right."""
        matrix = mp.zeros(len(right), len(right))
        for w, column in zip(weights, self.equations.columns, strict=True):
            for r, v in column:
                for q, u in column:
                    matrix[r, q] += v * u * w
        return list(mp.lu_solve(matrix, mp.matrix(right)))

    def _lift(self, multipliers: list) -> list:
        return [mp.fsum(v * multipliers[r] for r, v in column) for column in self.equations.columns]

    def _missed(self, d: list) -> list:
        """Returns B d - b."""
        missed = [-b for b in self.equations.right]
        for y, column in zip(d, self.equations.columns, strict=True):
            for r, v in column:
                missed[r] += v * y
        return missed

    def _onto(self, d: list) -> list:
        """Returns d moved onto B d = b, in proportion to d itself."""
        lift = self._lift(self._solve_normal(d, self._missed(d)))
        return [y - y * v for y, v in zip(d, lift, strict=True)]


# rho = inf.


def _minimax(members: Occupancies, coverage: Coverage):
    """Returns log 1/t, t = max min d/mubar: columns s = d - floor >= 0, t, and slacks of d >= t mubar.

    Without a floor the slacks are d - t mubar themselves, and no further rows are needed.
    """
    equations, mu_bar = exact_equations(members, Fraction), exact_weights(coverage, Fraction)
    n, rows = len(mu_bar), len(equations.right)
    spread = [[Fraction(0)] * n for _ in range(rows)]
    for i, column in enumerate(equations.columns):
        for r, v in column:
            spread[r][i] += v
    dot = [sum((v * m for v, m in zip(row, mu_bar, strict=True)), Fraction(0)) for row in spread]
    if equations.floor == 0:
        table = [[*row, t] for row, t in zip(spread, dot, strict=True)]
        right = list(equations.right)
    else:  # d = floor + s; row n+i: s_i + floor - t mubar_i = u_i
        zeros = [Fraction(0)] * n
        table = [[*row, Fraction(0), *zeros] for row in spread]
        right = [
            b - equations.floor * sum(row, Fraction(0))
            for b, row in zip(equations.right, spread, strict=True)
        ]
        for i in range(n):
            own = [Fraction(int(i == k)) for k in range(n)]
            table.append([*own, -mu_bar[i], *(-v for v in own)])
            right.append(-equations.floor)
    t = simplex(table, right, n)
    with mp.workdps(60):
        return mp.log(t.denominator) - mp.log(t.numerator)


def simplex(table: list[list[Fraction]], right: list[Fraction], goal: int) -> Fraction:
    """Returns max x[goal] over {table x = right, x >= 0}, exactly; two phases, Bland's rule."""
    rows, columns = len(table), len(table[0])
    body = []
    for r in range(rows):
        sign = -1 if right[r] < 0 else 1
        own = [Fraction(int(r == k)) for k in range(rows)]
        body.append([sign * v for v in table[r]] + own + [sign * right[r]])
    basis = [columns + r for r in range(rows)]
    artificial = [Fraction(0)] * columns + [Fraction(-1)] * rows
    assert _climb(body, basis, artificial, columns + rows) == 0, "the set is empty"
    for r in range(rows):  # artificial variables that are still basic, at zero
        if basis[r] >= columns:
            inside = [j for j in range(columns) if body[r][j] != 0]
            if inside:
                _pivot(body, basis, r, inside[0])
    costs = [Fraction(int(j == goal)) for j in range(columns)] + [Fraction(0)] * rows
    return _climb(body, basis, costs, columns)


def _climb(body: list, basis: list[int], costs: list[Fraction], usable: int) -> Fraction:
    """Returns the largest value of costs'x over the first `usable` columns; changes body and basis."""
    while True:
        prices = [costs[j] for j in basis]
        entering = next(
            (j for j in range(usable) if j not in basis and _reduced(body, prices, costs, j) > 0), None
        )
        if entering is None:
            return sum((p * row[-1] for p, row in zip(prices, body, strict=True)), Fraction(0))
        ratios = [(row[-1] / row[entering], basis[r], r) for r, row in enumerate(body) if row[entering] > 0]
        assert ratios, "unbounded"
        _pivot(body, basis, min(ratios)[2], entering)


def _reduced(body: list, prices: list[Fraction], costs: list[Fraction], j: int) -> Fraction:
    return costs[j] - sum((p * row[j] for p, row in zip(prices, body, strict=True) if p), Fraction(0))


def _pivot(body: list, basis: list[int], row: int, column: int) -> None:
    scale = body[row][column]
    body[row] = [v / scale for v in body[row]]
    for r, other in enumerate(body):
        if r != row and other[column] != 0:
            body[r] = [v - other[column] * p if p else v for v, p in zip(other, body[row], strict=True)]
    basis[row] = column
