"""A finite controlled Markov chain as a list of state-action pairs.

A pair i is one action that one state allows; row i of `transitions` holds P(. | s_i, a_i). States may
have different action sets, so there is no S×A grid inside: n pairs, a sparse `[n, S]` matrix, and two
index vectors. The model is checked once, here, and never changes afterwards. Rewards, coverage and planning
are not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.documents import ADDED_LATER, LEFT_OUT, from_document, to_document
from rhocover.errors import InvalidArgumentError, InvalidModelError, parse_text
from rhocover.files import load_tensors, save_tensors, tensor_digest
from rhocover.layout import Layout, Ruler
from rhocover.plugins import ADAPTERS, load
from rhocover.printing import count_of, printed
from rhocover.showing import Shown
from rhocover.transitions import (
    check_each_state_once,
    check_fits_in_memory,
    checked_rows,
    read_available,
    read_pairs,
    read_sparse,
    read_transitions,
)

NO_WEIGHTS = parse_text("Leave `mu` out for equal weights.")
FROM_TABLE = "Make one with rc.MDP.from_gymnasium(env)."
NO_TABLE = (
    "rc.MDP.from_gymnasium(env) makes one of a table of transitions, `env.unwrapped.P`, which this "
    'environment does not have: learn it while exploring, with rc.explore(env, model="learned").'
)


@dataclass(frozen=True)
class StoredModel:
    """What a file stores of a model besides its arrays."""

    num_states: int
    num_actions: int
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None
    name: str
    note: str = field(default="", metadata=ADDED_LATER)
    rulers: tuple[Ruler, ...] = field(default=(), metadata=LEFT_OUT)


@dataclass(frozen=True, eq=False, init=False)
class MDP(Shown):
    """A finite Markov decision process without rewards.

    `MDP(P)` takes a dense `P[s, a, s_next]`; `MDP(P, num_actions=A)` takes a sparse `[S*A, S]` whose
    row `s*A + a` is P(. | s, a). `available[s, a] = False` removes an action from a state's set.

    >>> import rhocover as rc
    >>> mdp = rc.MDP([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    >>> mdp
    MDP(2 states, 2 actions, 4 pairs)
    """

    transitions: Matrix
    pair_state: IntArray
    pair_action: IntArray
    num_states: int
    num_actions: int
    start: FloatArray | None
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None
    layout: Layout | None
    name: str
    note: str  # what was left out when the model was converted from another form

    def __init__(
        self,
        P: Any,
        *,
        num_actions: int | None = None,
        available: Any = None,
        start: Any = None,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        layout: Layout | None = None,
        name: str = "",
        note: str = "",
    ) -> None:
        if isinstance(P, str | Path | MDP) or hasattr(P, "unwrapped"):
            remedy = "It is one already." if isinstance(P, MDP) else way_to_model(P)
            raise InvalidModelError.of("P", "must be probabilities", type(P).__name__, remedy=remedy)
        rows, num_actions, tolerance = read_transitions(P, num_actions)
        mask = read_available(available, rows.shape[1], num_actions)
        kept = np.flatnonzero(mask)
        rows = rows if mask.all() else rows[kept]
        rows = checked_rows(rows, kept // num_actions, kept % num_actions, tolerance)
        labels = (state_labels, action_labels, layout, name, note)
        self._fill(rows, kept // num_actions, kept % num_actions, num_actions, start, labels)

    def _fill(self, rows: Any, states: Any, actions: Any, num_actions: int, start: Any, labels: Any) -> None:
        state_labels, action_labels, layout, name, note = labels
        num_states = rows.shape[1]
        put = object.__setattr__
        put(self, "transitions", frozen_matrix(rows))
        put(self, "pair_state", frozen(np.asarray(states, np.int64)))
        put(self, "pair_action", frozen(np.asarray(actions, np.int64)))
        put(self, "num_states", int(num_states))
        put(self, "num_actions", int(num_actions))
        start = None if start is None else frozen(checks.distribution(start, "start", num_states))
        put(self, "start", start)
        put(self, "state_labels", checks.labels(state_labels, "state_labels", num_states))
        put(self, "action_labels", checks.labels(action_labels, "action_labels", num_actions))
        put(self, "layout", _checked_layout(layout, num_states, num_actions))
        put(self, "name", str(name))
        put(self, "note", str(note))

    @classmethod
    def from_pairs(
        cls,
        transitions: Any,
        states: Any,
        actions: Any,
        *,
        num_actions: int | None = None,
        start: Any = None,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        layout: Layout | None = None,
        name: str = "",
        note: str = "",
    ) -> MDP:
        """Returns the model whose pair i is (states[i], actions[i]) with row i of `transitions`."""
        rows, tolerance = read_sparse(transitions, "transitions")
        states, actions = read_pairs(states, actions, rows.shape)
        num_actions = int(actions.max()) + 1 if num_actions is None else num_actions
        num_actions = checks.integer(num_actions, "num_actions", least=int(actions.max()) + 1)
        order = np.lexsort((actions, states))
        if not np.array_equal(order, np.arange(order.size)):
            rows, states, actions = rows[order], states[order], actions[order]
        check_each_state_once(states, actions, rows.shape[1])
        rows = checked_rows(rows, states, actions, tolerance)
        mdp = object.__new__(cls)
        labels = (state_labels, action_labels, layout, name, note)
        mdp._fill(rows, states, actions, num_actions, start, labels)
        return mdp

    @classmethod
    def from_gymnasium(cls, env: Any, *, ends: str = "restart") -> MDP:
        """Returns the model of an environment that has a table of its transitions, `env.unwrapped.P`.

        Models never terminate: with `ends="restart"` a terminal transition leads back to the start
        distribution; with `ends="stay"` the terminal state is kept and never left, for plans with `discount`
        or `horizon`. Only states that can be reached from the start are kept; `note` says what was left out.
        """
        return load(ADAPTERS, "table_model")(env, ends=ends)

    @property
    def num_pairs(self) -> int:
        """The number of state-action pairs."""
        return int(self.pair_state.size)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of dynamics, pairs and start: models with the same fingerprint behave alike."""
        return tensor_digest(self._tensors() | {"num_actions": np.array([self.num_actions])})

    @printed
    def __repr__(self) -> str:
        title = f"{self.name}: " if self.name else ""
        return f"MDP({title}{size_text(self.num_states, self.num_actions, self.num_pairs)})"

    def table(self, values: Any, fill: float = 0.0) -> FloatArray:
        """Returns values per pair `[n]` as an array `[S, A]`; absent pairs hold `fill`."""
        result = np.full((self.num_states, self.num_actions), fill, dtype=float)
        values = checks.real_or_bool(values, "values")
        if values.ndim > 0:
            checks.check_shape(values.shape, "values", (self.num_pairs,))
        result[self.pair_state, self.pair_action] = values
        return result

    def per_pair(self, values: Any, name: str) -> FloatArray:
        """Returns `values`, given as `[S, A]` or `[n]`, as finite values per pair `[n]`."""
        array = checks.float_array(values, name)
        grid = (self.num_states, self.num_actions)
        if array.shape == grid:
            return array[self.pair_state, self.pair_action]
        if array.shape == (self.num_pairs,):
            return array
        raise InvalidArgumentError.of(
            name,
            f"must have shape {grid} (states, actions) or ({self.num_pairs},) (one value per pair)",
            f"{array.shape}",
            remedy=NO_WEIGHTS if name == "mu" else "",
        )

    def pair_name(self, pair: int) -> str:
        """Returns `(3, 1)`, or `(state label, action label)` if there are labels."""
        state, action = int(self.pair_state[pair]), int(self.pair_action[pair])
        s = self.state_labels[state] if self.state_labels else state
        a = self.action_labels[action] if self.action_labels else action
        return f"({s}, {a})"

    def dense(self) -> FloatArray:
        """Returns `P[s, a, s_next]`; absent pairs are rows of zeros."""
        shape = (self.num_states, self.num_actions, self.num_states)
        check_fits_in_memory("P", 8 * int(np.prod([float(k) for k in shape])))
        result = np.zeros(shape)
        result[self.pair_state, self.pair_action] = self.transitions.toarray()
        return result

    def subset(self, pairs: BoolArray) -> tuple[MDP, IntArray]:
        """Returns the model of the marked pairs alone, and the old number of each kept state.

        The marked pairs must be closed: they lead only to states that keep a pair.
        """
        pairs = checks.any_array(pairs, "pairs")
        checks.check_shape(pairs.shape, "pairs", (self.num_pairs,))
        if pairs.dtype != bool or not pairs.any():
            raise InvalidArgumentError.of("pairs", "must be a boolean array that marks at least one pair")
        states = np.unique(self.pair_state[pairs])
        renumber = np.full(self.num_states, -1, np.int64)
        renumber[states] = np.arange(states.size)
        rows = self.transitions[pairs]
        if (renumber[rows.indices] < 0).any():
            raise InvalidArgumentError.of("pairs", "must be closed: a marked pair leaves the marked set")
        rows = sp.csr_array((rows.data, renumber[rows.indices], rows.indptr),
                            shape=(rows.shape[0], states.size))  # fmt: skip
        start = None
        if self.start is not None and self.start[states].sum() > 0:
            start = self.start[states] / self.start[states].sum()
        kept_labels = self.state_labels and [self.state_labels[s] for s in states]
        return MDP.from_pairs(
            rows, renumber[self.pair_state[pairs]], self.pair_action[pairs],
            num_actions=self.num_actions, start=start, state_labels=kept_labels,
            action_labels=self.action_labels, name=self.name, note=self.note,
            layout=self.layout and self.layout.subset(states),
        ), states  # fmt: skip

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes the model to one file (see `rhocover.files`)."""
        save_tensors(path, "mdp", *stored_model(self), overwrite=overwrite)

    @classmethod
    def load(cls, path: Path | str) -> MDP:
        """Returns the model that `save` wrote; it is validated again."""
        tensors, document = load_tensors(path, "mdp")
        try:
            return model_of_stored(tensors, document)
        except UNREADABLE as error:
            raise InvalidModelError(
                f"`{path}` does not hold a valid model: {error}", argument="path"
            ) from error

    def _tensors(self) -> dict[str, np.ndarray]:
        tensors = {
            "data": self.transitions.data,
            "indices": self.transitions.indices.astype(np.int64),
            "indptr": self.transitions.indptr.astype(np.int64),
            "pair_state": self.pair_state,
            "pair_action": self.pair_action,
        }
        return tensors if self.start is None else tensors | {"start": self.start}

    def _layout_tensors(self) -> dict[str, np.ndarray]:
        if self.layout is None:
            return {}
        tensors = {"positions": self.layout.positions}
        if self.layout.directions is not None:
            tensors["directions"] = self.layout.directions
        return tensors


def stored_model(mdp: MDP) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the arrays and the document that a file has of a model."""
    rulers = () if mdp.layout is None else mdp.layout.rulers
    named = (mdp.state_labels, mdp.action_labels, mdp.name, mdp.note)
    document = to_document(StoredModel(mdp.num_states, mdp.num_actions, *named, rulers))
    return mdp._tensors() | mdp._layout_tensors(), document


def model_of_stored(tensors: dict[str, np.ndarray], document: Any) -> MDP:
    """Returns the model that `stored_model` described; raises for anything else, also errors of NumPy."""
    found = from_document(StoredModel, document, "its description")
    shape = (tensors["pair_state"].size, found.num_states)
    if tensors["data"].dtype != np.float64:  # some versions of SciPy would compute in a lower precision
        raise TypeError(f"its probabilities are {tensors['data'].dtype}, expected float64.")
    rows = sp.csr_array((tensors["data"], tensors["indices"], tensors["indptr"]), shape=shape)
    rows.check_format(full_check=True)
    layout = None
    if "positions" in tensors:
        layout = Layout(tensors["positions"], tensors.get("directions"), found.rulers)
    return MDP.from_pairs(
        rows, tensors["pair_state"], tensors["pair_action"],
        num_actions=found.num_actions, start=tensors.get("start"),
        state_labels=found.state_labels, action_labels=found.action_labels,
        layout=layout, name=found.name, note=found.note,
    )  # fmt: skip


UNREADABLE = (KeyError, TypeError, IndexError, ValueError, OverflowError)  # of arrays that are no model


def size_text(num_states: int, num_actions: int, num_pairs: int) -> str:
    """Returns the size of a model: "6 states, 2 actions, 12 pairs"."""
    states, actions = count_of(num_states, "state"), count_of(num_actions, "action")
    return f"{states}, {actions}, {count_of(num_pairs, 'pair')}"


def check_mdp(mdp: Any, name: str = "mdp") -> MDP:
    """Returns the model; refuses anything else, and says how to make a model of it."""
    if not isinstance(mdp, MDP):
        raise InvalidArgumentError.of(name, "must be an MDP", type(mdp).__name__, remedy=way_to_model(mdp))
    return mdp


def way_to_model(given: Any) -> str:
    """Returns how to make a model of something else: an environment, a name, a file, an array."""
    if hasattr(given, "unwrapped"):
        return FROM_TABLE if hasattr(given.unwrapped, "P") else NO_TABLE
    if not isinstance(given, str | Path):
        return "Make one with rc.MDP(P)."
    name = repr(str(given))
    if str(given).endswith(".safetensors"):
        return f"Make one with rc.MDP.load({name})."
    if checks.is_gymnasium_id(str(given)):
        return f"Make one with rc.MDP.from_gymnasium(gymnasium.make({name}))."
    return f"Make one with rc.envs.make({name})."


def _checked_layout(layout: Layout | None, num_states: int, num_actions: int) -> Layout | None:
    if layout is None:
        return None
    if not isinstance(layout, Layout):
        raise InvalidArgumentError.of("layout", "must be a Layout", type(layout).__name__)
    checks.check_shape(layout.positions.shape, "layout.positions", (num_states, 2))
    if layout.directions is not None:
        checks.check_shape(layout.directions.shape, "layout.directions", (num_actions, 2))
    return layout
