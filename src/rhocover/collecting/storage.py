"""The folder of a collection: from a log of steps to a Minari data set with its datasheet.

`collect` and `top_up` both write one. It is never overwritten, it is locked while steps are added, and its
settings are stored in it.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rhocover.collecting.datasheet import scoped
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.episodes import episodes_of
from rhocover.collecting.log import PART_NAME, Log, part_files, parts_of, stored_steps
from rhocover.collecting.replay import Replay
from rhocover.collecting.worlds import open_environment
from rhocover.datasets.audit import audit_tally
from rhocover.datasets.builder import Tallier, count_episodes
from rhocover.datasets.empirical_model import KeyedModel
from rhocover.datasets.minari.columns import FlatColumns, space_leaves
from rhocover.datasets.minari.folders import remove_staged
from rhocover.datasets.reading_minari import check_version
from rhocover.datasets.result import Audit
from rhocover.datasets.states import make_state_numbers
from rhocover.datasets.tally import Tally
from rhocover.errors import (
    Call,
    InvalidArgumentError,
    OutOfMemoryError,
    missing_extra,
    naming,
    parse_text,
    shortened,
)
from rhocover.exploring.runs.result import Run
from rhocover.exploring.runs.runner import RunState, Storage, run
from rhocover.files import load_document, write_atomically
from rhocover.folders import Hold, Location, hold_folder, is_left, locate, make_folder, remove_left
from rhocover.progress import Report

FIRST = {"environment": 2, "rho": 1, "explorer": 1, "dataset_id": -1}  # compared first: others may follow
CALLED = {"environment": "env", "arrays": "mu"}
SETTINGS, SHEET, PAGE = "collection.json", "datasheet.json", "datasheet.html"


ANOTHER = (Call("Name another folder", "Name another folder, such as --out results"), ".")
UNFINISHED = parse_text("Continue it: pass `resume=True`. Or name another folder.")
FINISHED = (
    Call(
        "It is finished: name another folder",
        "Name another folder, such as --out results, or replace it with --force",
    ),
    ".",
)


def seed_in(out: Location) -> Any:
    """Returns the seed of the collection in a folder; None if there is none there."""
    settings = out.path / SETTINGS
    return load_document(settings).get("seed") if settings.is_file() else None


class CollectionFolder:
    """Use it in a `with` statement; `resume` continues a collection with the same settings."""

    def __init__(self, out: Any, document: dict[str, Any], *, resume: bool) -> None:
        self._place, self._resume = locate(out), resume
        self.path, self._document = self._place.path, json.loads(json.dumps(document))
        self._hold: Hold | None = None
        self._check()

    @property
    def dataset_id(self) -> str:
        """The id of its data set."""
        return self._document["dataset_id"]

    @property
    def digest(self) -> str:
        """The SHA-256 of everything that determines what is collected."""
        return digest_of(self._document)

    @property
    def out(self) -> Path:
        """The folder as the caller named it, if that path still leads there."""
        return Path(self._place.shown)

    def _check(self) -> None:
        with naming(self._place.shown):
            (self._check_same if self._resume else self._check_free)()

    def _check_free(self) -> None:
        if (self.path / SETTINGS).exists():
            raise InvalidArgumentError.of(
                "out",
                f"{self._place.shown!r} already contains a collection",
                remedy=FINISHED if (self.path / SHEET).exists() else UNFINISHED,
            )
        if self.path.exists() and (
            not self.path.is_dir() or any(not is_left(p, is_ours) for p in self.path.iterdir())
        ):
            raise InvalidArgumentError.of(
                "out", f"must be a new or empty folder: {self._place.shown!r} is not", remedy=ANOTHER
            )

    def _check_same(self) -> None:
        """Raises if the folder has no collection, one with other settings, or one that is finished."""
        if not (self.path / SETTINGS).is_file():
            raise InvalidArgumentError.of(
                "resume",
                f": there is no collection in {self._place.shown!r}",
                remedy=("Leave ", Call("resume", "--resume"), " out to begin one there."),
            )
        if (self.path / SHEET).exists():
            self._remove_log_if_free()  # left by a process that ended before its very last step
            raise InvalidArgumentError.of(
                "resume",
                f": the collection in {self._place.shown!r} is finished",
                remedy=(
                    "Add to it: ",
                    Call("rc.top_up", f"rhocover top-up {shlex.quote(self._place.shown)} --steps 1000"),
                    ".",
                ),
            )
        stored = load_document(self.path / SETTINGS)
        check_version(self.path / SETTINGS, stored)
        names = {*stored, *self._document} - {"algorithm"}  # the same as `explorer`
        for key in sorted(names, key=lambda key: (-FIRST.get(key, 0), key)):
            if stored.get(key) != self._document.get(key):
                was, now = (shortened(repr(found.get(key))) for found in (stored, self._document))
                raise InvalidArgumentError.of(
                    str(CALLED.get(key, key)),
                    f"was {was} when this collection was begun",
                    f"{now}",
                    remedy="Continue with the same value, or begin a new collection in another folder.",
                )

    def __enter__(self) -> CollectionFolder:
        make_folder(self.path)
        self._hold = hold_folder(self._place)
        try:
            self._check()  # again: another process may have been faster
            self._clear_left()
            if not (self.path / SETTINGS).exists():
                self._write(SETTINGS, json.dumps(self._document, indent=2, sort_keys=True) + "\n")
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def _clear_left(self) -> None:
        """Removes the unfinished files of a killed process."""
        remove_left(self.path, is_ours)
        remove_staged(self.path / self._document["dataset_id"])

    def _write(self, name: str, content: str) -> None:
        write_atomically(self.path / name, content.encode(), overwrite=True)

    def clear_unfinished(self, target: Path) -> None:
        """Removes a data set whose process ended before it wrote the datasheet."""
        make_folder(self.path)  # raises if the folder is no longer the one that is locked
        if target.exists() and not (self.path / SHEET).exists():
            shutil.rmtree(target)

    def finish(self, sheet: str) -> None:
        """Writes the datasheet, and removes the log, because the data set now contains all of it."""
        self._write(SHEET, sheet)
        self._remove_log()

    def _remove_log(self) -> None:
        for part in part_files(self.path):
            part.unlink()

    def _remove_log_if_free(self) -> None:
        """Removes a log that is no longer needed, unless it is in use or cannot be removed."""
        with suppress(OSError, InvalidArgumentError), hold_folder(self._hold or self._place):
            self._remove_log()


def is_ours(name: str) -> bool:
    """Whether a collection has a file of that name in its folder."""
    return name in (SETTINGS, SHEET, PAGE) or PART_NAME.fullmatch(name) is not None


Sheet = dict[str, Any]


def digest_of(document: Sheet) -> str:
    """Returns the SHA-256 of a document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def check_minari() -> None:
    """Raises before the first step if the data set could not be written at the end."""
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError as error:
        raise missing_extra(error.name or "minari", "minari") from error


