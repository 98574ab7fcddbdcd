"""What the episodic baselines share: the index of an episodic world, pooled counts, backward induction.

With `horizon=H` a run consists of episodes of H steps, and the states of the acting model are (step, state)
nodes. The dynamics do not depend on the step, so transitions are pooled over the steps: N(s' | s,a) are those
of all steps but the last, whose next state is not observed because the next episode begins instead. The
papers keep separate counts for each step, because their dynamics may change with it; pooling learns H times
as fast.

Plans are made by `backward_induction` on P_hat = N(s' | s,a)/N(s,a), uniform for pairs without a transition,

    Q_h(s,a) = min(cap_h, gain_h(s,a) + growth sum_s' P_hat(s' | s,a) max_b Q_{h+1}(s',b)),    Q_H = 0,

with steps counted from 0. The methods differ only in `gain`, `growth` and `cap`. Among actions of equal
value the one with the fewest visits over all steps is played; the papers do not specify this.

Optimism adds c_{h+1} sqrt(beta(n)/(2n)) to the reward, where values of the next step lie in [0, c_{h+1}]:
n KL(P_hat, P) <= beta(n) = log(2SAH/delta) + (S-1) log(e(1 + n/(S-1))) holds for all pairs and all times at
once with probability 1 - delta (Jonsson et al. 2020), and Pinsker's inequality gives the bonus. With a known
model no optimism is needed, and the bonus is 0.

If the dynamics are learned, only the index of the caller's model is read: which state and action a pair is,
and where the entry of a transition is stored; never a probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.exploring.belief import Belief
from rhocover.exploring.belief.learned import LearnedModel, model_index
from rhocover.exploring.explorers import Block, State
from rhocover.exploring.worlds import SamplePolicy, first_pairs
from rhocover.occupancy import Occupancies

# Backward induction on pooled counts: compiled loops, in which pairs, entries and states are numbers.

TIE = 1e-12  # relative difference of values that rounding may cause


@compiled
def pooled(moves, place, indptr, num_entries):
    """Returns P_hat per entry: transitions summed over steps, divided by the total of their pair."""
    P = np.zeros(num_entries)
    for j in range(moves.size):
        if place[j] >= 0:
            P[place[j]] += moves[j]
    for i in range(indptr.size - 1):
        row = P[indptr[i] : indptr[i + 1]]
        total = row.sum()
        if total > 0:
            row /= total
    return P


@compiled
def backward_induction(first, indptr, indices, P, is_seen, gain, growth, cap, visits):
    """Returns (Q `[H, pairs]`, choice `[H, S]`) of the module's equation."""
    H, S = gain.shape[0], first.size - 1
    Q, choice, value = np.empty(gain.shape), np.empty((H, S), np.int64), np.zeros(S)
    for h in range(H - 1, -1, -1):
        anywhere = value.mean()
        for i in range(is_seen.size):
            ahead = 0.0
            for j in range(indptr[i], indptr[i + 1]):
                ahead += P[j] * value[indices[j]]
            Q[h, i] = min(cap[h], gain[h, i] + growth * (ahead if is_seen[i] else anywhere))
        for s in range(S):
            value[s] = Q[h, first[s] : first[s + 1]].max()
            choice[h, s] = _least_visited_best(Q[h], value[s], first[s], first[s + 1], visits)
    return Q, choice


@compiled
def _least_visited_best(Q, best, begin, end, visits):
    """Returns the least visited of the pairs whose value is the best up to rounding."""
    chosen = -1
    for i in range(begin, end):
        if Q[i] >= best - TIE * abs(best) and (chosen < 0 or visits[i] < visits[chosen]):
            chosen = i
    return chosen


# The world and what a run has observed in it.

NEVER_SEEN = 1e12  # a bonus above every cap, but finite, so that times a cap of 0 it is 0


@dataclass(frozen=True, eq=False)
class EpisodicWorld:
    """The index of an episodic world; pairs are those of the caller's model, entries its transitions."""

    horizon: int
    step: IntArray  # of each pair of the acting model, [n]
    pair: IntArray  # of the caller's model behind it, [n]
    state: IntArray  # of each pair of the caller's model
    first: IntArray  # where each state's pairs begin, [S + 1]
    indptr: IntArray  # where each pair's entries begin
    indices: IntArray  # the successor of each entry
    place: IntArray  # the entry of each transition of the acting model; -1 for those that restart
    P: FloatArray | None  # of each entry; None if it is to be learned

    @property
    def num_states(self) -> int:
        """The number of states S of the caller's model."""
        return self.first.size - 1

    @property
    def num_pairs(self) -> int:
        """The number of pairs of the caller's model, SA in the papers."""
        return self.state.size

    def table(self, values: Any) -> Any:
        """Returns values per pair of the acting model as `[H, pairs]`, 0 for pairs that cannot be visited."""
        result = np.zeros((self.horizon, self.num_pairs), values.dtype)
        result[self.step, self.pair] = values
        return result

    def block(self, choice: IntArray) -> Block:
        """Returns one episode of the policy that plays pair `choice[h, s]`."""
        policy = (choice[self.step, self.state[self.pair]] == self.pair).astype(float)
        return Block(SamplePolicy(policy), self.horizon, whole=True)


_WORLDS: WeakKeyDictionary[Occupancies, EpisodicWorld] = WeakKeyDictionary()


