"""Traps: closed sets of states that come apart from a component when it loses pairs.

They are searched forwards from the states that lost a pair, so a corridor that unravels one state at a
time costs one pass and not one pass a state (after Chatterjee and Henzinger 2014).
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.mdp import MDP


class Traps:
    """Cuts off closed sets inside components, beginning at the states that lost a pair.

    Between calls no pair alive leads from one label to another. A state without pairs is a trap of its
    own. Plain loops over memory views: only what is cut is visited, and then a few times.
    """

    def __init__(self, mdp: MDP, alive: BoolArray, label: IntArray) -> None:
        arrivals = mdp.transitions.tocsc()
        self.alive, self.label, self.left = alive, label, np.bincount(mdp.pair_state)
        self._alive, self._label, self._left = alive.data, label.data, self.left.data
        self._first_pair = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1)).data
        self._pair_state = mdp.pair_state.data
        self._first_next, self._next = mdp.transitions.indptr.data, mdp.transitions.indices.data
        self._first_arrival, self._arrival = arrivals.indptr.data, arrivals.indices.data

    def cut_off(self, pairs: list[int], allowance: int) -> None:
        """Cuts `pairs`, then searches for traps from each state that lost one, while the allowance lasts.

        At first nearby, then further. A search costs the entries it looks at, except that each pair that
        it cuts pays for 64 of them. States that wait for a longer search wait in `far`.
        """
        reach, fresh = 4, int(self.label.max()) + 1
        near, far = self._lose(pairs), dict[int, None]()
        while near and allowance >= 0:
            state = near.popitem()[0]
            trap, cost = self._closure(state, reach)
            found = self._detach(trap, fresh) if trap else []
            far |= {} if trap else {state: None}
            near |= {s: None for s in self._lose(found) if s not in far}
            allowance -= max(0, cost - 64 * len(found))
            fresh += 1
            if not near:
                near, far, reach = far, {}, 4 * reach

    def _lose(self, pairs: list[int]) -> dict[int, None]:
        """Cuts the pairs; returns their states (keys alone: a set that keeps its order)."""
        for pair in pairs:
            self._alive[pair] = False
            self._left[self._pair_state[pair]] -= 1
        return dict.fromkeys(self._pair_state[pair] for pair in pairs)

    def _closure(self, state: int, reach: int) -> tuple[set[int], int]:
        """Returns all that `state` can reach, or nothing if that takes more than `reach` looks; the looks."""
        seen, stack, looks = {state}, [state], 0
        while stack:
            state = stack.pop()
            for pair in (
                range(self._first_pair[state], self._first_pair[state + 1]) if self._left[state] else ()
            ):
                looks += 1
                if looks > reach:
                    return set(), looks
                if self._alive[pair]:
                    ahead = self._next[self._first_next[pair] : self._first_next[pair + 1]]
                    looks += len(ahead)
                    stack.extend(s for s in ahead if s not in seen)
                    seen.update(ahead)
        return seen, looks

    def _detach(self, trap: set[int], fresh: int) -> list[int]:
        """Gives the trap a label of its own; returns the pairs alive that lead into it from outside."""
        for state in trap:
            self._label[state] = fresh
        into = set[int]()
        for state in trap:
            into.update(self._arrival[self._first_arrival[state] : self._first_arrival[state + 1]])
        return [p for p in into if self._alive[p] and self._label[self._pair_state[p]] != fresh]
