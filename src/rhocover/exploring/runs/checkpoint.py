"""Checkpoints of a run: a folder with its settings, the model, and the last two checkpoints.

    run.safetensors            settings, weights, start
    model.safetensors          the model
    checkpoint-0.safetensors   the state of the run, written in turn:
    checkpoint-1.safetensors   one of the two is complete at any moment
    result.safetensors         the run, once it is finished

Every file is written to a temporary name, synced and renamed, and contains a SHA-256 of its contents. A
checkpoint also contains the digest of the settings, so that one of another run is recognised. The folder is
locked while a run writes to it (`folders`).

A damaged file is detected by its checksum. In addition, the numbers of an intact file must be consistent,
because compiled loops use them as indices without bounds checks:

    sum of moves = steps of the run,    sum of the block's visits = steps of the block,
    visits of the moves = visits before the block + visits of the block      (with a known model)
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import numpy as np

from rhocover.documents import TextNumber, from_document, to_document
from rhocover.errors import (
    Call,
    CheckpointError,
    CheckpointWarning,
    FileFormatError,
    InvalidArgumentError,
    naming,
)
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.explorers import State
from rhocover.exploring.explorers.registry import explorer_document, explorer_from_document
from rhocover.exploring.runs.result import COLUMNS, WHOLE, Run
from rhocover.exploring.runs.runner import NOTHING, Episode, RunState, Storage
from rhocover.exploring.runs.spec import (
    CRITERION,
    Model,
    ModelRun,
    RunSpec,
    make_belief,
    read_model_run,
    read_spec,
)
from rhocover.exploring.runs.stopping import STOP, Stop
from rhocover.exploring.worlds import Position, Visits
from rhocover.files import load_tensors, save_tensors, tensor_digest
from rhocover.folders import Hold, hold_folder, is_left, locate, make_folder, remove_left
from rhocover.learning.rules import rule_document, rule_from_document
from rhocover.mdp import MDP
from rhocover.progress import Report

Tensors = dict[str, np.ndarray]


def check_tensors(tensors: Tensors, asked: ModelRun) -> None:
    """Refuses arrays whose types or shapes are not those of this run."""
    mdp = asked.problem.mdp
    n, nnz, chains = mdp.num_pairs, mdp.transitions.nnz, asked.num_chains
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
        _check(tensors[name].max() < mdp.num_states, f"{name} has a state that is not in the model")
    whole = [COLUMNS.index(name) for name in WHOLE]
    _check(bool(np.isfinite(tensors["rows"][:, whole]).all()), "rows has a count that is not a number")
    _check(bool(np.isfinite(tensors["episodes"][:, :3]).all()), "episodes has a length that is not a number")


def check_run_state(now: RunState, asked: ModelRun) -> None:
    """Refuses a state whose counts do not add up, or whose explorer has an impossible memory."""
    seen, state = now.seen, now.state
    before = seen.total - seen.pairs
    _check(0 <= now.num_steps <= asked.spec.num_steps, "num_steps is not within the run")
    _check(int(seen.moves.sum()) == now.num_steps, "moves do not add up to num_steps")
    _check(int(seen.pairs.sum()) == seen.num_steps and before.min() >= 0, "block_pairs do not add up")
    _check(state.num_blocks >= 0 and int(state.counts.sum()) <= state.num_steps, "counts do not add up")
    if isinstance(state.belief, KnownModel):
        _check(np.array_equal(state.counts, before), "counts are not those of the moves")
    steps = [row[COLUMNS.index("steps")] for row in now.rows]
    _check(steps == sorted(set(steps)) and max(steps, default=0) <= now.num_steps, "rows are out of order")
    _check_memory(state, asked.spec)


def _check_memory(state: State, spec: RunSpec) -> None:
    if explorer_document(spec.explorer) is None:
        return  # the memory of the caller's own explorer cannot be checked here
    fresh = spec.actor.init(state.belief)
    _check_like("counts", state.counts, fresh.counts)
    _check(state.memory.keys() >= fresh.memory.keys(), "memory lacks an entry")
    for name, array in fresh.memory.items():
        if array.shape[:1] == (0,):  # it grows
            array = np.empty((*state.memory[name].shape[:1], *array.shape[1:]), array.dtype)
        _check_like(f"memory.{name}", state.memory[name], array)
        _check(bool(np.isfinite(state.memory[name]).all()), f"memory.{name} has entries that are not finite")


def _check_like(name: str, array: np.ndarray, like: np.ndarray) -> None:
    expected, came = f"{like.dtype} {list(like.shape)}", f"{array.dtype} {list(array.shape)}"
    _check(expected == came, f"{name} is {came}, expected {expected}")


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)


@dataclass(frozen=True)
class StoredSettings:
    """The settings of a run as stored in a file; the caller's own explorer or rule is stored by name."""

    num_steps: int
    seed: int
    discount: float | None
    horizon: int | None
    restrict: bool
    num_chains: int
    trace_points: int
    rho: TextNumber
    model: Model
    until: Annotated[Stop, STOP] | None
    rule: dict[str, Any] | str | None
    explorer: dict[str, Any] | str
    fingerprint: str
    workers: int | None  # None is not written: before there were any, files had no such entry