def check_spaces(asked: EnvRun) -> None:
    """Raises if observations or actions have a space that a data set cannot store."""
    for space, name in ((asked.space, "observations"), (asked.action_space, "actions")):
        list(space_leaves(space, (name,)))


class LogStorage(Storage):
    """Writes the current part of the log at intervals."""

    def __init__(self, log: Log, report: Report | None) -> None:
        super().__init__(report)
        self._log = log

    def save_if_due(self, now: RunState) -> None:
        """Writes it if the last time was long enough ago."""
        self._log.pause()


def record(asked: EnvRun, folder: Path, digest: str, report: Report | None) -> Run | None:
    """Returns the finished run, whose steps are then in the folder's log; None if it adds to earlier data.

    Steps that are already in the log are repeated from there.
    """
    stored = stored_steps(folder, digest)
    log, env = Log(folder, asked.space, digest, stored), asked.acting
    if stored is not None and not asked.is_vector:
        env = Replay(env, asked.actions.values, folder, digest, stored.num_steps)
    with _naming_the_log(folder):
        try:
            return run(open_environment(asked, log, env), asked.spec, LogStorage(log, report))
        finally:
            log.close()


@contextmanager
def _naming_the_log(folder: Path) -> Iterator[None]:
    """Adds to a MemoryError that the log is complete and the collection can be resumed."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(
            parse_text(
                f"there was not enough memory to continue: {str(error) or 'none was left'}. The steps in "
                f"{str(folder)!r} are complete: continue with `resume=True` where there is more memory."
            )
        ) from error


def publish(
    asked: EnvRun, folder: CollectionFolder, make_sheet: Callable[[Audit], Sheet], found: Run | None
) -> tuple[Tally, Audit, Sheet]:
    """Writes the data set of the log with its datasheet; returns its tally, its audit and the datasheet.

    `found` is the run that collected it, if there was one: it knows which states were never met.
    """
    from rhocover.datasets.minari.files import MinariWriter

    spec = None if asked.is_vector else getattr(asked.env, "spec", None)
    name, digest = folder.dataset_id, folder.digest
    target, tallier, values = folder.path / name, EpisodeTallier(asked), np.array(asked.actions.values)
    folder.clear_unfinished(target)
    writer = MinariWriter(
        target, name, observation_space=asked.space, action_space=asked.action_space, env_spec=spec
    )
    with _naming_the_log(folder.path), writer, naming(folder.path):
        for some in episodes_of(parts_of(folder.path, digest), asked.space, values, folder.path):
            writer.add_many(
                some.observations, some.actions, some.rewards, some.terminations, some.truncations,
                some.lengths, some.seeds,
            )  # fmt: skip
            tallier.add(some)
        tally = tallier.tally()
        audit = audited(asked, tally)
        audit = audit if found is None else scoped(audit, found)
        sheet = make_sheet(audit)
        algorithm = f"rhocover {sheet['settings']['algorithm']}"
        writer.finish({"algorithm_name": algorithm, "description": audit.verdict, "rhocover": sheet})
    return tally, audit, sheet


class EpisodeTallier:
    """Counts the episodes of a collection as an audit of the data set would."""

    def __init__(self, asked: EnvRun) -> None:
        self._asked = asked
        self._numbers = make_state_numbers(asked.states)
        self._tallier = Tallier(asked.actions.num_actions, self._numbers.count)

    def add(self, some: FlatColumns) -> None:
        """Counts some episodes."""
        count_episodes(self._tallier, some, self._numbers, self._asked.actions, self._asked.name)

    def tally(self) -> Tally:
        """Returns the counts, by the keys of the environment's states."""
        counts = self._tallier.tally(source=self._asked.name, action_names=self._asked.actions.names)
        return self._numbers.named(counts)


def audited(asked: EnvRun, tally: Tally) -> Audit:
    """Returns the audit of a tally: on the environment's table if it has one, else on the observed model."""
    spec = asked.spec
    if asked.table is not None:
        model = KeyedModel(asked.table.model, tuple(asked.table.states.tolist()))
        return audit_tally(tally, spec.rho, spec.mu, model=model)
    return audit_tally(tally, spec.rho, asked.weights if asked.weights is not None else spec.mu)
