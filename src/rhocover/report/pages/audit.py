"""The page of an audit: what a data set covers, what it does not, and how certain that is.

A data set has no model, so its pairs are drawn on a model that is used for drawing only: it has the states,
actions, names and positions of the data, and every pair that was visited or has positive weight. The curves
over time show the data batch by batch, in its own order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.datasets.result import Audit
from rhocover.datasets.tally import Tally
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief.certificates import Certificate
from rhocover.layout import Layout
from rhocover.mdp import MDP
from rhocover.printing import count_of
from rhocover.report import pages
from rhocover.report.figures.lines import curve_of
from rhocover.report.figures.over_time import worst_ratio_figure
from rhocover.report.pages.visits import PairShares, discovery_figure, least_section, visits_section

NEAR = 1.1  # a worst ratio within this factor of the best plan's counts as good
FEWEST = 3  # points that make a curve
NO_ORDER = "has too few batches of visits to show them over time"
WORST = (
    "The factor by which the least covered pair falls short, from the step where every pair had a visit. It "
    "should approach the dashed line, the best plan."
)


def page_of_audit(audit: Audit, *, command: str = "") -> pages.Page:
    """Returns the page of an audit."""
    seen = visits_of_audit(audit)
    return replace(
        head_of_audit(audit),
        sections=pages.sections(
            visits_section("Where the visits went, and where they should be", seen, shares_of_audit(audit)),
            least_section(seen),
            _time_section(audit),
            _certainty_section(audit),
            pages.settings_section(_entries(audit), command),
            pages.glossary_section(
                "pair", "mu", "rho", "occupancy", "divergence", "worst ratio", "certified gap",
                             "plan"),
        ),
    )  # fmt: skip


def head_of_audit(audit: Audit) -> pages.Page:
    """Returns the page of an audit without its sections: the verdict and the most important numbers."""
    title = f"{audit.tally.source}, rho = {pages.order_words(audit.rho)}"
    verdict = pages.Verdict(audit.verdict, *_word(audit))
    return pages.Page("An audit of a data set", title, verdict, _numbers(audit))


def shares_of_audit(audit: Audit) -> dict[str, FloatArray]:
    """Returns the shares of the visits by name: of the data and, if it is known, of the best plan."""
    shares = {"in the data": audit.occupancy}
    if audit.best_occupancy is not None:
        shares["best plan" if audit.is_best_of_all else "best of observed model"] = audit.best_occupancy
    return shares


def visits_of_audit(audit: Audit) -> PairShares:
    """Returns the shares of the target, of the data and of the best plan."""
    target = audit.weights / audit.weights.max()
    target = target / target.sum()
    canvas = canvas_of(audit.tally, audit.layout, (target > 0) | (audit.counts > 0))
    return PairShares(canvas, target, audit.occupancy, audit.counts, _known_best(audit))


def _known_best(audit: Audit) -> FloatArray | None:
    """Returns each pair's share in the best plan; nan if the observed model does not have the pair."""
    best = audit.best_occupancy
    if best is None or audit.is_exact:
        return best
    return np.where((best == 0) & (audit.counts == 0), np.nan, best)


def canvas_of(tally: Tally, layout: Layout | None, kept: BoolArray) -> MDP:
    """Returns a model to draw the `kept` pairs `[S, A]` of a data set on; its transitions are arbitrary."""
    kept = kept.copy()
    kept[~kept.any(axis=1), 0] = True  # every state needs at least one pair
    states, actions = np.nonzero(kept)
    stays = sp.csr_array(
        (np.ones(states.size), states, np.arange(states.size + 1)), shape=(states.size, len(kept))
    )
    names = tally.state_names or [str(key) for key in tally.keys]
    return MDP.from_pairs(
        stays, states, actions, num_actions=kept.shape[1], state_labels=names,
        action_labels=tally.action_names, layout=layout,
    )  # fmt: skip


def _word(audit: Audit) -> tuple[str, pages.Tone]:
    if not audit.is_complete:
        return "Coverage is incomplete", "poor"
    if audit.worst_ratio <= NEAR * audit.best_worst_ratio:
        return "Covered", "good"
    return "Covered, but unevenly", "fair"


def _numbers(audit: Audit) -> tuple[pages.KeyNumber, ...]:
    covered = pages.KeyNumber(
        audit.coverage_text.removesuffix(" pairs"),
        "pairs covered",
        "Visited at least once, of those with positive weight.",
    )
    steps = pages.KeyNumber(f"{audit.tally.num_steps:,}", "steps", episodes_words(audit.tally))
    if not audit.is_complete:
        among = pages.KeyNumber(
            pages.ratio_words(audit.visited_worst_ratio), "worst ratio of visited pairs",
            "The factor by which the least covered of the visited pairs falls short.",
        )  # fmt: skip
        return covered, among, steps
    worst, best = pages.ratio_words(audit.worst_ratio), audit.best_worst_ratio
    possible = "" if math.isnan(best) else f" In the best plan: 1/{pages.ratio_words(best)}."
    model = "of the model" if audit.is_exact else "of the observed model"
    return (
        covered,
        pages.KeyNumber(worst, "worst ratio",
                  f"The least covered pair has 1/{worst} of its share.{possible}"),
        pages.KeyNumber(pages.small_words(audit.gap), "gap to the best",
                  f"Nats of divergence above the best policy {model}; {_good(audit.gap)}."),
        steps,
    )  # fmt: skip