@dataclass(frozen=True)
class StoredState:
    """A run's state as stored in a checkpoint; the generator is text, because its integers exceed 64 bits."""

    num_steps: int
    state_steps: int
    state_blocks: int
    block_steps: int
    is_enough: bool
    generator: str
    run: str  # the digest of its settings
    number: int  # of the checkpoint


def settings_document(asked: ModelRun) -> dict[str, Any]:
    """Returns everything that determines a run, except its arrays, as a JSON document."""
    spec = asked.spec
    document = to_document(
        StoredSettings(
            **{name: getattr(spec, name) for name in OF_SPEC},
            **{name: getattr(spec.criterion, name) for name in OF_CRITERION},
            num_chains=1 if asked.is_shared else asked.num_chains,
            workers=asked.workers,
            rule=None if spec.rule is None else rule_document(spec.rule),
            explorer=explorer_document(spec.explorer) or type(spec.explorer).__name__,
            fingerprint=asked.mdp.fingerprint,
        )
    )
    return document if asked.is_shared else {k: v for k, v in document.items() if k != "workers"}


OF_SPEC = ("num_steps", "seed", "trace_points", "rho", "model", "until")
OF_CRITERION = tuple(name for name in CRITERION if name != "start")  # `start` is a tensor


def settings_tensors(asked: ModelRun) -> dict[str, np.ndarray]:
    """Returns the arrays among the settings."""
    arrays = {"mu": asked.spec.mu, "start": asked.spec.criterion.start}
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def settings_digest(asked: ModelRun) -> str:
    """Returns the SHA-256 of everything that determines a run."""
    text = json.dumps(settings_document(asked), sort_keys=True)
    return hashlib.sha256(f"{text}|{tensor_digest(settings_tensors(asked))}".encode()).hexdigest()


def settings_from_file(
    mdp: MDP, tensors: dict[str, np.ndarray], document: dict[str, Any], explorer: Any, rule: Any
) -> ModelRun:
    """Returns the stored run; `explorer` and `rule` are the caller's own, which a file cannot hold."""
    found = from_document(StoredSettings, {"workers": None} | document, "the settings of the run")
    explorer = explorer_from_document(found.explorer) if explorer is None else explorer
    if rule is None and found.rule is not None:
        rule = rule_from_document(found.rule)
    try:
        given = {name: getattr(found, name) for name in (*OF_SPEC, *OF_CRITERION)}
        given |= {"mu": tensors.get("mu") if rule is None else rule, "start": tensors.get("start")}
        spec = read_spec(given | {"explorer": explorer})
        return read_model_run(mdp, spec, found.num_chains, found.workers)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"the settings of the run cannot be read: {error}") from error


def state_tensors(now: RunState) -> dict[str, np.ndarray]:
    """Returns the arrays of a run's state."""
    state, episodes = now.state, now.episodes
    tensors = {
        "counts": state.counts,
        "block_pairs": now.seen.pairs,
        "moves": now.seen.moves,
        "scores": now.seen.scores,
        "states": now.position.states,
        "first_states": now.first_states,
        "rows": np.array(now.rows, float).reshape(-1, len(COLUMNS)),
        "episodes": np.array([[e.k, e.t, e.tau, e.beta, e.gap] for e in episodes]).reshape(-1, 5),
    }
    kept = [e for e in episodes if e.psi.size]
    if kept:
        tensors |= {
            "psi": np.array([e.psi for e in kept]),
            "psi_hat": np.array([e.psi_hat for e in kept]),
        }
    tensors |= {f"belief.{name}": array for name, array in state.belief.tensors().items()}
    return tensors | {f"memory.{name}": np.asarray(value) for name, value in state.memory.items()}


