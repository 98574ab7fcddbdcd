"""Figures of a model itself: how random each pair is, and which states lead to which.

The map shows the entropy of the next state of each pair, in bits: 0 is deterministic, 1 is as random as a
fair coin. It is what makes a pair take many visits to learn. The matrix shows the probability of each next
state if actions are uniformly random, on a logarithmic scale; it needs no layout. Of a large model it shows
blocks of neighbouring states, with the mean over the states of a block.
"""

from __future__ import annotations

import matplotlib
import numpy as np
import scipy.sparse as sp
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from rhocover.checks import FloatArray
from rhocover.mdp import MDP
from rhocover.report.figures.drawing import LINE, MARGIN, SHARP, NotebookFigure, axes_at, drawing
from rhocover.report.figures.maps import Scale, is_split, map_figure, number_sides, round_numbers

# Entropy.


def entropy_of(mdp: MDP) -> FloatArray:
    """Returns the entropy of the next state of each pair, `[n]`, in bits."""
    P = mdp.transitions
    terms = P.data * np.log2(P.data, out=np.zeros_like(P.data), where=P.data > 0)
    rows = np.repeat(np.arange(mdp.num_pairs), np.diff(P.indptr))
    return np.maximum(-np.bincount(rows, terms, mdp.num_pairs), 0.0)  # rounding may leave -1e-17


def entropy_figure(mdp: MDP, title: str = "") -> Figure:
    """Returns a map of the entropy of the next state of each pair, for a model with a layout."""
    values = entropy_of(mdp)
    if not is_split(mdp):
        most = np.zeros(mdp.num_states)
        np.maximum.at(most, mdp.pair_state, values)
        values = most
    with drawing():
        return map_figure(mdp, {"": values}, _entropy_scale(values, is_split(mdp)), title)


def _entropy_scale(values: FloatArray, is_each: bool) -> Scale:
    largest = float(values.max()) or 1.0
    ticks = round_numbers(0.0, largest, 5)
    return Scale(
        colours=matplotlib.colormaps["cividis"],
        norm=Normalize(0.0, largest),
        label=f"entropy of the next state, bits{'' if is_each else ', most random action'}",
        ticks=ticks,
        tick_labels=tuple(f"{tick:.3g}" for tick in ticks),
        outline="0.7",
        ends=("deterministic", ""),
    )


# The matrix of transitions.

MOST_CELLS = 200  # on a side: the matrix of a larger model shows blocks of states
SIDE, LEFT, RIGHT, BELOW = 3.6, 0.75, 1.35, 0.6  # inches
FAINTEST = 1e-4  # of the largest probability: what is smaller has the same colour


def transitions_figure(mdp: MDP, title: str = "") -> Figure:
    """Returns the probabilities of the next state under uniformly random actions, as a matrix."""
    table = blocks_of(mdp)
    top = MARGIN + (LINE if title else 0.0)
    with drawing():
        figure = NotebookFigure(figsize=(LEFT + SIDE + RIGHT, top + SIDE + BELOW), dpi=SHARP)
        figure.text(
            LEFT / (LEFT + SIDE + RIGHT), 1 - MARGIN / (top + SIDE + BELOW), title, fontsize=12, va="top"
        )
        axes = axes_at(figure, LEFT, top + 0.1, SIDE, SIDE)
        norm = LogNorm(FAINTEST * table.max(), table.max())
        shown = np.ma.masked_equal(np.where(table > 0, np.maximum(table, norm.vmin or 0), 0.0), 0.0)
        end = mdp.num_states - 0.5
        axes.imshow(shown, cmap="viridis", norm=norm, extent=(-0.5, end, end, -0.5), interpolation="nearest")
        number_sides(axes, "next state", "state", length=2)
        bar = axes_at(figure, LEFT + SIDE + 0.15, top + 0.1, 0.16, SIDE)
        figure.colorbar(ScalarMappable(norm, "viridis"), cax=bar)
        bar.set_ylabel(f"probability{'' if len(table) == mdp.num_states else ', mean of a block'}; white: 0")
        bar.minorticks_off()
    return figure


def blocks_of(mdp: MDP) -> FloatArray:
    """Returns the mean of the transition matrix over actions `[S, S]`, or over blocks of states, too."""
    number = min(mdp.num_states, MOST_CELLS)
    block = np.arange(mdp.num_states) * number // mdp.num_states
    share = 1 / np.bincount(mdp.pair_state)[mdp.pair_state]
    rows = sp.csr_array(
        (share, (block[mdp.pair_state], np.arange(mdp.num_pairs))), shape=(number, mdp.num_pairs)
    )
    columns = sp.csr_array((np.ones(block.size), (np.arange(block.size), block)), shape=(block.size, number))
    return (rows @ mdp.transitions @ columns).toarray() / np.bincount(block)[:, None]
