"""How to act during a block: values that a world can follow without asking back.

- `SamplePolicy`: a stochastic policy, one probability a pair.
- `LowestScore`: in each state the action whose score is lowest,

      score_i = (base_i + visits_i - k rate_i) scale_i,

  with the visits of this block so far and k its steps so far. Looking at one state's actions is all it
  takes, however many states there are.
- `FlowCorrectedScore`: the same with scores that are brought up to date every few steps, for models whose
  flow equations fit into a small dense matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP


@dataclass(frozen=True, eq=False)
class SamplePolicy:
    """Play each pair of a state with its probability; `policy` is per pair `[n]`, or a table `[S, A]`."""

    policy: FloatArray


@dataclass(frozen=True, eq=False)
class LowestScore:
    """Play the action of lowest score; `base`, `rate` and `scale` are per pair `[n]`."""

    base: FloatArray
    rate: FloatArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class FlowCorrectedScore:
    """Play the lowest score; every `period` steps take out of it what the flow of the visits forces.

    With v = moved + visits - k rate the score is (offset + v - W B'(B W B')^-1 B v) scale, the last term
    inside as it was at the last multiple of `period`. `inverse` is (B W B')^-1 `[S, S]`, the mass row
    in the place of the last flow row. B is the flow of `model`, which is what the explorer takes the world
    to be; its pair i is the world's pair `pairs[i]`, and so are the arrays, except `rate` and `scale`
    once `placed` has brought them to the world.
    """

    offset: FloatArray
    moved: FloatArray
    rate: FloatArray
    scale: FloatArray
    weight: FloatArray  # W
    inverse: FloatArray
    period: int
    model: MDP
    pairs: IntArray | None = None  # None: the same pairs

    def flow_arrays(self) -> tuple[Any, ...]:
        """Returns what the compiled loop needs to bring scores up to date."""
        P, pairs = self.model.transitions, self.pairs
        flow = (first_pairs(self.model), P.indptr.astype(np.int64), P.indices.astype(np.int64), P.data)
        pairs = np.arange(self.model.num_pairs) if pairs is None else pairs.astype(np.int64)
        rate = self.rate[pairs]  # of the model's own pairs
        return *flow, pairs, self.offset, self.moved, rate, self.weight, self.inverse


Behaviour = SamplePolicy | LowestScore | FlowCorrectedScore


def checked_behaviour(behaviour: Any, mdp: MDP) -> Behaviour:
    """Returns the behaviour with arrays per pair; refuses what the compiled loops could not follow."""
    if isinstance(behaviour, SamplePolicy):
        return SamplePolicy(mdp.per_pair(behaviour.policy, "policy"))
    if isinstance(behaviour, LowestScore):
        names = ("base", "rate", "scale")
        return LowestScore(*(mdp.per_pair(getattr(behaviour, name), name) for name in names))
    if isinstance(behaviour, FlowCorrectedScore):
        return behaviour  # made by this library only
    raise InvalidArgumentError.of(
        "Block.behaviour",
        "must be SamplePolicy, LowestScore or FlowCorrectedScore",
        type(behaviour).__name__,
        remedy="A policy is played by SamplePolicy(policy).",
    )


def placed(behaviour: Behaviour, pairs: IntArray, num_pairs: int) -> Behaviour:
    """Returns a behaviour over some pairs of a world as one over all of them.

    States that the behaviour does not know choose uniformly, or in turn.
    """

    def spread(values: FloatArray, fill: float) -> FloatArray:
        result = np.full(num_pairs, fill)
        result[pairs] = values
        return result

    if isinstance(behaviour, SamplePolicy):
        return SamplePolicy(spread(behaviour.policy, 1.0))
    rate, scale = spread(behaviour.rate, 0.0), spread(behaviour.scale, 1.0)
    if isinstance(behaviour, LowestScore):
        return LowestScore(spread(behaviour.base, 0.0), rate, scale)
    return replace(behaviour, rate=rate, scale=scale, pairs=pairs)


def first_pairs(mdp: MDP) -> IntArray:
    """Returns where each state's pairs begin, `[S + 1]`; pairs are sorted by state."""
    return np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1)).astype(np.int64)


def choice_cdf(policy: FloatArray, mdp: MDP) -> FloatArray:
    """Returns each pair's cumulative probability within its state (see `cumulative`).

    Refuses a policy that gives a state nothing to do.
    """
    first = first_pairs(mdp)
    total = np.add.reduceat(policy, first[:-1])
    wrong = np.flatnonzero(~(total > 0) | ~np.isfinite(total))
    if wrong.size or policy.min() < 0:
        state = int(wrong[0]) if wrong.size else int(mdp.pair_state[int(policy.argmin())])
        raise InvalidArgumentError.of(
            "policy",
            f"must give every state an action: the probabilities of state {state} sum to {total[state]:g}, "
            f"the smallest of all is {policy.min():g}",
        )
    return cumulative(policy / total[mdp.pair_state], first)


def cumulative(shares: FloatArray, first: IntArray) -> FloatArray:
    """Returns the running sums of groups of shares, `[n]`, from the last positive share on exactly 1.

    Group k is at `first[k]:first[k + 1]`. Each is summed for itself, so that its digits do not depend on
    the groups before it; a share of zero leaves the sum as it is, so that it is never drawn.
    """
    running, length = shares.astype(np.float64), np.diff(first)
    for k in range(1, int(length.max())):
        place = first[:-1][length > k] + k
        running[place] += running[place - 1]
    group = np.repeat(np.arange(length.size), length)
    last = np.full(length.size, -1, np.int64)
    positive = np.flatnonzero(shares > 0)
    np.maximum.at(last, group[positive], positive)
    running[np.arange(shares.size) >= last[group]] = 1.0
    return running