def state_document(now: RunState, run: str, number: int) -> dict[str, Any]:
    """Returns the state without its arrays; `run` is the settings' digest, `number` the checkpoint's."""
    generator = json.dumps(now.position.generator.bit_generator.state)
    return to_document(
        StoredState(
            now.num_steps, now.state.num_steps, now.state.num_blocks, now.seen.num_steps,
            now.is_enough, generator, run, number,
        )
    )  # fmt: skip


def state_from_file(asked: ModelRun, tensors: dict[str, np.ndarray], document: dict[str, Any]) -> RunState:
    """Returns the stored state."""
    found = from_document(StoredState, document, "the checkpoint")
    try:
        check_tensors(tensors, asked)
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = json.loads(found.generator)
        belief = make_belief(asked.spec, asked.problem, tensors["first_states"])
        state = State(
            belief.restored(_named(tensors, "belief.")),
            counts=tensors["counts"],
            num_steps=found.state_steps,
            num_blocks=found.state_blocks,
            memory=_named(tensors, "memory."),
        )
        now = RunState(
            state=state,
            position=Position(tensors["states"], generator),
            seen=Visits(
                tensors["block_pairs"],
                tensors["moves"],
                found.block_steps,
                tensors["scores"],
                asked.problem.mdp,
            ),
            rows=tensors["rows"].tolist(),
            episodes=_episodes(tensors),
            first_states=tensors["first_states"],
            is_enough=found.is_enough,
        )
        check_run_state(now, asked)
        return now
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"the checkpoint cannot be read: {error}") from error


