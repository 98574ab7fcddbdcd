"""The page of a model: its size, how random it is, and whether all of it can be visited again and again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rhocover.chains import maximal_end_components
from rhocover.mdp import MDP
from rhocover.report import pages
from rhocover.report.figures.model import entropy_figure, entropy_of, transitions_figure

MOST_LISTED = 10  # pairs in a table
MOST_CHECKED = 2_000_000  # probabilities up to which end components take about a second
ENTROPY = (
    "How random the next state of each pair is, in bits: 0 is deterministic, 1 is a fair coin. Random pairs "
    "take many visits to learn."
)
MATRIX = "The probability of each next state if actions are uniformly random; white is impossible."


def page_of_model(mdp: MDP) -> pages.Page:
    """Returns the page of a model."""
    matrix = pages.Picture(transitions_figure(mdp), MATRIX, "A matrix of states and next states.")
    entropy = [] if mdp.layout is None else [model_picture(mdp)]
    entries = [*pages.model_entries(mdp), ("start", _start(mdp)), ("fingerprint", mdp.fingerprint[:16])]
    return replace(
        head_of_model(mdp),
        sections=pages.sections(
            pages.section("How it moves", *entropy, matrix),
            pages.section("The most random pairs", random_pairs(mdp)),
            pages.settings_section(entries),
            pages.glossary_section("pair"),
        ),
    )


def head_of_model(mdp: MDP) -> pages.Page:
    """Returns the page of a model without its sections: what can be visited, and its size."""
    return pages.Page("A Markov decision process", mdp.name or "without a name", _verdict(mdp), _numbers(mdp))


def _verdict(mdp: MDP) -> pages.Verdict:
    if mdp.transitions.nnz > MOST_CHECKED:
        return pages.Verdict("Whether every pair can be visited again and again is checked by plan().")
    found = maximal_end_components(mdp)
    lost = int(np.count_nonzero(found.pair_label < 0))
    if found.count == 1 and not lost:
        text = "Every pair can be visited again and again, from every state."
        return pages.Verdict(text, "Communicating", "good")
    parts = "one part" if found.count == 1 else f"one of {found.count:,} separate parts"
    pairs = "1 pair is in none" if lost == 1 else f"{lost:,} pairs are in none"
    return pages.Verdict(
        f"A long run stays in {parts} of the model; {pairs} and cannot be visited again and again. Plans "
        "need restrict=True, or a discount or a horizon.", "Not communicating", "fair",
    )  # fmt: skip


def model_picture(mdp: MDP, title: str = "") -> pages.Picture:
    """Returns the map of a model, or its matrix of transitions if it has no layout."""
    if mdp.layout is None:
        return pages.Picture(transitions_figure(mdp, title), MATRIX, "A matrix of states and next states.")
    alt = (
        "A map of the entropy of the next state of each pair. The table of the most random pairs has numbers."
    )
    return pages.Picture(entropy_figure(mdp, title), ENTROPY, alt)


def random_pairs(mdp: MDP, number: int = MOST_LISTED) -> pages.Table:
    """Returns the table of the most random pairs."""
    entropy = entropy_of(mdp)
    order = np.argsort(-entropy, kind="stable")[:number]
    successors = np.diff(mdp.transitions.indptr)
    rows = tuple((mdp.pair_name(int(k)), f"{entropy[k]:.3g}", f"{successors[k]:,}") for k in order)
    caption = f"{len(rows)} of {mdp.num_pairs:,} pairs, the most random first."
    return pages.Table(caption, ("pair", "entropy of the next state, bits", "possible next states"), rows)


def _numbers(mdp: MDP) -> tuple[pages.KeyNumber, ...]:
    is_random = int(np.count_nonzero(np.diff(mdp.transitions.indptr) > 1))
    actions = (
        "in every state" if mdp.num_pairs == mdp.num_states * mdp.num_actions else "not all in every state"
    )
    return (
        pages.KeyNumber(f"{mdp.num_states:,}", "states", _start(mdp)),
        pages.KeyNumber(f"{mdp.num_actions:,}", "actions", f"Possible {actions}."),
        pages.KeyNumber(
            f"{mdp.num_pairs:,}", "pairs", f"{is_random:,} of them with more than one next state."
        ),
        pages.KeyNumber(f"{mdp.transitions.nnz:,}", "transitions", "With positive probability."),
    )


def _start(mdp: MDP) -> str:
    """Returns where runs start, in words."""
    if mdp.start is None:
        return "No start is given."
    states = np.flatnonzero(mdp.start)
    if states.size > 1:
        return f"Runs start in one of {states.size:,}."
    state = int(states[0])
    return f"Runs start in {mdp.state_labels[state] if mdp.state_labels else state}."
