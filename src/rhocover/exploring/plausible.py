"""Whether a stored standing can be one: what a run counts adds up, and every state is one of the model's.

A checkpoint carries a checksum, so a damaged file is noticed before this. What is checked here is that the
numbers of a whole file belong together: compiled loops index with them and do not look.

    sum of moves = steps of the run,    sum of the block's visits = steps of the block,
    visits of the moves = visits before the block + visits of the block      (with a known model)
"""

from __future__ import annotations

import numpy as np

from rhocover.exploring.beliefs import KnownModel
from rhocover.exploring.explorer import State
from rhocover.exploring.problem import Problem
from rhocover.exploring.registry import explorer_document
from rhocover.exploring.runner import Standing
from rhocover.exploring.settings import Settings
from rhocover.exploring.trace import COLUMNS, WHOLE

Tensors = dict[str, np.ndarray]


def check_tensors(tensors: Tensors, settings: Settings, problem: Problem) -> None:
    """Refuses arrays of other types or shapes than those of a run of this problem."""
    n, nnz, chains = problem.mdp.num_pairs, problem.mdp.transitions.nnz, settings.num_chains
    wanted = {
        "block_pairs": (np.int64, (n,)), "moves": (np.int64, (nnz,)), "scores": (np.float64, (n,)),
        "states": (np.int64, (chains,)), "first_states": (np.int64, (chains,)),
        "counts": (np.int64, tensors["counts"].shape[:1]),
        "rows": (np.float64, (len(tensors["rows"]), len(COLUMNS))),
        "episodes": (np.float64, (len(tensors["episodes"]), 5)),
    }  # fmt: skip
    for name, (dtype, shape) in wanted.items():
        _check_like(name, tensors[name], np.empty(shape, dtype))
    for name in ("block_pairs", "moves", "counts", "states", "first_states"):
        _check(tensors[name].min(initial=0) >= 0, f"{name} has entries below 0")
    for name in ("states", "first_states"):
        _check(tensors[name].max() < problem.mdp.num_states, f"{name} has a state that the model has not")
    whole = [COLUMNS.index(name) for name in WHOLE]
    _check(bool(np.isfinite(tensors["rows"][:, whole]).all()), "rows has a count that is no number")
    _check(bool(np.isfinite(tensors["episodes"][:, :3]).all()), "episodes has a length that is no number")


def check_standing(standing: Standing, settings: Settings, problem: Problem) -> None:
    """Refuses a standing whose counts do not add up, or whose explorer remembers what it cannot."""
    seen, state = standing.seen, standing.state
    before = seen.total - seen.pairs
    _check(0 <= standing.num_steps <= settings.num_steps, "num_steps is not within the run")
    _check(int(seen.moves.sum()) == standing.num_steps, "moves are not as many as steps")
    _check(int(seen.pairs.sum()) == seen.num_steps and before.min() >= 0, "block_pairs do not add up")
    _check(state.num_blocks >= 0 and int(state.counts.sum()) <= state.num_steps, "counts do not add up")
    if isinstance(state.belief, KnownModel):
        _check(np.array_equal(state.counts, before), "counts are not those of the moves")
    steps = [row[COLUMNS.index("steps")] for row in standing.rows]
    _check(
        steps == sorted(set(steps)) and max(steps, default=0) <= standing.num_steps, "rows are out of order"
    )
    _check_memory(state, settings)


def _check_memory(state: State, settings: Settings) -> None:
    if explorer_document(settings.explorer) is None:
        return  # what an explorer of the caller's own remembers, it knows itself
    fresh = settings.actor.init(state.belief)
    _check_like("counts", state.counts, fresh.counts)
    _check(state.memory.keys() >= fresh.memory.keys(), "memory lacks something")
    for name, array in fresh.memory.items():
        if array.shape[:1] == (0,):  # it grows
            array = np.empty((*state.memory[name].shape[:1], *array.shape[1:]), array.dtype)
        _check_like(f"memory.{name}", state.memory[name], array)
        _check(bool(np.isfinite(state.memory[name]).all()), f"memory.{name} has entries that are no numbers")


def _check_like(name: str, array: np.ndarray, like: np.ndarray) -> None:
    expected, came = f"{like.dtype} {list(like.shape)}", f"{array.dtype} {list(array.shape)}"
    _check(expected == came, f"{name} is {came}, expected {expected}")


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)
