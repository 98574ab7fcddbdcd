"""Who plays in the comparison of simulators: this library, Gymnasium, and NumPy on the same table.

| who | how |
|---|---|
| ours | `Simulator.advance`, one chain or many |
| Gymnasium, as made | `gymnasium.make(...)`, a Python loop over `step` and `reset` |
| Gymnasium, bare | the same without wrappers: no time limit, no checks |
| Gymnasium, vector | `gymnasium.make_vec(..., "sync")`, resets within the step |
| NumPy loop | one chain: lists, `bisect` on cumulative rows, uniform numbers drawn beforehand |
| NumPy, vectorised | many chains: all move at once by gathers and comparisons |

All play the uniformly random policy and count. Each returns the processor time of a step and the counts of
transitions `[n, S]` in the model's numbers, empty where they are not kept.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import rhocover as rc
from rhocover.environments.table_model import TabularModel, read_table
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.exploring.worlds.simulator import Simulator

CHAINS, MORE, COPIES = 1024, 16_384, 64  # NumPy is best with many, Gymnasium's vector with few
WIDE = 16  # from here on a search is faster than a comparison for each outcome
AS_MADE, BARE, VECTOR = "Gymnasium, as made", "Gymnasium, bare", "Gymnasium, vector"
LOOP, GATHERED = "NumPy loop", "NumPy, vectorised"
MORE_GATHERED = f"{GATHERED}, {MORE:,}"
OURS = {1: "ours", CHAINS: "ours, many chains", MORE: "ours, more chains"}
STEPS = {"ours": 4_000_000, AS_MADE: 20_000, BARE: 40_000, VECTOR: 40_000, LOOP: 200_000, GATHERED: 1_000_000}

Played = tuple[float, np.ndarray]


def make_players(name: str, divided: int) -> dict[str, Callable[[int], Played]]:
    """Returns everyone who plays in an environment, by name."""
    import gymnasium as gym

    table = read_table(gym.make(name))
    steps = {who: number // divided for who, number in STEPS.items()}
    return {
        **{who: partial(ours, table.model, chains, steps["ours"]) for chains, who in OURS.items()},
        AS_MADE: lambda seed: gymnasium_loop(gym.make(name), None, steps[AS_MADE], seed),
        BARE: lambda seed: gymnasium_loop(gym.make(name).unwrapped, table, steps[BARE], seed),
        VECTOR: lambda seed: gymnasium_vector(name, steps[VECTOR], seed),
        LOOP: lambda seed: numpy_loop(table.model, steps[LOOP], seed),
        GATHERED: lambda seed: numpy_gathered(table.model, CHAINS, steps[GATHERED], seed),
        MORE_GATHERED: lambda seed: numpy_gathered(table.model, MORE, steps[GATHERED], seed),
    }


def ours(mdp: rc.MDP, chains: int, num_steps: int, seed: int) -> Played:
    """Plays by the simulator."""
    world = Simulator(mdp, mdp.start, chains)
    position, seen = world.begin(seed), Visits.none(mdp)
    act = world.follow(SamplePolicy(np.ones(mdp.num_pairs)))
    num_steps -= num_steps % chains
    began = time.process_time()
    world.advance(position, act, seen, num_steps)
    taken = time.process_time() - began
    return taken / num_steps, _table(mdp, seen.moves)


def _table(mdp: rc.MDP, seen: np.ndarray) -> np.ndarray:
    """Returns counts of the entries of the transitions as a table `[n, S]`."""
    counts = np.zeros((mdp.num_pairs, mdp.num_states), np.int64)
    counts[np.repeat(np.arange(mdp.num_pairs), np.diff(mdp.transitions.indptr)), mdp.transitions.indices] = (
        seen
    )
    return counts


def gymnasium_loop(env: Any, table: TabularModel | None, num_steps: int, seed: int) -> Played:
    """Plays an environment by its own methods; transitions are kept if `table` says what states are."""
    num_actions, visits = int(env.action_space.n), [0] * int(env.observation_space.n * env.action_space.n)
    actions = np.random.default_rng(seed).integers(num_actions, size=num_steps).tolist()
    state, _ = env.reset(seed=seed)
    path, step, reset = [state], env.step, env.reset
    began = time.process_time()
    for action in actions:
        visits[state * num_actions + action] += 1
        state, _, terminated, truncated, _ = step(action)
        if terminated or truncated:
            state, _ = reset()
        path.append(state)
    taken = (time.process_time() - began) / num_steps
    return taken, np.zeros((0, 0)) if table is None else _counted(table, np.array(path), np.array(actions))


def _counted(table: TabularModel, path: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Returns the transitions of a path in the environment's numbers."""
    mdp = table.model
    number = np.full(int(table.states.max()) + 1, -1)
    number[table.states] = np.arange(mdp.num_states)
    pair = np.full((mdp.num_states, mdp.num_actions), -1)
    pair[mdp.pair_state, mdp.pair_action] = np.arange(mdp.num_pairs)
    states = number[path]
    counts = np.zeros((mdp.num_pairs, mdp.num_states), np.int64)
    np.add.at(counts, (pair[states[:-1], actions], states[1:]), 1)
    return counts


