"""Breaks the disk under one verb, at each of its operations, and looks at what is left and at what comes next.

    python fault_runs.py VERB ...

prints one line of JSON for each way to break: how many moments were tried, and what was wrong at which of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broken_disk import Disk, breaking
from writing_verbs import VERBS, CommandError, Verb, settle

from rhocover.datasets.collection.manifest import MANIFEST, load_manifest, part_bytes
from rhocover.errors import RhocoverError

Files = dict[str, bytes]
AT_ONCE = (".json", ".html", ".csv", ".png")  # files that are written once, when everything is known


def contents(folder: Path) -> Files:
    """Returns every file below a folder by its relative path, but for checkpoints: results come of them."""
    places = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in places
        if "checkpoint-" not in path.name
    }


def hidden(files: Files) -> list[str]:
    """Returns the names that an interrupted write leaves; not those of what was replaced (`.name.old`)."""
    parts = {name: name.split("/") for name in files}
    return [name for name in files if any(_is_left(part) for part in parts[name])]


def _is_left(part: str) -> bool:
    return part.startswith(".") and not part.endswith(".old")


def called(verb: Verb, folder: Path) -> str | None:
    """Returns what a call raised that may be raised; None if it came to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            verb.call(folder)
        except (RhocoverError, OSError, CommandError) as error:
            return str(error)
    return None


def trial(verb: Verb, folder: Path, n: int, mode: str, whole: Files, before: Files) -> list[str]:
    """Returns what was wrong when the n-th operation failed."""
    said = _broken(verb, folder, Disk(n, mode))
    left, wrong = contents(folder), []
    if mode != "death":
        if said is not None and not any(name in said for name in ("out", "page.html")):
            wrong.append(f"the error does not name a file: {said}")
        if hidden(left):
            wrong.append(f"left behind: {hidden(left)}")
    for name, payload in before.items():
        allowed = (payload, whole.get(name)) if verb.replaces else (payload,)
        if left.get(name) not in allowed and not (mode == "death" and _is_aside(left, payload)):
            wrong.append(f"{name} was there before and is not whole any more")
    once = [name for name in left if name.endswith(AT_ONCE) and not name.endswith(MANIFEST)]
    new = [name for name in once if name in whole and name not in before]
    wrong += [f"{name} is half written" for name in new if left[name] != whole[name]]
    wrong += [text for place in folder.rglob(MANIFEST) for text in unwhole_parts(place.parent)]
    again = called(verb, folder)
    if again is not None:
        wrong.append(f"the same call again: {again}")
    now = contents(folder)
    shown = {name: payload for name, payload in now.items() if name not in hidden(now) and name[0] != "."}
    differing = sorted(name for name in {*shown, *whole} if shown.get(name) != whole.get(name))
    if set(differing) - set(verb.differs) or shown.keys() != whole.keys():
        wrong.append(f"differs in the end: {differing}")
    if hidden(now) and (mode != "death" or verb.cleans):
        wrong.append(f"left behind in the end: {hidden(now)}")
    return [f"operation {n}: {text}" for text in wrong]


def unwhole_parts(folder: Path) -> list[str]:
    """Returns what is wrong with the parts that a manifest names, whenever it is looked at."""
    try:
        for part in load_manifest(folder).parts:
            part_bytes(folder, part)
    except ValueError as error:
        return [f"the manifest names what is not there: {error}"]
    return []


def _is_aside(left: Files, payload: bytes) -> bool:
    """Whether a file that was there is still there under a hidden name: killed between two renames."""
    return any(left[name] == payload for name in left if name.startswith("."))


def _broken(verb: Verb, folder: Path, disk: Disk) -> str | None:
    """Calls the verb on a disk that breaks; in a copy of this process, if it will die."""
    if disk.mode != "death":
        with breaking(disk):
            return called(verb, folder)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with breaking(disk):
                called(verb, folder)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
    return None


def in_a_folder(work: Callable[[Path], Any]) -> Any:
    """Does the work in a new folder, which is the working directory then: names in files are the same."""
    folder, here = Path(tempfile.mkdtemp(prefix="faults-")), os.getcwd()
    os.chdir(folder)
    try:
        return work(Path())
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


def break_everywhere(name: str, mode: str, every: int) -> dict[str, Any]:
    """Returns how many operations a verb has, at how many it was broken, and what was wrong then."""
    verb = VERBS[name]

    def undisturbed(folder: Path) -> tuple[Files, Files, int]:
        verb.prepare(folder)
        before = contents(folder)
        with breaking(Disk()) as disk:
            verb.call(folder)
        return before, contents(folder), disk.count

    before, whole, count = in_a_folder(undisturbed)

    def one(folder: Path, n: int) -> list[str]:
        verb.prepare(folder)
        return trial(verb, folder, n, mode, whole, before)

    moments = range(1, count + 1, every)
    wrong = [text for n in moments for text in in_a_folder(lambda folder, n=n: one(folder, n))]
    return {"verb": name, "mode": mode, "operations": count, "tried": len(moments), "wrong": wrong}


def main(names: list[str]) -> None:
    settle()
    os.fsync = lambda handle: None  # spares the disk; operations are counted all the same
    for name in names:
        for mode in ("once", "full", "death"):
            print(json.dumps(break_everywhere(name, mode, VERBS[name].every.get(mode, 1))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
