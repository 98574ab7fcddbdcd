"""resume(): go on with a run from its folder, as if it had never stopped."""

from __future__ import annotations

import os
from typing import Any

from rhocover import checks
from rhocover.errors import FileFormatError, InvalidArgumentError, naming, shortened
from rhocover.exploring.checkpoints import MODEL, SETTINGS, Folder
from rhocover.exploring.loop import Report, drive
from rhocover.exploring.registry import explorer_document, make_explorer
from rhocover.exploring.run import Run
from rhocover.exploring.settings import Settings
from rhocover.exploring.storage import settings_from_file
from rhocover.files import load_tensors
from rhocover.folders import locate
from rhocover.learning.rules import rule_document
from rhocover.mdp import MDP


def resume(
    out: os.PathLike[str] | str,
    world: MDP | None = None,
    *,
    rho: float | None = None,
    seed: int | None = None,
    explorer: Any = None,
    mu: Any = None,
    report: Report | None = None,
) -> Run:
    """Returns the run of the folder `out`, gone on with from its newest checkpoint to its end.

    The result has the bits of a run that was never interrupted. `world`, `rho`, `seed` and `explorer`
    are remembered; those given must be the same. An explorer of your own must be given again, and so must
    `mu` where it is a function of your own. A damaged checkpoint is passed over with a `CheckpointWarning`,
    and the one before it is used. A run that is finished is returned again, and nothing is written.
    """
    out = locate(out)  # rules and explorers of the caller's may change the working directory
    folder = Folder(out)
    settings = read_folder(out, explorer, mu)
    _check_same(settings, world, rho, seed, explorer)
    with naming(folder.path / SETTINGS):
        problem = settings.problem()
    last = folder.last_of_finished(settings, problem)
    if last is not None:
        return drive(settings, problem, last, None, report)
    with folder:
        folder.open(settings)
        return drive(settings, problem, folder.load(settings, problem), folder, report)


def read_folder(out: Any, explorer: Any = None, mu: Any = None) -> Settings:
    """Returns the settings of the run in a folder."""
    place = locate(out)
    path = place.path
    if not (path / SETTINGS).is_file():
        raise InvalidArgumentError.of("out", f"{place.shown!r} holds no run: there is no {SETTINGS} in it")
    tensors, document = load_tensors(path / SETTINGS, "run-settings")
    stored = document.get("explorer")
    own = isinstance(stored, str)
    if own and explorer is None:
        raise InvalidArgumentError.of(
            "explorer", f"is needed: the run was made with your own, a {shortened(stored)}"
        )
    if own and (type(explorer).__name__ != stored or explorer_document(explorer) is not None):
        raise InvalidArgumentError.of(
            "explorer", f"must be the {stored} of your own that this run was begun with", repr(explorer)
        )
    mdp = MDP.load(path / MODEL)
    if mdp.fingerprint != document.get("fingerprint"):
        raise FileFormatError(f"{MODEL} in {place.shown!r} is not the model of this run.")
    rule = _own_rule(document.get("rule"), mu)
    with naming(path / SETTINGS):
        return settings_from_file(mdp, tensors, document, make_explorer(explorer) if own else None, rule)


def _own_rule(stored: Any, mu: Any) -> Any:
    """Returns the caller's rule where the file holds only its name."""
    own = isinstance(stored, str)
    if own and not callable(mu):
        raise InvalidArgumentError.of(
            "mu", f"is needed: the run was made with a rule of your own, {shortened(stored)}"
        )
    if own and rule_document(mu) != stored:
        raise InvalidArgumentError.of("mu", f"must be the rule {stored} of this run", repr(mu))
    if mu is not None and not own:
        raise InvalidArgumentError.of("mu", "is remembered by the run", remedy="Leave it out.")
    return mu


def _check_same(settings: Settings, world: Any, rho: Any, seed: Any, explorer: Any) -> None:
    """Refuses arguments that differ from what the run was begun with."""
    if world is not None and (not isinstance(world, MDP) or world.fingerprint != settings.mdp.fingerprint):
        raise InvalidArgumentError.of(
            "world", "is not the model that this run was begun with", remedy="Leave it out."
        )
    if rho is not None and checks.number(rho, "rho") != settings.rho:
        raise InvalidArgumentError.of("rho", f"was {settings.rho:g} when this run was begun", f"{rho}")
    if seed is not None and checks.seed(seed) != settings.seed:
        raise InvalidArgumentError.of("seed", f"was {settings.seed} when this run was begun", f"{seed}")
    if explorer is not None and explorer_document(make_explorer(explorer)) != explorer_document(
        settings.explorer
    ):
        raise InvalidArgumentError.of(
            "explorer", f"was {settings.explorer!r} when this run was begun", repr(explorer)
        )
