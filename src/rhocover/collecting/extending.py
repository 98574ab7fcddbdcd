"""Acting in an environment as someone who has seen a data set before the first step.

With a table only the visits count. Without one the old transitions are the beginning of what is learned; an
end leads to the starts in their proportions, in whole numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.collecting.atlas import Atlas, Map
from rhocover.collecting.expedition import Expedition
from rhocover.collecting.exploring import Report, make_world
from rhocover.collecting.records import Recorder
from rhocover.datasets.tally import Tally
from rhocover.exploring.explorer import Explorer, State
from rhocover.exploring.learned import LearnedModel
from rhocover.exploring.loop import keep_going
from rhocover.exploring.runner import Runner, Standing
from rhocover.linalg.normal_equations import one_blas_thread


def extend(
    trip: Expedition, before: Tally, *, recorder: Recorder | None = None, report: Report | None = None,
    env: Any = None, pause: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Takes the steps of an expedition; its explorer has seen `before`, by the environment's own keys."""
    settings, steps = trip.settings, before.num_steps
    with one_blas_thread(), trip.timing:
        chart = trip.chart()
        moves = _recalled(chart, before)
        world = make_world(trip, chart, recorder, env)
        position = world.begin()
        seen = world.none()
        if moves is not None:
            seen.moves[: moves.size] = moves
        state = _begun(trip, chart, before, settings.actor, seen.moves)
        standing = Standing(state, position, seen, [], [], position.states.copy())
        runner = Runner(lambda counts, step: [float(step)], settings.actor, world,
                        [steps + settings.num_steps], standing, None, trip.problem)  # fmt: skip
        bar = None if report is None else lambda done, total: report(done - steps, total)
        keep_going(runner, settings.num_steps, bar, pause)


def _recalled(chart: Map, before: Tally) -> IntArray | None:
    """Returns the transitions of the old data; None where a table knows better."""
    if not isinstance(chart, Atlas):
        return None
    number = np.array([chart.numbers.get(key, -1) for key in before.keys], np.int64)
    for place, key in enumerate(before.keys):
        if number[place] < 0:
            number[place] = chart.meet(key)
        if before.starts[place]:
            chart.begins(int(number[place]))
    moves = (before.moves + _restarts(before)).tocoo()
    pair, state = moves.coords
    A = before.num_actions
    return chart.recall(number[pair // A] * A + pair % A, number[state], moves.data)


def _restarts(before: Tally) -> Any:
    """Returns where ends led, in whole numbers: shared out among the starts by their frequency."""
    import scipy.sparse as sp

    pairs = np.flatnonzero(before.ends)
    starts = np.flatnonzero(before.starts) if before.starts.any() else np.arange(before.num_states)
    weight = np.maximum(before.starts[starts], 1) / np.maximum(before.starts[starts], 1).sum()
    rows, columns, counts = [], [], []
    for pair in pairs.tolist():
        exact = before.ends[pair] * weight
        whole = np.floor(exact).astype(np.int64)
        rest = int(before.ends[pair] - whole.sum())
        whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
        used = np.flatnonzero(whole)
        rows.append(np.full(used.size, pair))
        columns.append(starts[used])
        counts.append(whole[used])
    shape = before.moves.shape
    if not rows:
        return sp.csr_array(shape, dtype=np.int64)
    place = (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_array((np.concatenate(counts), place), shape=shape)


def _begun(trip: Expedition, chart: Map, before: Tally, actor: Explorer, moves: IntArray) -> State:
    """Returns the explorer's state after the old data."""
    belief, steps = trip.belief(chart), before.num_steps
    if isinstance(belief, LearnedModel):
        belief = dataclasses.replace(belief, moves=moves.copy(), num_steps=steps).renewed()
        return dataclasses.replace(actor.init(belief), counts=belief.counts, num_steps=steps)
    index = chart.index
    number = np.array([chart.numbers[key] for key in before.keys], np.int64)
    table = np.zeros((index.num_states, index.num_actions), np.int64)
    table[number] = before.counts
    counts = table[index.pair_state, index.pair_action]
    return dataclasses.replace(actor.init(belief), counts=counts, num_steps=int(counts.sum()))
