"""Classic small models: DoubleChain, SixArms, Wheel, DeepSea, and the random Garnet models.

Each has its own section below, with its source and what it tests.
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.errors import InvalidArgumentError
from rhocover.layout import Layout, circle, line
from rhocover.mdp import MDP

LEFT, RIGHT = 0, 1

# DoubleChain: a line that can be walked both ways, with slips in the opposite direction. Left and right are
# symmetric, so the uniform policy visits every pair equally often: the uniform occupancy is attainable and
# optimal for every rho. Every explorer should do well here.


def double_chain(*, num_states: int = 31, failure: float = 0.1) -> MDP:
    """Returns the DoubleChain: two actions, each slips into the opposite one with `failure`.

    The intended move happens with probability 1 - failure, the opposite one with `failure`; a move
    beyond an end stays there. Starts in the middle, state num_states // 2. Communicating for every
    `failure` in [0, 1]. At least 2 states. Published runs use 0.05 and 0.1.
    """
    num_states = checks.size(num_states, "num_states", least=2)
    failure = checks.probability(failure, "failure")
    states = np.arange(num_states)
    left, right = np.maximum(states - 1, 0), np.minimum(states + 1, num_states - 1)
    outcomes = [
        (states, LEFT, left, 1 - failure),
        (states, LEFT, right, failure),
        (states, RIGHT, right, 1 - failure),
        (states, RIGHT, left, failure),
    ]
    return MDP(
        outcome_matrix(num_states, 2, outcomes),
        num_actions=2,
        start=num_states // 2,
        action_labels=("left", "right"),
        layout=line(num_states, [[-1, 0], [1, 0]]),
        name="double_chain",
    )


# SixArms: a hub with six arms that are reached more and more rarely. From the hub, arm i is reached with
# probability 1, 0.15, 0.1, 0.05, 0.03, 0.01; otherwise the state remains the hub. The way back is one step,
# so the hub is the only bottleneck: a visit to the rarest arm takes a hundred tries on average, and all but
# one of the six actions there end it (Strehl and Littman 2008).

REACH = np.array([1.0, 0.15, 0.1, 0.05, 0.03, 0.01])
WAY_BACK_FROM_FIRST = 4  # the only action that leaves arm 1


def six_arms() -> MDP:
    """Returns SixArms: a hub, state 0, and the arms 1 to 6; 6 actions.

    In the hub action i = 0, ..., 5 leads to arm i + 1 with probability 1, 0.15, 0.1, 0.05, 0.03, 0.01
    and stays otherwise. In arm 1 the action 4 leads to the hub and every other one stays. In each
    further arm k the action k - 1 stays and every other one leads to the hub. Starts in the hub.
    Communicating.
    """
    pull = np.arange(6)
    arm, action = np.arange(1, 7)[:, None], pull[None, :]
    stays = np.where(arm == 1, action != WAY_BACK_FROM_FIRST, action == arm - 1)
    outcomes = [
        (0, pull, pull + 1, REACH),
        (0, pull, 0, 1 - REACH),
        (arm, action, np.where(stays, arm, 0), 1.0),
    ]
    return MDP(
        outcome_matrix(7, 6, outcomes),
        num_actions=6,
        start=0,
        state_labels=("hub", *(f"arm {k}" for k in range(1, 7))),
        action_labels=[f"pull {k}" for k in range(1, 7)],
        layout=circle(7, centre=True),
        name="six_arms",
    )


# Wheel: a hub that leads to a random state of a ring, and a ring on which one can walk and return to the hub.
# Only two kinds of pairs are random, the hub's spin and the ring's noisy step; all others are deterministic.
# Uniform coverage wastes most of its steps on deterministic rows, which is what the environment was made to
# show (Tarbouriech et al. 2020).

WHEEL_LEFT, WHEEL_RIGHT, SELF, CENTRE, NOISY = range(5)
SPIN = NOISY  # the fifth action spins in the centre and is the noisy step on the ring


def wheel(*, num_states: int = 5) -> MDP:
    """Returns the Wheel: a centre, state 0, and a ring of the other states; 5 actions.

    In the centre the first four actions stay and the fifth, SPIN, leads to each ring state with the
    same probability. On the ring LEFT and RIGHT lead to the neighbours, SELF stays, CENTRE leads to
    the centre, and NOISY does each of these four with probability 1/4. Starts in the centre.
    Communicating. At least 3 states; with 3, both neighbours are the same state.
    """
    num_states = checks.size(num_states, "num_states", least=3)
    return MDP(
        outcome_matrix(num_states, 5, _centre(num_states) + _ring(num_states)),
        num_actions=5,
        start=0,
        state_labels=("centre", *(f"ring {i}" for i in range(1, num_states))),
        action_labels=("left", "right", "self", "centre", "noisy/spin"),
        layout=circle(num_states, centre=True),
        name="wheel",
    )


def _centre(num_states: int) -> list[Outcome]:
    return [
        (0, np.arange(SPIN), 0, 1.0),
        (0, SPIN, np.arange(1, num_states), 1 / (num_states - 1)),
    ]


def _ring(num_states: int) -> list[Outcome]:
    place = np.arange(num_states - 1)
    left = 1 + (place - 1) % place.size
    right = 1 + (place + 1) % place.size
    targets = {WHEEL_LEFT: left, WHEEL_RIGHT: right, SELF: place + 1, CENTRE: 0}
    sure = [(place + 1, action, target, 1.0) for action, target in targets.items()]
    noisy = [(place + 1, NOISY, target, 1 / 4) for target in targets.values()]
    return sure + noisy


# DeepSea: N rows in which only one sequence of actions reaches the far corner. Every step goes down one row;
# left and right choose the column. Reaching the bottom right cell takes N - 1 times right in a row, which
# uniformly random actions do with probability 2^-(N-1): the classic failure case of explorers that do not
# plan (Osband et al. 2017, and the stochastic version of bsuite).


def deep_sea(*, size: int = 10) -> MDP:
    """Returns DeepSea: the N(N+1)/2 reachable cells of an N×N sea, as a continuing model.

    From row r, column c <= r, each step goes to row r + 1. Left: column c - 1, or 0 at the border.
    Right: column c + 1 with probability 1 - 1/N, else column c, as in bsuite (there is no mapping of
    actions by cell: action 0 is left everywhere). From the bottom row every action leads to the start,
    the cell (0, 0), so that an episode of N steps is followed by the next. Communicating. Size >= 2.
    """
    size = checks.size(size, "size", least=2)
    row, column = np.tril_indices(size)
    state = np.arange(row.size)
    below = state + row + 1  # the cell of the same column one row down
    wet = row < size - 1
    dive, left, straight = state[wet], below[wet] - (column[wet] > 0), below[wet]
    outcomes = [
        (dive, LEFT, left, 1.0),
        (dive, RIGHT, straight + 1, 1 - 1 / size),
        (dive, RIGHT, straight, 1 / size),
        (state[~wet][:, None], [LEFT, RIGHT], 0, 1.0),
    ]
    return MDP(
        outcome_matrix(state.size, 2, outcomes),
        num_actions=2,
        start=0,
        state_labels=[f"r{r}c{c}" for r, c in zip(row.tolist(), column.tolist(), strict=True)],
        action_labels=("left", "right"),
        layout=Layout(np.stack([column, row], axis=1).astype(float), np.array([[-1.0, 0.0], [1.0, 0.0]])),
        name="deep_sea",
    )


# Garnet: random models with a given number of successors. Generic average-reward models without structure
# that could be exploited by accident (Archibald, McKinnon and Thomas 1995; the name is from Bhatnagar et
# al.). The draw, with one `numpy.random.default_rng(seed)` and n = S·A pairs in the order s*A + a:
#
# 1. successors, a uniform b-subset of the states for each pair by Floyd's method: for j = S-b, ..., S-1 draw
#    t uniform on 0..j for all pairs at once; a pair that has t already takes j instead;
# 2. cut points, b-1 uniforms on [0, 1) for each pair, sorted; the b gaps between 0, the cuts and 1 are the
#    probabilities of the successors in the order drawn.


def garnet(
    *,
    num_states: int = 50,
    num_actions: int = 4,
    num_successors: int = 5,
    seed: int = 0,
    self_loop: float = 0.0,
) -> MDP:
    """Returns a Garnet: `num_successors` random successors for each pair, random probabilities.

    `self_loop` adds a probability of staying: P becomes (1 - self_loop)·P + self_loop·[stay], usually
    0.001 to rule out periods. The draw is not repaired: the model is communicating with high
    probability, but not certainly. About S·exp(-A·b) states cannot be reached, so keep A·b well above
    log S. It has no start and no layout, because neither would be natural.
    """
    num_states = checks.size(num_states, "num_states", least=2)
    num_actions = checks.size(num_actions, "num_actions", least=1)
    num_successors = _checked_successors(num_successors, num_states)
    self_loop = checks.probability(self_loop, "self_loop")
    rng = np.random.default_rng(checks.seed(seed))
    states, actions = np.divmod(np.arange(num_states * num_actions), num_actions)
    successors = _subsets(rng, states.size, num_states, num_successors)
    gaps = _gaps(rng, states.size, num_successors)
    outcomes = [
        (states[:, None], actions[:, None], successors, (1 - self_loop) * gaps),
        (states, actions, states, self_loop),
    ]
    rows = outcome_matrix(num_states, num_actions, outcomes)
    return MDP(rows, num_actions=num_actions, name="garnet")


def _checked_successors(num_successors: int, num_states: int) -> int:
    num_successors = checks.size(num_successors, "num_successors", least=1)
    if num_successors > num_states:
        raise InvalidArgumentError.of(
            "num_successors", f"must be at most num_states={num_states}", f"{num_successors}"
        )
    return num_successors


def _subsets(rng: np.random.Generator, num_rows: int, num_states: int, size: int) -> IntArray:
    """Returns a uniform subset of the states for each row, `[num_rows, size]`, in less than S×n memory."""
    chosen = np.empty((num_rows, size), np.int64)
    for k, last in enumerate(range(num_states - size, num_states)):
        drawn = rng.integers(0, last + 1, size=num_rows)
        taken = (chosen[:, :k] == drawn[:, None]).any(axis=1)
        chosen[:, k] = np.where(taken, last, drawn)
    return chosen


def _gaps(rng: np.random.Generator, num_rows: int, size: int) -> FloatArray:
    """Returns the lengths into which sorted uniforms cut [0, 1], `[num_rows, size]`."""
    cuts = np.sort(rng.random((num_rows, size - 1)), axis=1)
    return np.diff(cuts, axis=1, prepend=0.0, append=1.0)