def _good(gap: float) -> str:
    return "below 0 by chance, which no policy reaches in the long run" if gap < 0 else "0 is optimal"


def episodes_words(tally: Tally) -> str:
    """Returns in how many episodes, and how many of them were truncated."""
    many = f"In {tally.num_episodes:,} episodes" if tally.num_episodes > 1 else "In one long episode"
    return f"{many}, {tally.num_truncated:,} of them truncated." if tally.num_truncated else f"{many}."


def _time_section(audit: Audit) -> pages.Section | None:
    """Returns coverage over time, if the order of the data is known."""
    steps, _, worst = _progress(audit)
    if len(steps) < FEWEST:
        return None
    return pages.section("Over time", progress_picture(audit), _ratio_picture(audit, steps, worst))


def progress_picture(audit: Audit, title: str = "") -> pages.Picture:
    """Returns how many pairs were visited over the steps of the data; raises if their order is not known."""
    steps, visited, _ = _progress(audit)
    if len(steps) < FEWEST:
        raise InvalidArgumentError.of("kind", f"cannot be 'over_time': {audit.tally.source} {NO_ORDER}")
    figure = discovery_figure(steps, visited, audit.num_pairs, title)
    caption = "The number of pairs with positive weight visited at least once, over the steps of the data."
    return pages.Picture(figure, caption, f"A curve that ends at {audit.coverage_text}.")


def _progress(audit: Audit) -> tuple[IntArray, IntArray, FloatArray]:
    """Returns steps, pairs visited and worst ratio after each batch of the data, `[K]` each."""
    weights = audit.weights.ravel()
    kept = np.flatnonzero(weights)
    target, rows = weights[kept] / weights[kept].sum(), {}
    for counts in running_counts(audit.tally):
        steps = int(counts.sum())
        with np.errstate(divide="ignore"):
            worst = float((target * steps / counts[kept]).max())
        rows[steps] = np.count_nonzero(counts[kept]), worst if np.isfinite(worst) else math.nan
    visited, ratio = zip(*rows.values(), strict=True)
    return np.array([*rows]), np.array(visited), np.array(ratio)


def running_counts(tally: Tally) -> Iterator[IntArray]:
    """Yields the visit counts `[S*A]` after each batch of the data, and at its end."""
    counts = np.zeros(tally.counts.size, np.int64)
    for number in range(tally.batches.shape[0]):
        batch = tally.batches[[number]]
        counts[batch.indices] += batch.data
        yield counts
    yield tally.counts.ravel()


def _ratio_picture(audit: Audit, steps: IntArray, worst: FloatArray) -> pages.Picture | None:
    if not audit.is_complete:
        return None
    figure = worst_ratio_figure({"the data": curve_of(steps, worst)}, best=audit.best_worst_ratio)
    end = pages.ratio_words(audit.worst_ratio)
    return pages.Picture(figure, WORST, f"A curve that ends at a worst ratio of {end}.")


def _certainty_section(audit: Audit) -> pages.Section:
    jumps, certificate = audit.tally.num_jumps, audit.certificate
    seen = "No model was given, so the best policy is that of the observed transitions."
    return pages.section(
        "How sure this is",
        "" if audit.is_exact else seen,
        None if certificate is None else _gaps(certificate, audit.is_exact),
        "" if certificate is None else _condition(certificate),
        f"{audit.mixing.statement.rstrip('.').capitalize()}.",
        audit.observed_note,
        f"{jumps:,} rows do not start in the state that the previous row led to." if jumps else "",
        *(() if audit.codes is None else audit.codes.notes),
        *audit.tally.remarks,
    )


def _gaps(certificate: Certificate, is_exact: bool) -> pages.Table:
    caption = "How far the divergence of the data is above that of the best policy."
    first = "computed from the model" if is_exact else "estimated"
    sure = "upper bound" if is_exact else f"upper bound, with probability {1 - certificate.delta:g}"
    rows = (
        (first, pages.small_words(certificate.plug_in_gap)),
        (sure, pages.certified_words(certificate)),
    )  # fmt: skip
    return pages.Table(caption, ("gap to the best", "nats"), rows)


def _condition(certificate: Certificate) -> str:
    """Returns what the certificate assumes, or why it proves nothing."""
    if certificate.proves_nothing:
        return f"The certificate {certificate}."
    if not math.isfinite(certificate.gap):
        said = str(certificate)
        return f"{said[:1].upper()}{said[1:]}."
    return f"The bound holds {certificate.condition}." if certificate.condition else ""


def _states(audit: Audit) -> str:
    """Returns the number of states met and, if known, the number of all states."""
    return str(audit.met) if audit.met else count_of(len(audit.tally.met_keys), "state", ",")


def _entries(audit: Audit) -> list[tuple[str, str]]:
    tally = audit.tally
    return [
        ("data", tally.source),
        ("states and actions", f"{_states(audit)} met, {count_of(tally.num_actions, 'action', ',')}"),
        ("rho", pages.order_words(audit.rho)),
        ("weights mu", pages.weights_words(audit.weights)),
        ("best policy of", "the given model" if audit.is_exact else "the observed transitions"),
        ("steps", f"{tally.num_steps:,}"),
    ]
