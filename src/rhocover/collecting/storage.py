"""The folder of a collection: its manifest, its parts and its datasheet, while they are written.

`collect` and `top_up` both write one. It is never overwritten, it is locked while steps are added, and its
settings are stored in its manifest. The parts are written by `log`, and are both what a resumed run repeats
and what is delivered. The manifest says that the collection is complete once its datasheet is there.

Collections of the first format have `collection.json` instead of a manifest: a log of safetensors files until
they were finished, and a Minari data set afterwards. They are read (`datasets.reading`), but not continued.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rhocover.collecting.datasheet import code_of, scoped
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.log import Log, round_steps, usable
from rhocover.collecting.replay import Replay
from rhocover.collecting.rounds import RoundLog, run_shared
from rhocover.collecting.worlds import open_environment
from rhocover.datasets.audit import audit_tally
from rhocover.datasets.builder import Tallier, count_episodes
from rhocover.datasets.collection.manifest import (
    MANIFEST,
    PART_NAME,
    PARTS,
    Manifest,
    digest_of,
    load_manifest,
    pieces_of,
    space_document,
    write_manifest,
)
from rhocover.datasets.collection.rows import Spaces
from rhocover.datasets.empirical_model import KeyedModel
from rhocover.datasets.minari.columns import space_leaves
from rhocover.datasets.reading_minari import check_version
from rhocover.datasets.result import Audit
from rhocover.datasets.states import make_state_numbers
from rhocover.datasets.tally import Tally
from rhocover.errors import (
    Call,
    InvalidArgumentError,
    OutOfMemoryError,
    RhocoverError,
    Text,
    naming,
    parse_text,
    shortened,
)
from rhocover.exploring.runs.result import Run
from rhocover.exploring.runs.runner import RunState, Storage, run
from rhocover.files import load_document, write_atomically
from rhocover.folders import (
    Hold,
    Location,
    hold_folder,
    is_left,
    is_temporary_of,
    locate,
    make_folder,
    remove_left,
)
from rhocover.progress import Report

FIRST = {"environment": 2, "rho": 1, "explorer": 1, "dataset_id": -1}  # compared first: others may follow
CALLED = {"environment": "env", "arrays": "mu"}
SETTINGS, SHEET, PAGE = (
    "collection.json",
    "datasheet.json",
    "datasheet.html",
)  # the first: of the first format


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
    return load_manifest(out.path).settings.get("seed") if (out.path / MANIFEST).is_file() else None


class CollectionFolder:
    """Use it in a `with` statement; `resume` continues a collection with the same settings."""

    def __init__(self, out: Any, asked: EnvRun, document: dict[str, Any], *, resume: bool) -> None:
        self._place, self._resume, self._asked = locate(out), resume, asked
        self.path, self._document = self._place.path, json.loads(json.dumps(document))
        self._hold: Hold | None = None
        self._check()

    @property
    def dataset_id(self) -> str:
        """The id of its data set."""
        return self._document["dataset_id"]

    @property
    def out(self) -> Path:
        """The folder as the caller named it, if that path still leads there."""
        return Path(self._place.shown)

    def _check(self) -> None:
        with naming(self._place.shown):
            (self._check_same if self._resume else self._check_free)()

    def _check_free(self) -> None:
        if is_begun(self.path):
            raise InvalidArgumentError.of(
                "out",
                f"{self._place.shown!r} already contains a collection",
                remedy=_instead(self.path),
            )
        if self.path.exists() and (
            not self.path.is_dir() or any(not _is_remnant(path) for path in self.path.iterdir())
        ):
            raise InvalidArgumentError.of(
                "out", f"must be a new or empty folder: {self._place.shown!r} is not", remedy=ANOTHER
            )

    def _check_same(self) -> None:
        """Raises if the folder has no collection, one with other settings, or one that is finished."""
        if not is_begun(self.path):
            raise InvalidArgumentError.of(
                "resume",
                f": there is no collection in {self._place.shown!r}",
                remedy=("Leave ", Call("resume", "--resume"), " out to begin one there."),
            )
        if _is_finished(self.path):
            raise InvalidArgumentError.of(
                "resume",
                f": the collection in {self._place.shown!r} is finished",
                remedy=(
                    "Add to it: ",
                    Call("rc.top_up", f"rhocover top-up {shlex.quote(self._place.shown)} --steps 1000"),
                    ".",
                ),
            )
        if not (self.path / MANIFEST).is_file():
            self._refuse_first_format()
        found = load_manifest(self.path)
        stored = document_of(found)
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

    def _refuse_first_format(self) -> None:
        """Raises for a collection that an earlier version began: its steps are stored in another way."""
        stored = load_document(self.path / SETTINGS)
        check_version(self.path / SETTINGS, stored)
        versions = stored.get("versions")
        writer = shortened(versions.get("rhocover") if isinstance(versions, dict) else None, 30)
        raise InvalidArgumentError.of(
            "resume",
            f": the collection in {self._place.shown!r} was begun by rhocover {writer}, which stored its "
            "steps in another format",
            remedy=f"Finish it with pip install rhocover=={writer}, or begin a new one in another folder.",
        )

    def __enter__(self) -> CollectionFolder:
        make_folder(self.path)
        self._hold = hold_folder(self._place)
        try:
            self._check()  # again: another process may have been faster
            self._clear_left()
            if not (self.path / MANIFEST).exists():
                write_manifest(self.path, self._empty())
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
        make_folder(self.path / PARTS)
        remove_left(self.path / PARTS, is_part)

    def _empty(self) -> Manifest:
        """Returns the manifest before the first step."""
        asked, rest = self._asked, dict(self._document)
        head = {name: rest.pop(name) for name in ("format", "versions")}
        return Manifest(
            **head, id=rest.pop("dataset_id"), settings=rest, digest=digest_of(self._document),
            code=json.loads(json.dumps(code_of(asked))), spaces=space_documents(asked),
            round_steps=round_steps(asked.space), is_complete=False, parts=(),
        )  # fmt: skip

    def finish(self, manifest: Manifest, sheet: str) -> None:
        """Writes the datasheet, and then the manifest, which says that the collection is complete."""
        write_atomically(self.path / SHEET, sheet.encode(), overwrite=True)
        code = json.loads(json.dumps(code_of(self._asked)))
        write_manifest(self.path, replace(manifest, code=code, is_complete=True))


def document_of(manifest: Manifest) -> dict[str, Any]:
    """Returns everything that determines what is collected, of which the manifest has the digest."""
    head = {"format": manifest.format, "versions": manifest.versions, "dataset_id": manifest.id}
    return {**head, **manifest.settings}


def is_begun(folder: Path) -> bool:
    """Whether a folder has a collection, finished or not, of any format."""
    return (folder / MANIFEST).is_file() or (folder / SETTINGS).is_file()


def _instead(folder: Path) -> Text:
    """Returns what to do where a folder has a collection already, which may be damaged."""
    try:
        return FINISHED if _is_finished(folder) else UNFINISHED
    except RhocoverError:
        return ANOTHER


def _is_finished(folder: Path) -> bool:
    if (folder / MANIFEST).is_file():
        return load_manifest(folder).is_complete
    return (folder / SHEET).exists()


def _is_remnant(path: Path) -> bool:
    """Whether a killed process left this in a folder before it had begun a collection there."""
    if path.name == PARTS and path.is_dir() and not path.is_symlink():
        return all(is_left(part, is_part) for part in path.iterdir())
    return is_left(path, is_ours)


def is_ours(name: str) -> bool:
    """Whether a collection has a file of that name in its folder, besides its parts."""
    return name in (MANIFEST, SHEET, PAGE)


def is_part(name: str) -> bool:
    """Whether a part may have that name."""
    return PART_NAME.fullmatch(name) is not None


def is_of_collection(name: str) -> bool:
    """Whether a collection may have a file of that name below its folder, complete or partly written."""
    folder, _, file = name.rpartition("/")
    test = {"": is_ours, PARTS: is_part}.get(folder)
    return test is not None and (test(file) or is_temporary_of(file, test))


Sheet = dict[str, Any]


def spaces_of_run(asked: EnvRun) -> Spaces:
    """Returns the spaces of observations and actions of one copy."""
    return Spaces(asked.space, asked.action_space)


def space_documents(asked: EnvRun) -> dict[str, Any]:
    """Returns the documents of both, for the manifest."""
    return {"observation": space_document(asked.space), "action": space_document(asked.action_space)}


def check_spaces(asked: EnvRun) -> None:
    """Raises if observations or actions have a space that a data set cannot store."""
    for space, name in ((asked.space, "observations"), (asked.action_space, "actions")):
        list(space_leaves(space, (name,)))


class LogStorage(Storage):
    """Writes the current round at intervals."""

    def __init__(self, log: Log, report: Report | None) -> None:
        super().__init__(report)
        self._log = log

    def save_if_due(self, now: RunState) -> None:
        """Writes it if the last time was long enough ago."""
        self._log.pause()


def record(asked: EnvRun, folder: Path, report: Report | None) -> tuple[Run | None, Manifest]:
    """Returns the finished run, None if it adds to earlier data, and the manifest of its steps.

    Steps that are already stored are repeated from there.
    """
    spaces = spaces_of_run(asked)
    with _naming_the_steps(folder):
        stored = usable(folder, load_manifest(folder), spaces)
    if asked.workers is not None:
        rounds = RoundLog(folder, spaces, stored)
        with _naming_the_steps(folder):
            found = run_shared(asked, asked.workers, Storage(report), rounds)
        return found, rounds.manifest
    log, env = Log(folder, spaces, asked.actions.values, stored), asked.acting
    if stored.parts and not asked.is_vector:
        env = Replay(env, asked.actions, folder, stored)
    with _naming_the_steps(folder):
        try:
            found = run(open_environment(asked, log, env), asked.spec, LogStorage(log, report))
            return found, log.complete()
        finally:
            log.close()


@contextmanager
def _naming_the_steps(folder: Path) -> Iterator[None]:
    """Adds to a MemoryError that the steps are stored and the collection can be resumed."""
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
    asked: EnvRun, folder: Path, manifest: Manifest, make_sheet: Callable[[Audit], Sheet], found: Run | None
) -> tuple[Tally, Audit, Sheet]:
    """Returns the tally of the steps on disk, its audit and the datasheet.

    `found` is the run that collected them, if there was one: it knows which states were never met.
    """
    numbers = make_state_numbers(asked.states)
    tallier = Tallier(asked.actions.num_actions, numbers.count)
    goes_on = False
    with _naming_the_steps(folder), naming(folder):
        for some in pieces_of(folder, manifest, spaces_of_run(asked)):
            count_episodes(tallier, some, numbers, asked.actions, asked.name, goes_on)
            goes_on = some.has_more
        counts = tallier.tally(source=asked.name, action_names=asked.actions.names)
        tally = numbers.named(counts)
        audit = audited(asked, tally)
        audit = audit if found is None else scoped(audit, found)
    return tally, audit, make_sheet(audit)


def audited(asked: EnvRun, tally: Tally) -> Audit:
    """Returns the audit of a tally: on the environment's table if it has one, else on the observed model."""
    spec = asked.spec
    if asked.table is not None:
        model = KeyedModel(asked.table.model, tuple(asked.table.states.tolist()))
        return audit_tally(tally, spec.rho, spec.mu, model=model)
    return audit_tally(tally, spec.rho, asked.weights if asked.weights is not None else spec.mu)
