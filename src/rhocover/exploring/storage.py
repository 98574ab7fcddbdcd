"""Settings and standings as tensors and documents, and back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np

from rhocover.documents import TextNumber, from_document, to_document
from rhocover.errors import FileFormatError
from rhocover.exploring.explorer import State
from rhocover.exploring.models import Model
from rhocover.exploring.plausible import check_standing, check_tensors
from rhocover.exploring.problem import Problem
from rhocover.exploring.registry import explorer_document, explorer_from_document
from rhocover.exploring.runner import NOTHING, Episode, Standing
from rhocover.exploring.settings import Settings, belief_of, read_settings
from rhocover.exploring.simulator import Position, Visits
from rhocover.exploring.stopping import STOP, Stop
from rhocover.exploring.trace import COLUMNS
from rhocover.files import tensor_digest
from rhocover.learning.rules import rule_document, rule_from_document
from rhocover.mdp import MDP


@dataclass(frozen=True)
class StoredSettings:
    """What a file says of the settings of a run; an explorer or a rule of one's own is its name."""

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


BESIDE = ("rule", "explorer", "fingerprint")  # everything else has the name and the value that Settings has
GIVEN = tuple(field.name for field in fields(StoredSettings) if field.name not in BESIDE)


@dataclass(frozen=True)
class StoredStanding:
    """What a checkpoint says of a standing; the generator's own numbers are larger than JSON readers like."""

    num_steps: int
    state_steps: int
    state_blocks: int
    block_steps: int
    is_enough: bool
    generator: str
    run: str  # the digest of its settings
    number: int  # of the checkpoint


def settings_document(settings: Settings) -> dict[str, Any]:
    """Returns the settings without their arrays, ready for JSON."""
    return to_document(
        StoredSettings(
            **{name: getattr(settings, name) for name in GIVEN},
            rule=None if settings.rule is None else rule_document(settings.rule),
            explorer=explorer_document(settings.explorer) or type(settings.explorer).__name__,
            fingerprint=settings.mdp.fingerprint,
        )
    )


def settings_tensors(settings: Settings) -> dict[str, np.ndarray]:
    """Returns the arrays among the settings that were given."""
    arrays = {"mu": settings.mu, "start": settings.start}
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def settings_digest(settings: Settings) -> str:
    """Returns the SHA-256 of everything that decides what a run does."""
    text = json.dumps(settings_document(settings), sort_keys=True)
    return hashlib.sha256(f"{text}|{tensor_digest(settings_tensors(settings))}".encode()).hexdigest()


def settings_from_file(
    mdp: MDP, tensors: dict[str, np.ndarray], document: dict[str, Any], explorer: Any, rule: Any
) -> Settings:
    """Returns the settings that were stored; `explorer` and `rule` are given where no file can hold them."""
    found = from_document(StoredSettings, document, "the settings of the run")
    explorer = explorer_from_document(found.explorer) if explorer is None else explorer
    if rule is None and found.rule is not None:
        rule = rule_from_document(found.rule)
    try:
        return read_settings(
            mdp, mu=tensors.get("mu") if rule is None else rule, start=tensors.get("start"),
            explorer=explorer, schedule=None, **{name: getattr(found, name) for name in GIVEN},
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"the settings of the run cannot be read: {error}") from error


def standing_tensors(standing: Standing) -> dict[str, np.ndarray]:
    """Returns the arrays of a standing."""
    state, episodes = standing.state, standing.episodes
    tensors = {
        "counts": state.counts,
        "block_pairs": standing.seen.pairs,
        "moves": standing.seen.moves,
        "scores": standing.seen.scores,
        "states": standing.position.states,
        "first_states": standing.first_states,
        "rows": np.array(standing.rows, float).reshape(-1, len(COLUMNS)),
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


def standing_document(standing: Standing, run: str, number: int) -> dict[str, Any]:
    """Returns the numbers of a standing; `run` is the digest of its settings, `number` the checkpoint's."""
    generator = json.dumps(standing.position.generator.bit_generator.state)
    return to_document(
        StoredStanding(
            standing.num_steps, standing.state.num_steps, standing.state.num_blocks, standing.seen.num_steps,
            standing.is_enough, generator, run, number,
        )
    )  # fmt: skip


def standing_from_file(
    settings: Settings, problem: Problem, tensors: dict[str, np.ndarray], document: dict[str, Any]
) -> Standing:
    """Returns the standing that was stored."""
    found = from_document(StoredStanding, document, "the checkpoint")
    try:
        check_tensors(tensors, settings, problem)
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = json.loads(found.generator)
        belief = belief_of(settings, problem, tensors["first_states"])
        state = State(
            belief.restored(_named(tensors, "belief.")),
            counts=tensors["counts"],
            num_steps=found.state_steps,
            num_blocks=found.state_blocks,
            memory=_named(tensors, "memory."),
        )
        standing = Standing(
            state=state,
            position=Position(tensors["states"], generator),
            seen=Visits(
                tensors["block_pairs"],
                tensors["moves"],
                found.block_steps,
                tensors["scores"],
                problem.mdp,
            ),
            rows=tensors["rows"].tolist(),
            episodes=_episodes(tensors),
            first_states=tensors["first_states"],
            is_enough=found.is_enough,
        )
        check_standing(standing, settings, problem)
        return standing
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
