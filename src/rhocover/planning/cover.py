r"""What is covered: y = C d, the visits of groups of pairs, and one weight per group.

Row g of C says how much of each visit counts for group g. Columns sum to at most 1, so y is a share of the
visits; a pair whose column is zero belongs to no group, and is only on the way.

| `cover` | groups | C |
|---|---|---|
| "states" | states | 1 for the actions of the state |
| "transitions" | possible transitions (s, a, s') | P(s'\|s, a) |
| "visits" | pairs, over all steps of an episode | 1 for each step |
| labels `[S]`, `[S, A]` or `[n]` | 0, 1, 2, ...; negative labels are in no group | 1 for the label's group |
| a matrix `[G, n]` | its rows | itself |

Over the steps of an episode all groups are summed, whereas `cover="pairs"` covers each step by itself. Which
groups can be visited, and how they are planned for, is in `covering`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix
from rhocover.coverage import checked_weights
from rhocover.errors import InvalidArgumentError, Setting, parse_text, unknown_name
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning.problem import weights_of
from rhocover.weights import NAMED

PAIRS, STATES, TRANSITIONS, VISITS = "pairs", "states", "transitions", "visits"
NAMES = (PAIRS, STATES, TRANSITIONS, VISITS)
LABELS, MATRIX = "labels", "matrix"
MOST_GROUPS = 2**27  # a label beyond it is a mistake, and a matrix of as many rows does not fit into memory
SUM_TOLERANCE = 1e-9  # of a column: rounding in the caller's own division


@dataclass(frozen=True, eq=False)
class Cover:
    """The groups that are covered, over the pairs of a model."""

    mdp: MDP
    kind: str
    matrix: Matrix  # C, [G, n]

    @property
    def num_groups(self) -> int:
        """The number of groups G."""
        return int(self.matrix.shape[0])

    def over(self, members: Occupancies, kept: BoolArray) -> Matrix:
        """Returns C over the entries of a set, `[G, N]`: of the `kept` pairs, or of those at each step."""
        if members.num_steps is None:
            return self.matrix if kept.all() else sp.csr_array(self.matrix[:, kept])
        return sp.csr_array(self.matrix.tocsc()[:, members.pair])

    def table(self, values: FloatArray) -> FloatArray:
        """Returns one value per group as a plan reports it: `[S, A]` for visits, `[G]` for all others."""
        return self.mdp.table(values) if self.kind == VISITS else values

    def name(self, group: int) -> str:
        """Returns the name of a group for a sentence."""
        return group_name(self.mdp, self.kind, group)

    def read_weights(self, mu: Any) -> FloatArray:
        """Returns one weight per group, `[G]`; None is one for each."""
        if mu is None or (isinstance(mu, str) and mu == "uniform"):
            return np.ones(self.num_groups)
        if self.kind == VISITS:
            mu = checks.float_array(weights_of(self.mdp, mu), "mu")
            checks.check_nonnegative(mu, "mu")
            return checked_weights(self.mdp.per_pair(mu, "mu"), "mu")
        if isinstance(mu, str):
            raise self._refused_name(mu)
        mu = checks.float_array(weights_of(self.mdp, mu), "mu")
        if self.kind == TRANSITIONS and mu.ndim == 3:
            mu = self._of_transitions(mu)
        if mu.shape != (self.num_groups,):
            raise InvalidArgumentError.of(
                "mu",
                parse_text(f"must have one weight for each of {self.num_groups} {self.plural} of `cover`"),
                f"shape {mu.shape}",
            )
        return checked_weights(mu, "mu")

    @property
    def plural(self) -> str:
        """What the groups are called."""
        return f"{unit_name(self.kind)}s"

    def _of_transitions(self, mu: FloatArray) -> FloatArray:
        """Returns the weights `[S, A, S]` of the transitions that are possible."""
        mdp = self.mdp
        checks.check_shape(mu.shape, "mu", (mdp.num_states, mdp.num_actions, mdp.num_states))
        pair, target = transitions_of(mdp)
        return mu[mdp.pair_state[pair], mdp.pair_action[pair], target]

    def _refused_name(self, mu: str) -> InvalidArgumentError:
        if mu not in NAMED:
            return unknown_name(parse_text("weights for `mu`"), mu, ("uniform",), argument="mu")
        return InvalidArgumentError.of(
            "mu", f"must have one weight for each of {self.num_groups} {self.plural}",
            f"{mu!r}, which has one per pair",
            remedy=f"Add them up, for example: rc.weights.{mu}(mdp).sum(axis=1) has one per state.",
        )  # fmt: skip


def unit_name(kind: str) -> str:
    """Returns what one of the groups is called."""
    return {PAIRS: "pair", VISITS: "pair", STATES: "state", TRANSITIONS: "transition"}.get(kind, "group")


def group_name(mdp: MDP, kind: str, group: int) -> str:
    """Returns the name of a group: that of a state, a pair or a transition, or its number."""
    if kind == STATES:
        return str(mdp.state_labels[group]) if mdp.state_labels else f"state {group}"
    if kind == VISITS:
        return mdp.pair_name(group)
    if kind == TRANSITIONS:
        pair, target = (
            int(np.searchsorted(mdp.transitions.indptr, group, "right")) - 1,
            transitions_of(mdp)[1],
        )
        after = int(target[group])
        return f"{mdp.pair_name(pair)} to {mdp.state_labels[after] if mdp.state_labels else after}"
    return f"group {group}"


def group_shape(mdp: MDP, kind: str, count: int) -> tuple[int, ...]:
    """Returns the shape of weights and shares; `count` groups unless the model says how many there are."""
    known = {STATES: (mdp.num_states,), TRANSITIONS: (mdp.transitions.nnz,)}
    return (mdp.num_states, mdp.num_actions) if kind == VISITS else known.get(kind, (count,))


def transitions_of(mdp: MDP) -> tuple[IntArray, IntArray]:
    """Returns the pair and the next state of each possible transition, in the order of the groups."""
    P = mdp.transitions
    return np.repeat(np.arange(mdp.num_pairs), np.diff(P.indptr)), P.indices.astype(np.int64)


def is_pairs(cover: Any) -> bool:
    """Whether the argument `cover` asks for pairs."""
    return isinstance(cover, str) and cover == PAIRS


def read_cover(mdp: MDP, cover: Any, *, has_steps: bool) -> Cover:
    """Returns the groups that the argument `cover` describes; `has_steps` says whether there is a horizon."""
    if isinstance(cover, str):
        return _named(mdp, checks.choice(cover, "cover", NAMES), has_steps=has_steps)
    if sp.issparse(cover):
        return Cover(mdp, MATRIX, _checked_matrix(mdp, sp.csr_array(cover)))
    array = checks.float_array(cover, "cover")
    if array.shape in ((mdp.num_states,), (mdp.num_pairs,), (mdp.num_states, mdp.num_actions)):
        return Cover(mdp, LABELS, _by_label(mdp, array))
    if array.ndim == 2 and array.shape[1] == mdp.num_pairs:
        return Cover(mdp, MATRIX, _checked_matrix(mdp, sp.csr_array(array)))
    raise InvalidArgumentError.of(
        "cover",
        f"must be one of {', '.join(NAMES)}; a label for each of {mdp.num_states} states or "
        f"{mdp.num_pairs} pairs; or a matrix with a column for each pair",
        f"shape {array.shape}",
    )


def _named(mdp: MDP, name: str, *, has_steps: bool) -> Cover:
    n = mdp.num_pairs
    if name == STATES:
        return Cover(mdp, name, _indicator(mdp.pair_state, mdp.num_states))
    if name == TRANSITIONS:
        P, (pair, _) = mdp.transitions, transitions_of(mdp)
        count = pair.size
        return Cover(mdp, name, sp.csr_array((P.data, pair, np.arange(count + 1)), shape=(count, n)))
    if name == VISITS and not has_steps:
        raise InvalidArgumentError.of(
            "cover", "'visits' sums over the steps of an episode, so it needs a horizon",
            remedy=("Pass ", Setting("horizon", "20"), " or ", Setting("cover", "'pairs'", "pairs"), "."),
        )  # fmt: skip
    return Cover(mdp, name, _indicator(np.arange(n), n))


def _indicator(group: IntArray, count: int) -> Matrix:
    """Returns C for pairs that each belong to one group; -1 is none."""
    inside = np.flatnonzero(group >= 0)
    return sp.csr_array((np.ones(inside.size), (group[inside], inside)), shape=(count, group.size))


def _by_label(mdp: MDP, labels: FloatArray) -> Matrix:
    """Returns C for labels, whole numbers; negative ones are in no group."""
    wrong = np.argwhere(labels != np.round(labels))
    if wrong.size:
        place = tuple(int(i) for i in wrong[0])
        raise InvalidArgumentError.of(
            checks.at("cover", place), "must be a whole number, the label of a group", f"{labels[place]:g}"
        )
    if labels.shape == (mdp.num_states,):
        labels = labels[mdp.pair_state]
    elif labels.ndim == 2:
        labels = labels[mdp.pair_state, mdp.pair_action]
    if not (labels >= 0).any():
        raise InvalidArgumentError.of("cover", "must put some pair into a group: all labels are negative")
    if labels.max() >= MOST_GROUPS:
        raise InvalidArgumentError.of(
            "cover",
            f"must have labels below {MOST_GROUPS}",
            f"{labels.max():g}",
            remedy="Number groups from 0.",
        )
    group = np.maximum(labels, -1.0).astype(np.int64)
    return _indicator(group, int(group.max()) + 1)


def _checked_matrix(mdp: MDP, C: Matrix) -> Matrix:
    """Returns C as floats, if it is one: non-negative, with columns that sum to at most 1."""
    if C.ndim != 2 or C.shape[1] != mdp.num_pairs or not C.shape[0]:
        raise InvalidArgumentError.of(
            "cover",
            f"must have a row for each group and a column for each of {mdp.num_pairs} pairs",
            f"shape {C.shape}",
        )
    data = checks.float_array(C.data, "cover")
    if (data < 0).any():
        raise InvalidArgumentError.of("cover", "must be non-negative", f"{data.min():g}")
    C = sp.csr_array((data, C.indices, C.indptr), shape=C.shape)
    C.sum_duplicates()
    C.eliminate_zeros()
    total = np.asarray(C.sum(axis=0)).ravel()
    if total.max(initial=0.0) > 1 + SUM_TOLERANCE:
        worst = int(np.argmax(total))
        raise InvalidArgumentError.of(
            "cover", "must have columns that sum to at most 1, because they divide a visit among the groups",
            f"{total[worst]:g} for pair {mdp.pair_name(worst)}",
            remedy="Divide the matrix by C.sum(axis=0).max().",
        )  # fmt: skip
    if not C.nnz:
        raise InvalidArgumentError.of("cover", "must put some pair into a group: all entries are zero")
    return C