def _named(tensors: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def _episodes(tensors: dict[str, np.ndarray]) -> list[Episode]:
    rows = tensors["episodes"].tolist()
    kept = [*zip(tensors.get("psi", ()), tensors.get("psi_hat", ()), strict=True)]
    directions = kept + [(NOTHING, NOTHING)] * (len(rows) - len(kept))
    return [
        Episode(int(k), int(t), int(tau), beta, gap, *directions[row])
        for row, (k, t, tau, beta, gap) in enumerate(rows)
    ]


SETTINGS, MODEL, RESULT = "run.safetensors", "model.safetensors", "result.safetensors"
CHECKPOINTS = ("checkpoint-0.safetensors", "checkpoint-1.safetensors")
OURS = (SETTINGS, MODEL, RESULT, *CHECKPOINTS)
SECONDS = 20.0  # between two checkpoints


class Folder(Storage):
    """The folder of a run, new or to be continued; it is locked inside the `with` block."""

    def __init__(
        self, out: Any, asked: ModelRun, report: Report | None = None, *, is_resumed: bool = False
    ) -> None:
        super().__init__(report)
        self._place, self._asked, self._is_resumed = locate(out), asked, is_resumed
        self.path = self._place.path
        self._hold: Hold | None = None
        self._digest = settings_digest(asked)
        self._number = 0
        self._stored_steps: int | None = None
        self._saved = time.monotonic()

    @property
    def is_resumed(self) -> bool:
        """Whether the run may have begun before."""
        return self._is_resumed

    def __enter__(self) -> Folder:
        if self._is_resumed:
            with self._held_unless_it_fails():
                self._remove_left()
        else:
            self._create()
        return self

    def _create(self) -> None:
        """Makes the folder with settings and model; refuses one that holds other files."""
        self._check_free()
        tensors, document = settings_tensors(self._asked), settings_document(self._asked)
        try:
            make_folder(self.path)
            with self._held_unless_it_fails():
                self._check_free()  # another process may have been faster
                self._remove_left()
                self._asked.mdp.save(self.path / MODEL, overwrite=True)
                save_tensors(self.path / SETTINGS, "run-settings", tensors, document)
        except CheckpointError:
            raise
        except OSError as error:
            raise CheckpointError(
                self._place.saying(
                    f"could not be written: {error.strerror or error}. Free disk space, or name another "
                    "folder, and explore again."
                )
            ) from error

    def _check_free(self) -> None:
        if (self.path / SETTINGS).exists():
            shown = self._place.shown
            go_on = Call(f"resume({shown!r})", f"rhocover resume {shown}")
            raise InvalidArgumentError.of(
                "out",
                f"{shown!r} already holds a run",
                remedy=("Continue it with ", go_on, ", or name another folder."),
            )
        if self.path.exists() and not self.path.is_dir():
            raise InvalidArgumentError.of("out", "must be a folder", f"the file {self._place.shown!r}")
        entries = self.path.iterdir() if self.path.exists() else ()
        foreign = [entry.name for entry in entries if entry.name != MODEL and not is_left(entry, _is_ours)]
        if foreign:
            raise InvalidArgumentError.of(
                "out", f"must be a new or empty folder: {self._place.shown!r} holds {foreign[0]!r}"
            )

    @contextmanager
    def _held_unless_it_fails(self) -> Iterator[None]:
        """Locks the folder; unlocks it if the body fails."""
        self._hold = hold_folder(self._place)
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _remove_left(self) -> None:
        remove_left(self.path, _is_ours)

    def close(self) -> None:
        """Unlocks the folder."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def save_if_due(self, now: RunState) -> None:
        """Writes a checkpoint if the last one is old enough."""
        if time.monotonic() - self._saved >= SECONDS:
            self.save(now)

    def save(self, now: RunState) -> None:
        """Writes a checkpoint over the older of the two."""
        path = self.path / CHECKPOINTS[self._number % 2]
        document = state_document(now, self._digest, self._number)
        try:
            save_tensors(path, "checkpoint", state_tensors(now), document, overwrite=True)
        except CheckpointError:  # its message already describes what happened to the folder
            raise
        except OSError as error:
            raise self._unwritable(path, error) from error
        self._number += 1
        self._stored_steps = now.num_steps
        self._saved = time.monotonic()

    def save_result(self, run: Run) -> None:
        """Writes the finished run."""
        try:
            run.save(self.path / RESULT, overwrite=True)
        except CheckpointError:
            raise
        except OSError as error:
            raise self._unwritable(self.path / RESULT, error) from error

    def _unwritable(self, path: Path, error: OSError) -> CheckpointError:
        before = "there is no earlier checkpoint" if self._stored_steps is None else (
            f"the checkpoint before it, at step {self._stored_steps}, is intact"
        )  # fmt: skip
        return CheckpointError(
            f"{path.name} could not be written to {self._place.shown!r}: {error.strerror or error}; "
            f"{before}. Free disk space, then continue with resume({self._place.shown!r})."
        )

    def load(self) -> RunState | None:
        """Returns the state of the newest intact checkpoint; None if there is no checkpoint.

        A checkpoint that is damaged, or of another run, is skipped with a warning; if there are checkpoints
        and none can be used, an error is raised.
        """
        found, troubles = self._checkpoints()
        if troubles and not found:
            raise FileFormatError(
                f"no checkpoint in {self._place.shown!r} can be used: {' '.join(troubles)} "
                "Remove the checkpoint files to start again."
            )
        for trouble in troubles:
            warnings.warn(f"{trouble} The other checkpoint is used.", CheckpointWarning, stacklevel=5)
        if not found:
            return None
        number, now = max(found, key=lambda pair: pair[0])
        self._number, self._stored_steps = number + 1, now.num_steps
        return now

    def _checkpoints(self) -> tuple[list[tuple[int, RunState]], list[str]]:
        """Returns number and state of each intact checkpoint, and what is wrong with the others."""
        found, troubles = [], []
        for name in CHECKPOINTS:
            if (self.path / name).exists():
                try:
                    found.append(self._read(name))
                except FileFormatError as error:
                    troubles.append(str(error))
        return found, troubles

    def last_of_finished(self) -> RunState | None:
        """Returns the last state of a finished run; None if it is not finished, or damaged.

        A finished run is never written to, so this needs neither a lock nor a writable disk.
        """
        if not (self.path / RESULT).is_file():
            return None
        found, troubles = self._checkpoints()
        if troubles or not found:
            return None
        now = max(found, key=lambda pair: pair[0])[1]
        return now if self._is_result_of(now) else None

    def _is_result_of(self, now: RunState) -> bool:
        """Whether the result is intact, and belongs to this state."""
        try:
            tensors, document = load_tensors(self.path / RESULT, "run")
        except FileFormatError:
            return False
        is_end = document.get("is_enough") == now.is_enough and document.get("steps") == now.num_steps
        return is_end and np.array_equal(tensors.get("moves", ()), now.seen.moves)

    def _read(self, name: str) -> tuple[int, RunState]:
        """Returns the number of a checkpoint, and its state."""
        tensors, document = load_tensors(self.path / name, "checkpoint")
        if document.get("run") != self._digest:
            raise FileFormatError(f"{name} belongs to another run.")
        with naming(self.path / name):
            state = state_from_file(self._asked, tensors, document)
        return document["number"], state  # the number is there: state_from_file has read it


def _is_ours(name: str) -> bool:
    return name in OURS
