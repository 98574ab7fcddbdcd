"""The set D of achievable occupancies, for three criteria, with or without a floor.

An occupancy d says how often each pair is visited; it sums to 1. D is a polytope {F d = g, d >= 2 eta}:

- average:     (F d)(s) = sum_a d(s,a) - sum_i P(s|i) d_i = 0, and sum d = 1 (long-run frequencies);
- discounted:  the same with gamma P, and g = (1-gamma) start (visits before a geometric restart);
- horizon:     one block of rows for each step h, d_0(s,.) = start/H, d_h(s,.) = sum_i P(s|i) d_{h-1,i};
               only the steps and states that can be reached from the start are in the set.

The last two imply sum d = 1. With a floor this is the paper's D_eta = {d in D: d >= 2 eta}, which is
non-empty iff 2 eta <= t*, the largest floor. The objective is not used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from rhocover import chains, checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen, frozen_matrix, round_below
from rhocover.errors import Call, InfeasibleFloorError, InvalidArgumentError, Setting, parse_text
from rhocover.linear_program import LinearProgram
from rhocover.mdp import MDP, check_mdp

MAX_ENTRIES = 2**31 - 1  # of an occupancy: sparse solvers use 32-bit indices
DISCOUNT = Call("discount=", "--discount")
ENTRY_BYTES = 150  # of memory for each entry of a horizon's flow matrix at the start of a plan


# Models never change, so their flow matrix is built once; it is freed with its model.
_AVERAGE_FLOW: WeakKeyDictionary[MDP, Matrix] = WeakKeyDictionary()


@dataclass(frozen=True)
class Membership:
    """How far a vector is from an occupancy set; all four are zero for a member."""

    flow: float  # largest |F d - g|
    mass: float  # |sum d - 1|
    negativity: float  # largest -d
    floor_shortage: float  # largest 2 eta - d


@dataclass(frozen=True, eq=False)
class Occupancies:
    """The polytope of occupancies of a model; build it with `average`, `discounted`, `horizon`, or `of`.

    Vectors over its pairs have length `num_pairs`; `table` lays them out as `[S, A]` or `[H, S, A]`.

    >>> import rhocover as rc
    >>> members = rc.Occupancies.average(rc.envs.river_swim())
    >>> round(members.max_floor()[0], 6)
    0.043374
    """

    mdp: MDP
    criterion: str
    flow: Matrix  # F, [rows, pairs]
    inflow: FloatArray  # g, [rows]
    pair: IntArray  # the model's pair behind each entry
    step: IntArray  # its time step; 0 unless the criterion is "horizon"
    eta: float = 0.0
    discount: float | None = None
    num_steps: int | None = None
    start: FloatArray | None = None

    @classmethod
    def of(
        cls,
        mdp: MDP,
        *,
        discount: float | None = None,
        horizon: int | None = None,
        start: Any = None,
        eta: float = 0.0,
    ) -> Occupancies:
        """Returns the set that the arguments describe; the average one without `discount` and `horizon`."""
        if discount is not None and horizon is not None:
            raise InvalidArgumentError(
                parse_text("`horizon` cannot be combined with `discount`."),
                argument="horizon",
                remedy="Leave it out.",
            )
        if discount is not None:
            return cls.discounted(mdp, discount, start=start, eta=eta)
        if horizon is not None:
            return cls.horizon(mdp, horizon, start=start, eta=eta)
        if start is not None:
            raise InvalidArgumentError.of(
                "start",
                parse_text("is for `discount` or `horizon` only; long-run visits do not depend on it"),
            )
        return cls.average(mdp, eta=eta)

    @classmethod
    def average(cls, mdp: MDP, *, eta: float = 0.0) -> Occupancies:
        """Returns the stationary occupancies, {A d = 0, 1'd = 1, d >= 2 eta}."""
        check_mdp(mdp)
        if mdp not in _AVERAGE_FLOW:
            _AVERAGE_FLOW[mdp] = _flow_matrix(mdp, 1.0)
        flow = _AVERAGE_FLOW[mdp]
        return cls(mdp, "average", flow, np.zeros(mdp.num_states), *_all_pairs(mdp), eta=_checked_eta(eta))

    @classmethod
    def discounted(cls, mdp: MDP, discount: float, *, start: Any = None, eta: float = 0.0) -> Occupancies:
        """Returns the occupancies of runs from `start` that end with probability 1 - discount per step."""
        check_mdp(mdp)
        discount = checks.probability(discount, "discount", open_ends=True)
        start = checked_start(mdp, start)
        flow = _flow_matrix(mdp, discount)
        return cls(
            mdp, "discounted", flow, (1 - discount) * start, *_all_pairs(mdp),
            eta=_checked_eta(eta), discount=discount, start=start,
        )  # fmt: skip

    @classmethod
    def horizon(cls, mdp: MDP, horizon: int, *, start: Any = None, eta: float = 0.0) -> Occupancies:
        """Returns the occupancies of episodes of `horizon` steps from `start`; each step has mass 1/H."""
        check_mdp(mdp)
        horizon = checks.integer(horizon, "horizon", least=1)
        if horizon > MAX_ENTRIES // mdp.num_pairs:
            raise InvalidArgumentError.of(
                "horizon",
                f"must be at most {MAX_ENTRIES // mdp.num_pairs} for {mdp.num_pairs} pairs",
                remedy=("For longer runs pass ", DISCOUNT, ", or neither for long-run frequencies."),
            )
        _check_memory(mdp, horizon)
        start = checked_start(mdp, start)
        flow, inflow, pair, step = _time_expanded(mdp, horizon, start)
        return cls(
            mdp, "horizon", flow, inflow, pair, step,
            eta=_checked_eta(eta), num_steps=horizon, start=start,
        )  # fmt: skip

    @property
    def num_pairs(self) -> int:
        """The number of entries of an occupancy."""
        return int(self.pair.size)

    @property
    def floor(self) -> float:
        """The least share of every pair, 2 eta."""
        return 2 * self.eta

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an occupancy as a table: `[S, A]`, or `[H, S, A]` for a horizon."""
        grid = (self.mdp.num_states, self.mdp.num_actions)
        return grid if self.num_steps is None else (self.num_steps, *grid)

    def table(self, d: FloatArray, fill: float = 0.0) -> FloatArray:
        """Returns the entries as a table of `shape`; places without a pair hold `fill`."""
        d = checks.real_or_bool(d, "d")
        if d.ndim > 0:  # one number fills every place
            checks.check_shape(d.shape, "d", (self.num_pairs,))
        result = np.full(self.shape, fill, dtype=float)
        result[self._places] = d
        return result

    def flatten(self, values: Any, name: str) -> FloatArray:
        """Returns `values` per entry: given as `shape`, per entry, or `[S, A]` repeated over steps."""
        array = checks.float_array(values, name)
        if array.shape == (self.num_pairs,):
            return array
        if array.shape == self.shape:
            return array[self._places]
        if self.num_steps is not None and array.shape == self.shape[1:]:
            return array[self._places[1:]]
        if self.num_steps is None or array.shape == (self.mdp.num_pairs,):
            return self.mdp.per_pair(array, name)[self.pair]
        raise InvalidArgumentError.of(
            name, f"must have shape {self.shape} or {self.shape[1:]}", f"{array.shape}"
        )

    @cached_property
    def _places(self) -> tuple[IntArray, ...]:
        grid = (self.mdp.pair_state[self.pair], self.mdp.pair_action[self.pair])
        return grid if self.num_steps is None else (self.step, *grid)

    @cached_property
    def node(self) -> IntArray:
        """The state, or (step, state), of each entry, numbered `[0, rows)`."""
        if self.num_steps is None:
            return self.mdp.pair_state
        return _row_of_pairs(self.mdp, self.pair, self.step)

    def membership(self, d: Any) -> Membership:
        """Returns how far `d` (per entry or as a table) is from this set, in four numbers."""
        d = self.flatten(d, "d")
        return Membership(
            flow=float(np.abs(self.flow @ d - self.inflow).max()),
            mass=abs(float(d.sum()) - 1),
            negativity=max(0.0, float(-d.min())),
            floor_shortage=max(0.0, self.floor - float(d.min())),
        )

    def contains(self, d: Any, tol: float = 1e-9) -> bool:
        """Returns whether `d` is in the set up to `tol` in each of the four residuals."""
        found = self.membership(d)
        return max(found.flow, found.mass, found.negativity, found.floor_shortage) <= tol

    def flow_error(self, d: FloatArray) -> float:
        """Returns the largest residual of a row relative to the flow through it: rounding is near 1e-15."""
        through = abs(self.flow) @ d + np.abs(self.inflow)
        residual = np.abs(self.flow @ d - self.inflow)
        return float(np.max(residual / np.maximum(through, 1e-300), initial=0.0))

    def to_policy(self, d: Any) -> FloatArray:
        """Returns the policy whose occupancy is `d`, as a table; uniform in states that d does not visit."""
        d = np.maximum(self.flatten(d, "d"), 0.0)
        mass = np.bincount(self.node, weights=d, minlength=self.flow.shape[0])
        count = np.bincount(self.node, minlength=self.flow.shape[0])
        seen = mass[self.node] > 0
        policy = np.where(seen, d / np.where(seen, mass[self.node], 1.0), 1.0 / count[self.node])
        return self.table(policy)

    def from_policy(self, policy: Any) -> FloatArray:
        """Returns the occupancy of a policy, per entry; `policy` is a table or per entry."""
        policy = self._checked_policy(policy)
        if self.criterion == "average":
            weight = chains.stationary_distribution(chains.policy_chain(self.mdp, policy))
        elif self.criterion == "discounted":
            weight = self._discounted_states(policy)
        else:
            weight = self._states_over_time(policy)
        return weight[self.node] * policy

    def _checked_policy(self, policy: Any) -> FloatArray:
        policy = self.flatten(policy, "policy")
        checks.check_nonnegative(policy, "policy")
        sums = np.bincount(self.node, weights=policy, minlength=self.flow.shape[0])
        wrong = np.flatnonzero(np.abs(sums - 1) > 1e-8)
        if wrong.size:
            place = self._node_name(int(wrong[0]))
            raise InvalidArgumentError.of(
                "policy", "must sum to 1 in every state", f"{sums[wrong[0]]:.9g} in {place}"
            )
        return policy / sums[self.node]

    def _node_name(self, node: int) -> str:
        entry = int(np.flatnonzero(self.node == node)[0])
        state = int(self.mdp.pair_state[self.pair[entry]])
        return f"state {state}" + (f" at step {self.step[entry]}" if self.num_steps else "")

    def _discounted_states(self, policy: FloatArray) -> FloatArray:
        """Returns the mass of each state, from the stationary distribution of the chain that restarts.

        With probability 1 - discount the chain moves to an extra state, and from there to the start. So each
        mass has a small relative error, however close to 1 the discount is.
        """
        assert self.discount is not None
        assert self.start is not None
        chain, n = chains.policy_chain(self.mdp, policy), self.mdp.num_states
        ends, begins = np.full((n, 1), 1 - self.discount), sp.csr_array(self.start[None, :])
        restarting = sp.block_array([[self.discount * chain, sp.csr_array(ends)], [begins, None]])
        weight = chains.stationary_distribution(sp.csr_array(restarting))[:n]
        return weight / weight.sum()

    def _states_over_time(self, policy: FloatArray) -> FloatArray:
        """Returns the mass of each (step, state); rows are ordered by step, so one sweep computes all."""
        from rhocover.chains.stationary import layered_masses

        return layered_masses(self.flow, self.inflow, self.node, policy)

    def max_floor(self) -> tuple[float, FloatArray]:
        """Returns t* = max_d min_i d_i over the set without its floor, and a d that attains it."""
        matrix, right_side = self.equations()
        shift = matrix @ np.ones(self.num_pairs)
        program = LinearProgram(sp.hstack([matrix, shift[:, None]], format="csr"), right_side, 0.0)
        costs = np.zeros(self.num_pairs + 1)
        costs[-1] = 1.0
        solution = program.solve(costs)
        t_star = float(solution.x[-1])
        return t_star, solution.x[:-1] + t_star

    def equations(self) -> tuple[Matrix, FloatArray]:
        """Returns (B, b) with {d: B d = b} the set's affine hull, the mass row included."""
        if self.criterion != "average":
            return self.flow, self.inflow
        ones = sp.csr_array(np.ones((1, self.num_pairs)))
        return sp.vstack([self.flow, ones], format="csr"), np.append(self.inflow, 1.0)

    def flow_of_parts(self, part: IntArray) -> Matrix:
        """Returns the flow equations summed over the states of each part, `[parts, n]`.

        They are computed from the transitions that leave a part, so that nothing cancels. A horizon has no
        parts: its rows are those of each step and state.
        """
        if self.criterion == "horizon" or int(part.max()) + 1 == part.size:
            return self.flow
        flow = _flow_matrix(self.mdp, 1.0 if self.discount is None else self.discount, part).copy()
        flow.eliminate_zeros()  # pairs that stay inside
        return flow

    def unit_potential(self) -> FloatArray:
        """Returns h with F'h = 1 for every pair, for the criteria that imply sum d = 1."""
        if self.criterion == "discounted":
            return np.full(self.flow.shape[0], 1 / (1 - self.discount))  # pyright: ignore
        if self.criterion == "horizon":
            steps = np.zeros(self.flow.shape[0])
            steps[self.node] = self.step
            return self.num_steps - steps  # pyright: ignore
        raise InvalidArgumentError("the average criterion has no potential with F'h = 1.")

    def check_floor(self) -> None:
        """Refuses an eta that no occupancy satisfies; the error has the largest possible one."""
        if self.eta == 0:
            return
        t_star, _ = self.max_floor()
        if self.floor > t_star * (1 + 1e-9):
            raise InfeasibleFloorError(
                f"eta={self.eta:g} asks every pair for {self.floor:g} of the visits; this MDP allows "
                f"at most {t_star:.4g} (eta <= {t_star / 2:.4g}).",
                eta_max=t_star / 2,
                remedy=("Pass ", Setting("eta", f"{round_below(t_star / 2):g}"), " or less."),
            )


def checked_start(mdp: MDP, start: Any) -> FloatArray:
    """Returns the start distribution: the argument, or that of the model."""
    if start is None:
        start = mdp.start
    if start is None:
        raise InvalidArgumentError.of(
            "start",
            parse_text("is needed with `discount` or `horizon`: a state, or a distribution over states"),
        )
    return frozen(checks.distribution(start, "start", mdp.num_states))


def _checked_eta(eta: Any) -> float:
    eta = checks.number(eta, "eta")
    if not 0 <= eta < 0.5:
        raise InvalidArgumentError.of("eta", "must be in [0, 1/2)", f"{eta:g}")
    return eta


def _all_pairs(mdp: MDP) -> tuple[IntArray, IntArray]:
    return np.arange(mdp.num_pairs), np.zeros(mdp.num_pairs, np.int64)


def _flow_matrix(mdp: MDP, discount: float, part: IntArray | None = None) -> Matrix:
    """Returns F `[S, n]`: the flow of each pair out of its state, minus the flow into other states.

    With `part`, the part that each state belongs to, the rows are those of the parts. The entry of a pair's
    own part is 1 - discount P(stays|i), computed as 1 - discount plus what leaves: so a pair that stays with
    probability 1 - 1e-15 keeps its digits.
    """
    n, P = mdp.num_pairs, mdp.transitions
    part = np.arange(mdp.num_states) if part is None else part
    pair = np.repeat(np.arange(n), np.diff(P.indptr))
    own, target = part[mdp.pair_state], part[P.indices]
    leaves = target != own[pair]
    out = 1 - discount + discount * np.bincount(pair[leaves], weights=P.data[leaves], minlength=n)
    rows = np.concatenate([own, target[leaves]])
    columns = np.concatenate([np.arange(n), pair[leaves]])
    values = np.concatenate([out, -discount * P.data[leaves]])
    flow = sp.csr_array((values, (rows, columns)), shape=(int(part.max()) + 1, n))
    return frozen_matrix(flow)


def _row_of_pairs(mdp: MDP, pair: IntArray, step: IntArray) -> IntArray:
    """Returns the rank of each entry's (step, state) among those that occur."""
    key = step * mdp.num_states + mdp.pair_state[pair]
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _reached_by_step(mdp: MDP, horizon: int, start: FloatArray) -> BoolArray:
    """Returns which states can be occupied at each step, `[H, S]`."""
    reached = np.zeros((horizon, mdp.num_states), bool)
    reached[0] = start > 0
    for h in range(1, horizon):
        rows = mdp.transitions[reached[h - 1][mdp.pair_state]]
        reached[h][rows.indices] = True
        if np.array_equal(reached[h], reached[h - 1]):  # the same for all later steps
            reached[h:] = reached[h]
            break
    return reached


def _check_memory(mdp: MDP, horizon: int) -> None:
    """Refuses a horizon whose pairs, n for each step, do not fit into the memory of this machine."""
    needed, there = ENTRY_BYTES * horizon * (mdp.num_pairs + mdp.transitions.nnz), checks.memory_bytes()
    if needed > there:
        raise InvalidArgumentError.of(
            "horizon",
            f"{horizon} has {horizon * mdp.num_pairs:.3g} pairs, {mdp.num_pairs} for each step, which take "
            f"about {needed / 1e9:.3g} GB; there are {there / 1e9:.3g} GB",
            remedy=(
                "Shorten it, or pass ",
                DISCOUNT,
                f", for example {1 - 1 / horizon:.9g}, or neither for long-run frequencies.",
            ),
        )


def _time_expanded(
    mdp: MDP, horizon: int, start: FloatArray
) -> tuple[Matrix, FloatArray, IntArray, IntArray]:
    """Returns (F, g, pair, step) of the horizon set: one row for each step and reachable state."""
    reached = _reached_by_step(mdp, horizon, start)
    row = np.full(reached.shape, -1, np.int64)
    row[reached] = np.arange(reached.sum())
    step, pair = np.nonzero(reached[:, mdp.pair_state])
    entries = np.arange(pair.size)
    own = row[step, mdp.pair_state[pair]]
    inner = step < horizon - 1
    moves = mdp.transitions[pair[inner]]
    later = np.repeat(step[inner] + 1, np.diff(moves.indptr))
    rows = np.concatenate([own, row[later, moves.indices]])
    columns = np.concatenate([entries, np.repeat(entries[inner], np.diff(moves.indptr))])
    values = np.concatenate([np.ones(pair.size), -moves.data])
    shape = (int(reached.sum()), int(pair.size))
    flow = sp.csr_array((values, (rows, columns)), shape=shape)
    inflow = np.zeros(shape[0])
    inflow[row[0][start > 0]] = start[start > 0] / horizon
    return flow, inflow, pair.astype(np.int64), step.astype(np.int64)