def episodic_world(belief: Belief, who: str) -> EpisodicWorld:
    """Returns the index of the belief's world, made once; raises for a run without episodes."""
    is_learned = isinstance(belief, LearnedModel)
    members = belief.frame.members if is_learned else belief.problem.question.members
    if members is None or members.num_steps is None:
        raise InvalidArgumentError.of(
            "horizon",
            f"is needed: {who} plays episodes of a fixed length that begin at the start",
            remedy=parse_text("Pass `horizon=20`, for example."),
        )
    if members not in _WORLDS:
        _WORLDS[members] = _make_world(members, model_index(belief).transitions if is_learned else None)
    return _WORLDS[members]


def _make_world(members: Occupancies, moves: Any) -> EpisodicWorld:
    """Returns the index; `moves` are the acting model's transitions, None if the model is known."""
    mdp, horizon = members.mdp, members.num_steps
    assert horizon is not None
    rows = mdp.transitions.sorted_indices()
    place = np.zeros(0, np.int64) if moves is None else _places(members, rows, moves)
    return EpisodicWorld(
        horizon, members.step, members.pair, mdp.pair_state, first_pairs(mdp),
        rows.indptr.astype(np.int64), rows.indices.astype(np.int64), place,
        rows.data if moves is None else None,
    )  # fmt: skip


def _places(members: Occupancies, rows: Any, moves: Any) -> IntArray:
    """Returns the entry of `rows` to which each entry of the acting model's `moves` belongs."""
    num_states = members.mdp.num_states
    state_of_node = np.zeros(members.flow.shape[0], np.int64)
    state_of_node[members.node] = members.mdp.pair_state[members.pair]
    acting = np.repeat(np.arange(members.num_pairs), np.diff(moves.indptr))
    key = members.pair[acting] * num_states + state_of_node[moves.indices]
    pair = np.repeat(np.arange(members.mdp.num_pairs), np.diff(rows.indptr))
    place = np.searchsorted(pair * num_states + rows.indices, key)
    return np.where(members.step[acting] < members.num_steps - 1, place, -1)  # pyright: ignore


@dataclass(frozen=True, eq=False)
class Seen:
    """The visits of a run by step, and its estimate of the transitions pooled over the steps."""

    world: EpisodicWorld
    by_step: IntArray  # visits of each pair at each step, [H, pairs]
    P: FloatArray  # the estimate, per entry

    @property
    def visits(self) -> IntArray:
        """Visits of each pair, `[pairs]`."""
        return self.by_step.sum(axis=0)

    @property
    def onward(self) -> IntArray:
        """How often the next state of each pair was observed: its visits before the last step, `[pairs]`."""
        return self.by_step[:-1].sum(axis=0)

    @property
    def evidence(self) -> FloatArray:
        """The counts for error bounds, `[H, pairs]`: transitions, and at the last step visits.

        They are at least 1/2, so that a pair that was never visited has a larger bonus than one visited once.
        """
        n = np.tile(self.onward, (self.world.horizon, 1))
        n[-1] = self.visits
        return np.maximum(n, 0.5)

    def worst_start(self, Q: FloatArray) -> float:
        """Returns the largest value of the states in which episodes may begin, for Q `[H, pairs]`."""
        first_step = self.world.pair[self.world.step == 0]
        return float(Q[0, first_step].max())

    def induct(self, gain: FloatArray, cap: FloatArray, growth: float = 1.0) -> tuple[FloatArray, IntArray]:
        """Returns (Q `[H, pairs]`, the pair that each state plays at each step `[H, S]`)."""
        world = self.world
        is_seen = np.ones(world.num_pairs, bool) if world.P is not None else self.onward > 0
        return backward_induction(
            world.first, world.indptr, world.indices, self.P, is_seen, gain, growth, cap, self.visits
        )

    def optimistic(self, reward: FloatArray, cap: FloatArray, scale: float, delta: float) -> IntArray:
        """Returns the choices of optimistic planning for `reward` `[H, pairs]`; values lie in [0, cap]."""
        if scale == 0 or self.world.P is not None:
            return self.induct(reward, cap)[1]
        n = self.onward
        radius = np.where(
            n > 0, np.sqrt(kl_threshold(n, self.world, delta) / (2 * np.maximum(n, 1))), NEVER_SEEN
        )
        bonus = np.zeros(reward.shape)
        bonus[:-1] = scale * cap[1:, None] * radius
        return self.induct(reward + bonus, cap)[1]


def look(state: State, who: str) -> Seen:
    """Returns the visits and the estimate of a run up to this state."""
    world = episodic_world(state.belief, who)
    by_step = world.table(state.counts)
    if world.P is not None:
        return Seen(world, by_step, world.P)
    assert isinstance(state.belief, LearnedModel)
    return Seen(world, by_step, pooled(state.belief.moves, world.place, world.indptr, world.indices.size))


def kl_threshold(n: Any, world: EpisodicWorld, delta: float) -> FloatArray:
    """Returns beta(n, delta), which n KL(P_hat, P) never exceeds with probability 1 - delta."""
    others = max(world.num_states - 1, 1)  # with one state there is nothing to estimate: its KL is 0
    union = np.log(2 * world.num_pairs * world.horizon / delta)
    return union + others * np.log(np.e * (1 + n / others))


def value_caps(largest: FloatArray) -> FloatArray:
    """Returns the largest sum of rewards from each step on, `[H]`, given the largest reward of each step."""
    return np.cumsum(largest[::-1])[::-1]
