"""From a log of steps to a Minari data set with its datasheet: what collect() and top_up() share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rhocover.collecting.episodes import episodes_of
from rhocover.collecting.expedition import Expedition
from rhocover.collecting.folder import CollectionFolder
from rhocover.collecting.log import Log, parts_of, stored_steps
from rhocover.collecting.replay import Replay
from rhocover.collecting.scoped import scoped
from rhocover.datasets.audit import audit_tally
from rhocover.datasets.builder import Tallier
from rhocover.datasets.minari.columns import FlatColumns, space_leaves
from rhocover.datasets.reading import count_episodes
from rhocover.datasets.result import Audit
from rhocover.datasets.states import make_state_numbers
from rhocover.datasets.tally import Tally
from rhocover.errors import OutOfMemoryError, missing_extra, naming, parse_text
from rhocover.exploring.run import Run

Result = TypeVar("Result")
Sheet = dict[str, Any]


def check_minari() -> None:
    """Refuses to begin what could not be written in the end."""
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError as error:
        raise missing_extra(error.name or "minari", "minari") from error


def check_spaces(trip: Expedition) -> None:
    """Refuses observations and actions that no column of a data set holds."""
    for space, name in ((trip.space, "observations"), (trip.action_space, "actions")):
        list(space_leaves(space, (name,)))


def digest_of(document: Sheet) -> str:
    """Returns the SHA-256 of everything that decides what is collected."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def gather(trip: Expedition, folder: Path, digest: str, go: Callable[..., Result]) -> Result:
    """Returns what `go(recorder, env, pause)` does; its steps are in the folder's log when it is over.

    Steps that are in the log already are repeated from there: `env` stands in for the environment.
    """
    stored = stored_steps(folder, digest)
    log, env = Log(folder, trip.space, digest, stored), trip.acting
    if stored is not None and not trip.is_vector:
        env = Replay(env, trip.actions.values, folder, digest, stored.num_steps)
    with _saying_what_is_kept(folder):
        try:
            return go(recorder=log, env=env, pause=log.pause)
        finally:
            log.close()


@contextmanager
def _saying_what_is_kept(folder: Path) -> Iterator[None]:
    """Says that the log is there where memory was not enough."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(
            parse_text(
                f"there was not enough memory to go on: {str(error) or 'none was left'}. What is in "
                f"{str(folder)!r} is whole: go on with `resume=True` where there is more."
            )
        ) from error


def publish(
    trip: Expedition, folder: CollectionFolder, name: str, digest: str, make_sheet: Callable[[Audit], Sheet],
    run: Run | None = None,
) -> tuple[Tally, Audit, Sheet]:  # fmt: skip
    """Writes the data set of the log with its datasheet, and returns what it holds and covers.

    `run` is the one that collected it, where there was one: it knows what was never met.
    """
    from rhocover.datasets.minari.files import MinariWriter

    spec = None if trip.is_vector else getattr(trip.env, "spec", None)
    target, counting, values = folder.path / name, Counting(trip), np.array(trip.actions.values)
    folder.clear_unfinished(target)
    writer = MinariWriter(
        target, name, observation_space=trip.space, action_space=trip.action_space, env_spec=spec
    )
    with _saying_what_is_kept(folder.path), writer, naming(folder.path):
        for some in episodes_of(parts_of(folder.path, digest), trip.space, values, folder.path):
            writer.add_many(
                some.observations, some.actions, some.rewards, some.terminations, some.truncations,
                some.lengths, some.seeds,
            )  # fmt: skip
            counting.add(some)
        tally = counting.tally()
        audit = audited(trip, tally)
        audit = audit if run is None else scoped(audit, run)
        sheet = make_sheet(audit)
        algorithm = f"rhocover {sheet['settings']['algorithm']}"
        writer.finish({"algorithm_name": algorithm, "description": audit.verdict, "rhocover": sheet})
    return tally, audit, sheet


class Counting:
    """Counts the episodes of a collection as an audit of the data set would."""

    def __init__(self, trip: Expedition) -> None:
        self._trip = trip
        self._numbers = make_state_numbers(trip.states)
        self._tallier = Tallier(trip.actions.num_actions, self._numbers.count)

    def add(self, some: FlatColumns) -> None:
        """Counts some episodes."""
        count_episodes(self._tallier, some, self._numbers, self._trip.actions, self._trip.name)

    def tally(self) -> Tally:
        """Returns the counts, by the environment's own keys."""
        counts = self._tallier.tally(source=self._trip.name, action_names=self._trip.actions.names)
        return self._numbers.named(counts)


def audited(trip: Expedition, tally: Tally) -> Audit:
    """Returns what counts cover: by the table where there is one, else by what was seen."""
    settings = trip.settings
    if trip.table is not None:
        return audit_tally(tally, settings.rho, settings.mu, model=trip.env)
    return audit_tally(tally, settings.rho, trip.weights if trip.weights is not None else settings.mu)
