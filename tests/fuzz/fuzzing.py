"""Damages files, reads them, and judges what comes of it: a refusal that names the file, or the right answer.

    python fuzzing.py GROUP SEED ROUNDS [SHARE]

prints a line of JSON for each target. Cases run in copies of this process with a limit on memory; one that
dies, or gives no sign for PATIENCE seconds, is recorded, and another copy goes on after it.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import damages
import numpy as np
import whole_files
from memory_limit import limit_memory
from targets import GROUPS, CheckpointWarning, Target, scratch

from rhocover.errors import RhocoverError
from rhocover.files import load_tensors, save_tensors

PATIENCE = 300  # seconds without a sign of life: a machine may be busy, only a hang takes as long
MOST_RESIDENT = 700 << 10  # kilobytes beyond what it had
MOST_LETTERS = 2000  # of a message
ABOUT_MORE = (  # of whole files with other contents: what does not go with them is named instead
    "is needed: the run was made with",
    "can never be visited again once left",
    "the environment returned an observation that is not a state",
    "the collection cannot continue",
    "the environment raised",
)
PER_ROUND = {"bytes": 60, "sealed": 40}


@dataclass(frozen=True)
class Case:
    """One damage: its name, what it does to the victim, and whether the result may be another whole file."""

    name: str
    apply: Callable[[Path], None]
    may_be_whole: bool = False


def cases(target: Target, seed: int, rounds: float, work: Path) -> Iterator[Case]:
    """Yields the damages of one target, the same for the same seed."""
    for name, place in damages.PLACES.items():
        yield Case(name, place)
    for name, payload in target.hostile:
        yield Case(name, lambda path, p=payload: path.write_bytes(p), may_be_whole=True)
    payload, kinds = target.files[target.victim], damages.TEXT if target.is_text else damages.BYTES
    for k in range(int(PER_ROUND["bytes"] * rounds)):
        rng = _rng(target, seed, k)
        damage = kinds[int(rng.integers(len(kinds)))]
        yield Case(f"{damage.__name__} {k}", lambda path, d=damage, r=rng: path.write_bytes(d(payload, r)))
    if target.kind is not None:
        yield from _behind_the_seal(target, seed, rounds, work)


def _behind_the_seal(target: Target, seed: int, rounds: float, work: Path) -> Iterator[Case]:
    assert target.kind is not None
    path = work / "sealed"
    path.write_bytes(target.files[target.victim])
    tensors, document = load_tensors(path, target.kind)
    for k in range(int(PER_ROUND["sealed"] * rounds)):
        rng = _rng(target, seed, -k - 1)
        change = damages.other_tensor if tensors and rng.random() < 0.6 else damages.other_entry

        def apply(place: Path, change: Any = change, rng: Any = rng) -> None:
            save_tensors(
                place, target.kind or "", *change(dict(tensors), dict(document), rng), overwrite=True
            )

        yield Case(f"{change.__name__} {k}", apply, may_be_whole=True)


def _rng(target: Target, seed: int, k: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(target.name.encode()), k + 2**20])


def judge(target: Target, case: Case, folder: Path, expected: Any) -> str | None:
    """Returns what is wrong with how a damaged file is read; None if nothing is."""
    path = target.put(folder)
    case.apply(path)
    before = _listing(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", CheckpointWarning)
            answer = target.read(folder)
    except RhocoverError as error:
        is_about_more = case.may_be_whole and any(words in str(error) for words in ABOUT_MORE)
        wrong = None if is_about_more else _wrong_message(str(error), folder, path)
        if wrong is None and target.changes_nothing and _listing(folder) != before:
            wrong = "a refusal changed the folder"
        return wrong
    except BaseException as error:
        return "".join(traceback.format_exception(error)[-3:])[-900:]
    return _wrong_answer(target, case, folder, answer, expected)


def _wrong_message(message: str, folder: Path, path: Path) -> str | None:
    if not any(name in message for name in (path.name, folder.name)):
        return f"the message does not name the file: {message[:300]}"
    return f"a message of {len(message)} letters: {message[:300]}" if len(message) > MOST_LETTERS else None


def _wrong_answer(target: Target, case: Case, folder: Path, answer: Any, expected: Any) -> str | None:
    if answer == expected:
        return None
    if target.peer is None:
        if case.may_be_whole and target.kind is not None:
            return None if target.is_sane(answer) else f"an answer that cannot be: {str(answer)[:300]}"
        return f"another answer: {str(answer)[:300]}"
    try:
        other = target.peer(folder)
    except Exception as error:
        return f"an answer where another reader has none ({error!r:.200}): {str(answer)[:200]}"
    return (
        None
        if answer == other
        else f"an answer, {str(answer)[:200]}, that is not the other reader's, {str(other)[:200]}"
    )


def _listing(folder: Path) -> dict[str, Any]:
    """Returns what is in a folder; other than files only by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK) else None
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip


# --- copies that may die --------------------------------------------------------------------------------


def run_target(target: Target, seed: int, rounds: float, share: float = 1.0) -> dict[str, Any]:
    """Returns how many damages a target was tried with, and those that went wrong; `share` of all are tried."""
    with scratch() as work:
        (work / "whole").mkdir()
        target.put(work / "whole")
        expected = target.read(work / "whole")
        listed = _some(list(cases(target, seed, rounds, work)), target, seed, share)
        found: dict[str, Any] = {"target": target.name, "count": 0, "refused": 0, "wrong": []}
        began = time.monotonic()
        while found["count"] < len(listed):
            _one_copy(target, listed, found, work, expected)
        return found | {"seconds": round(time.monotonic() - began, 2)}


def _some(listed: list[Case], target: Target, seed: int, share: float) -> list[Case]:
    if share == 1.0:
        return listed
    chosen = np.sort(_rng(target, seed, -1).permutation(len(listed))[: int(np.ceil(share * len(listed)))])
    return [listed[k] for k in chosen]


def _one_copy(target: Target, listed: list[Case], found: dict[str, Any], work: Path, expected: Any) -> None:
    """Runs cases in a copy of this process, from the next one on, until it ends in any way."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            _work(target, listed, found["count"], work, expected, writer)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    end = "died"
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                end = f"hung for {PATIENCE} seconds"
                os.kill(child, signal.SIGKILL)
                break
            line = _line(pipe)
            if not line:
                break
            wrong = json.loads(line)
            if wrong is not None:
                found["wrong"].append({"case": listed[found["count"]].name, "wrong": wrong})
            found["count"] += 1
    _, status = os.waitpid(child, 0)
    if found["count"] < len(listed) and status:
        found["wrong"].append({"case": listed[found["count"]].name, "wrong": f"{end} (status {status})"})
        found["count"] += 1


def _line(pipe: Any) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = pipe.read(1)
        if not piece:
            return b""
        line += piece
    return line


def _work(target: Target, listed: list[Case], first: int, work: Path, expected: Any, writer: int) -> None:
    """Judges cases one after another, and writes a line for each."""
    limit_memory()
    for number in range(first, len(listed)):
        folder = work / f"place-{number}"
        folder.mkdir()
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wrong = judge(target, listed[number], folder, expected)
        grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
        if wrong is None and grew > MOST_RESIDENT:
            wrong = f"took {grew >> 10} MB"
        os.write(writer, (json.dumps(wrong) + "\n").encode())
        _remove(folder)


def _remove(folder: Path) -> None:
    import shutil

    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)


def main(group: str, seed: int, rounds: float, share: float = 1.0) -> None:
    whole_files.settle()
    with scratch() as work:
        for target in GROUPS[group](work):
            print(json.dumps(run_target(target, seed, rounds, share)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:]))
