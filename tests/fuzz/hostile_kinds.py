"""Every kind of file made to hurt, with the reader that meets it: `attack(name, seed, folder)` tries one.

    python hostile_kinds.py SEED [NAME ...]

prints a line of JSON for each kind: what came of it, and how much memory it took. Each is tried in a copy of
this process, which may die or be stopped.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_sealed
import numpy as np
from hostile_forms import FORMS
from hostile_sets import SETS, whole_set
from hostile_tables import TABLES, Make, steps

import rhocover as rc
from rhocover.cli.parsing import parse_weights
from rhocover.datasets.minari.files import open_minari
from rhocover.errors import RhocoverError
from rhocover.experiments import Comparison

PATIENCE = 300  # seconds: only a hang takes as long
MOST_ROOM = 12 << 30  # bytes: so that a mistake stops before the machine does
MODEL = rc.envs.river_swim(num_states=5)


@dataclass(frozen=True)
class Kind:
    """A way to make a file, and the reader that will open it."""

    make: Make
    read: Callable[[Path], Any]


def read_all(path: Path) -> int:
    """Returns how many steps a Minari data set has, all of it read."""
    return sum(len(columns.rewards) for columns in open_minari(path).columns())


KINDS: dict[str, Kind] = {
    **{name: Kind(make, rc.audit) for name, make in (TABLES | SETS | FORMS).items()},
    "hdf5_jpeg": Kind(SETS["hdf5_jpeg"], read_all),
    **{name: Kind(make, rc.MDP.load) for name, make in hostile_sealed.SEALED.items()},
    "run_in_its_place": Kind(hostile_sealed.run_in_its_place, lambda path: rc.resume(path)),
    "comparison": Kind(hostile_sealed.comparison_of, Comparison.load),
    "collection": Kind(hostile_sealed.collection, rc.audit),
    "weights": Kind(hostile_sealed.weights, lambda path: parse_weights(str(path), MODEL)),
}


def attack(name: str, seed: int, folder: Path) -> str:
    """Makes a file of this kind in an empty folder and reads it; returns what is wrong, or what was said.

    What begins with "wrong" is: another exception than ours, a warning, a message that cannot be printed.
    """
    kind = KINDS[name]
    path = kind.make(np.random.default_rng([seed, zlib.crc32(name.encode())]), folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", rc.errors.CheckpointWarning)
        try:
            answer = str(kind.read(path))
            answer.encode()
        except RhocoverError as error:
            return _judged(str(error), path, folder)
        except BaseException as error:
            import traceback

            return f"wrong: {''.join(traceback.format_exception(error))[-1500:]}"
    return f"read: {answer[:200]}"


def _judged(message: str, path: Path, folder: Path) -> str:
    try:
        message.encode()
    except UnicodeEncodeError as error:
        return f"wrong: a message that cannot be printed ({error})"
    if len(message) > 2000:
        return f"wrong: a message of {len(message)} letters: {message[:300]}"
    if not any(part in message for part in (path.name, folder.name, "hostile/set-v0")):
        return f"wrong: the message does not name the file: {message[:300]}"
    return f"refused: {message}"


def attack_apart(name: str, seed: int) -> dict[str, Any]:
    """Tries one kind in a copy of this process; returns what came of it and the memory that it took in MB."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    reader, writer = os.pipe()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(PATIENCE)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_ROOM, MOST_ROOM))
        try:
            said = attack(name, seed, folder)
        except BaseException as error:
            said = f"wrong: the file could not be made: {error!r}"
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(said[:3000].encode("utf-8", "backslashreplace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    said = said if not status else f"wrong: died or hung (status {status})"
    return {"kind": name, "seed": seed, "said": said, "MB": max(0, used.ru_maxrss - before) >> 10}


def warm_up() -> None:
    """Reads a small table and a small data set once, so that every copy has what reading needs.

    Arrow is imported and not used: threads that it began would not be there in a copy.
    """
    import PIL.JpegImagePlugin  # noqa: F401
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401

    rc.audit(steps(np.random.default_rng(0)))
    with tempfile.TemporaryDirectory() as folder:
        rc.audit(whole_set(np.random.default_rng(0), Path(folder)))


def main(seed: int, names: list[str]) -> None:
    warm_up()
    for name in names or KINDS:
        print(json.dumps(attack_apart(name, seed)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
