"""Settings and standings as tensors and documents, and back."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from rhocover.errors import FileFormatError
from rhocover.exploring.explorer import State
from rhocover.exploring.models import model_document, model_from_document
from rhocover.exploring.plausible import check_standing, check_tensors
from rhocover.exploring.problem import Problem
from rhocover.exploring.registry import explorer_document, explorer_from_document
from rhocover.exploring.runner import NOTHING, Episode, Standing
from rhocover.exploring.settings import Settings, belief_of, read_settings
from rhocover.exploring.simulator import Position, Visits
from rhocover.exploring.stopping import stop_document, stop_from_document
from rhocover.exploring.trace import COLUMNS
from rhocover.files import tensor_digest
from rhocover.learning.rules import rule_document, rule_from_document
from rhocover.mdp import MDP

PLAIN = ("num_steps", "seed", "discount", "horizon", "restrict", "num_chains", "trace_points")


def settings_document(settings: Settings) -> dict[str, Any]:
    """Returns the settings without their arrays, ready for JSON."""
    document = {name: getattr(settings, name) for name in PLAIN}
    explorer = explorer_document(settings.explorer)
    return document | {
        "rho": repr(settings.rho),
        "model": model_document(settings.model),
        "until": stop_document(settings.until),
        "rule": None if settings.rule is None else rule_document(settings.rule),
        "explorer": explorer or type(settings.explorer).__name__,
        "fingerprint": settings.mdp.fingerprint,
    }


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
    try:
        if explorer is None:
            explorer = explorer_from_document(document["explorer"])
        if rule is None and document["rule"] is not None:
            rule = rule_from_document(document["rule"])
        return read_settings(
            mdp, mu=tensors.get("mu") if rule is None else rule, start=tensors.get("start"),
            rho=float(document["rho"]), explorer=explorer, model=model_from_document(document["model"]),
            schedule=None, until=stop_from_document(document["until"]),
            **{name: document[name] for name in PLAIN},
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


def standing_document(standing: Standing) -> dict[str, Any]:
    """Returns the numbers of a standing; the generator's own are larger than JSON readers like."""
    return {
        "num_steps": standing.num_steps,
        "state_steps": standing.state.num_steps,
        "state_blocks": standing.state.num_blocks,
        "block_steps": standing.seen.num_steps,
        "is_enough": standing.is_enough,
        "generator": json.dumps(standing.position.generator.bit_generator.state),
    }


def standing_from_file(
    settings: Settings, problem: Problem, tensors: dict[str, np.ndarray], document: dict[str, Any]
) -> Standing:
    """Returns the standing that was stored."""
    try:
        check_tensors(tensors, settings, problem)
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = json.loads(document["generator"])
        belief = belief_of(settings, problem, tensors["first_states"])
        state = State(
            belief.restored(_named(tensors, "belief.")),
            counts=tensors["counts"],
            num_steps=int(document["state_steps"]),
            num_blocks=int(document["state_blocks"]),
            memory=_named(tensors, "memory."),
        )
        standing = Standing(
            state=state,
            position=Position(tensors["states"], generator),
            seen=Visits(
                tensors["block_pairs"],
                tensors["moves"],
                int(document["block_steps"]),
                tensors["scores"],
                problem.mdp,
            ),
            rows=tensors["rows"].tolist(),
            episodes=_episodes(tensors),
            first_states=tensors["first_states"],
            is_enough=bool(document["is_enough"]),
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