def gymnasium_vector(name: str, num_steps: int, seed: int) -> Played:
    """Plays copies in Gymnasium's synchronous vector."""
    import gymnasium as gym

    same = gym.vector.AutoresetMode.SAME_STEP
    envs = gym.make_vec(name, COPIES, vectorization_mode="sync", vector_kwargs={"autoreset_mode": same})
    rounds = max(1, num_steps // COPIES)
    num_actions = int(envs.single_action_space.n)
    size = int(envs.single_observation_space.n) * num_actions
    actions = np.random.default_rng(seed).integers(num_actions, size=(rounds, COPIES))
    states, _ = envs.reset(seed=seed)
    visits = np.zeros(size, np.int64)
    began = time.process_time()
    for row in actions:
        visits += np.bincount(states * num_actions + row, minlength=size)
        states = envs.step(row)[0]
    taken = (time.process_time() - began) / (rounds * COPIES)
    envs.close()
    return taken, np.zeros((0, 0))


def numpy_loop(mdp: rc.MDP, num_steps: int, seed: int) -> Played:
    """Plays one chain on the table in plain Python, and counts the entries of the table that it takes."""
    rng = np.random.default_rng(seed)
    P, n = mdp.transitions, mdp.num_pairs
    rows = [P.data[P.indptr[i] : P.indptr[i + 1]].cumsum().tolist()[:-1] for i in range(n)]
    begins, successors = P.indptr.tolist(), P.indices.tolist()
    first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1)).tolist()
    state = int(rng.choice(mdp.num_states, p=mdp.start))
    choices, moves = rng.random(num_steps).tolist(), rng.random(num_steps).tolist()
    seen = [0] * P.nnz
    began = time.process_time()
    for choice, move in zip(choices, moves, strict=True):
        begin = first[state]
        i = begin + int(choice * (first[state + 1] - begin))
        entry = begins[i] + bisect_right(rows[i], move)
        seen[entry] += 1
        state = successors[entry]
    taken = (time.process_time() - began) / num_steps
    return taken, _table(mdp, np.array(seen))


def numpy_gathered(mdp: rc.MDP, chains: int, num_steps: int, seed: int) -> Played:
    """Plays all chains at once: gathers, and one comparison for each possible outcome or one search."""
    rng, P = np.random.default_rng(seed), mdp.transitions
    find = gathered_entries(mdp)
    first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1))
    number, successors = np.diff(first), P.indices.astype(np.int64)
    states = rng.choice(mdp.num_states, chains, p=mdp.start)
    rounds = max(1, num_steps // chains)
    seen = np.zeros(P.nnz, np.int64)
    began = time.process_time()
    for _ in range(rounds):
        choice, move = rng.random((2, chains))
        pairs = first[states] + (choice * number[states]).astype(np.int64)
        entries = find(pairs, move)
        seen += np.bincount(entries, minlength=P.nnz)
        states = successors[entries]
    taken = (time.process_time() - began) / (rounds * chains)
    return taken, _table(mdp, seen)


def gathered_entries(mdp: rc.MDP) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Returns the function from pairs and uniform numbers to entries of the table, faster of two.

    Where rows are short, padded columns and a comparison for each outcome; otherwise one search in all rows
    at once, each shifted by its number.
    """
    P, n = mdp.transitions, mdp.num_pairs
    begins = P.indptr.astype(np.int64)
    rows = np.repeat(np.arange(n), np.diff(begins))
    sums = np.concatenate([P.data[begins[i] : begins[i + 1]].cumsum() for i in range(n)])
    sums[begins[1:] - 1] = 2.0  # no draw falls beyond the last
    width = int(np.diff(begins).max())
    if width > WIDE:
        shifted = np.minimum(sums, 1.0) + rows
        return lambda pairs, move: np.searchsorted(shifted, pairs + move, side="right")
    padded = np.full((width, n), 2.0)
    padded[np.arange(P.nnz) - begins[rows], rows] = sums

    def compared(pairs: np.ndarray, move: np.ndarray) -> np.ndarray:
        entries = begins[pairs]
        for column in padded[:-1]:
            entries += move >= column[pairs]
        return entries

    return compared
