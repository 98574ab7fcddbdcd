"""Odd surroundings for a command: variables, closed streams, limits, masks, folders that are gone, signals.

Each says what may come of it. The default is the strictest: the command does its work as ever, and exits with 0.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import resource
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watched_place import Place

SOURCE = Path(__file__).resolve().parents[2] / "src" / "rhocover"
FINE, REFUSED = (0,), (0, 1, 2)  # does its work; or says in a line why it cannot
NATIVE = (-6, -11, 127, 134, 139)  # libraries in C end so where they find no memory
Prepare = Callable[[Place], None]


def nothing(*_: Any) -> None:
    """Does nothing."""


@dataclass(frozen=True)
class Surroundings:
    """`variables` are set, those that are None removed; `inside` is called in the process before the command begins."""

    variables: Mapping[str, str | None] = field(default_factory=dict)
    prepare: Prepare = nothing
    inside: Callable[[Place], None] = nothing
    codes: tuple[int, ...] = FINE
    closed: tuple[int, ...] = ()
    output: str = ""  # a file that stdout is
    has_reader: bool = True  # whether somebody reads stdout to its end
    signal: int = 0  # sent at a random instant
    is_heard: bool = True  # whether there is a place for an error line
    noise: str = ""  # words of another library's that a traceback of its own comes with
    may_litter: bool = False  # what is left is cleared by the next command


# --- what changes a process -----------------------------------------------------------------------------


def limited(kind: int, most: int) -> Callable[[Place], None]:
    return lambda place: resource.setrlimit(kind, (most, most))


def masked(mask: int) -> Callable[[Place], None]:
    return lambda place: os.umask(mask) and None


def without_rights(place: Place) -> None:
    """Takes from root the right to write where permissions say no; others never had it."""
    with contextlib.suppress(AttributeError, OSError):
        for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP


def gone(place: Place) -> None:
    """Is in a folder that is not there any more."""
    folder = place.root / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()


def read_only_home(place: Place) -> None:
    (place.root / "home").chmod(0o555)


def read_only_install(place: Place) -> None:
    """Has the library installed where nobody may write, as administrators do."""
    target = place.root / "install" / "rhocover"
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    for folder, _, _ in os.walk(target.parent):
        os.chmod(folder, 0o555)


def read_only_out(place: Place) -> None:
    (place.here / "out").mkdir()
    (place.here / "out").chmod(0o555)


def both(*actions: Callable[[Place], None]) -> Callable[[Place], None]:
    def all_of(place: Place) -> None:
        for action in actions:
            action(place)

    return all_of


# --- kinds ----------------------------------------------------------------------------------------------


def variable_kinds() -> dict[str, Surroundings]:
    """Returns kinds that differ in environment variables; all of them leave a command its work."""
    odd: dict[str, dict[str, str | None]] = {
        "no HOME": {"HOME": None}, "HOME is a device": {"HOME": "/dev/null"}, "HOME is nowhere": {"HOME": "/nowhere/at/all"}, "HOME is empty": {"HOME": ""},
        "no TMPDIR": {"TMPDIR": None}, "TMPDIR is nowhere": {"TMPDIR": "/nowhere"}, "no PATH": {"PATH": None}, "no variables but these": {"LANG": None, "USER": None, "SHELL": None},
        "plain C": {"LC_ALL": "C", "LANG": "C"}, "ASCII": {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, "ASCII and no UTF-8 mode": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "a locale that is none": {"LC_ALL": "xx_YY.UTF-99"}, "latin-1": {"PYTHONIOENCODING": "latin-1"},
        "COLUMNS of 1": {"COLUMNS": "1"}, "COLUMNS of 0": {"COLUMNS": "0"}, "COLUMNS is text": {"COLUMNS": "wide"}, "COLUMNS of -5": {"COLUMNS": "-5"}, "COLUMNS of 10^9": {"COLUMNS": "1000000000"},
        "a dumb terminal": {"TERM": "dumb"}, "no TERM": {"TERM": None}, "TERM is none": {"TERM": "no such thing"}, "colours": {"FORCE_COLOR": "1"}, "NO_COLOR": {"NO_COLOR": "1"},
        "a bad MPLBACKEND": {"MPLBACKEND": "nonsense"}, "an MPLBACKEND with windows": {"MPLBACKEND": "TkAgg"}, "MPLCONFIGDIR is nowhere": {"MPLCONFIGDIR": "/dev/null/x"},
        "bad NUMBA_NUM_THREADS": {"NUMBA_NUM_THREADS": "many"}, "NUMBA_NUM_THREADS of 0": {"NUMBA_NUM_THREADS": "0"}, "NUMBA_CACHE_DIR is nowhere": {"NUMBA_CACHE_DIR": "/dev/null/x"},
        "Numba does not compile": {"NUMBA_DISABLE_JIT": "1"}, "bad OMP_NUM_THREADS": {"OMP_NUM_THREADS": "-3", "OPENBLAS_NUM_THREADS": "x"}, "a bad threading layer": {"NUMBA_THREADING_LAYER": "none"},
        "warnings are errors": {"PYTHONWARNINGS": "error::UserWarning"}, "optimised": {"PYTHONOPTIMIZE": "2"}, "developer's mode": {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore"},
        "hashes of another seed": {"PYTHONHASHSEED": "12345"}, "unbuffered": {"PYTHONUNBUFFERED": "1"}, "a bad TZ": {"TZ": "Nowhere/At_All"}, "MINARI_DATASETS_PATH is nowhere": {"MINARI_DATASETS_PATH": "/dev/null/x"},
    }  # fmt: skip
    kinds = {name: Surroundings(variables) for name, variables in odd.items()}
    for name in (
        "bad NUMBA_NUM_THREADS",
        "NUMBA_NUM_THREADS of 0",
        "a bad threading layer",
        "TMPDIR is nowhere",
    ):
        kinds[name] = Surroundings(odd[name], codes=REFUSED)
    return kinds


def stream_kinds() -> dict[str, Surroundings]:
    """Returns kinds with streams that are closed, full or not read."""
    kinds = {}
    for number in (1, 2, 3):
        for closed in itertools.combinations((0, 1, 2), number):
            kinds[f"closed: {closed}"] = Surroundings(closed=closed, codes=REFUSED, is_heard=2 not in closed)
    return kinds | {
        "stdout is full": Surroundings(output="/dev/full", codes=(0, 1, 120)),
        "stdout is nothing": Surroundings(output="/dev/null"),
        "stdout is not read": Surroundings(has_reader=False, codes=(0, 1, -13, 141), is_heard=False),
    }


def limit_kinds() -> dict[str, Surroundings]:
    """Returns kinds with limits, masks, folders that are gone, and signals."""
    kinds = {
        "umask 077": Surroundings(inside=masked(0o077)),
        "umask 0777": Surroundings(inside=both(without_rights, masked(0o777)), codes=REFUSED, noise="matplotlib-"),
        "umask 0": Surroundings(inside=masked(0)),
        "no folder": Surroundings(inside=gone, codes=REFUSED),
        "a read-only home": Surroundings(prepare=read_only_home, inside=without_rights),
        "a read-only install": Surroundings({"PYTHONPATH": "install"}, both(read_only_install, read_only_home), without_rights),
        "a read-only out": Surroundings(prepare=read_only_out, inside=without_rights, codes=REFUSED),
        "no core, little stack": Surroundings(inside=limited(resource.RLIMIT_STACK, 1 << 20)),
        "one process": Surroundings(inside=limited(resource.RLIMIT_NPROC, 1), codes=(*REFUSED, *NATIVE)),
    }  # fmt: skip
    for most in (5, 8, 12, 16, 24, 40):
        inside = limited(resource.RLIMIT_NOFILE, most)
        kinds[f"{most} open files"] = Surroundings(inside=inside, codes=REFUSED, may_litter=True)
    for most in (0, 100, 5000, 100_000):
        inside = limited(resource.RLIMIT_FSIZE, most)
        kinds[f"files of {most} bytes"] = Surroundings(inside=inside, codes=REFUSED)
    for most in (600, 800, 1200, 2000, 3000):  # with less, OpenBLAS tries for ever to get some
        inside = limited(resource.RLIMIT_AS, most << 20)
        kinds[f"{most} MB of memory"] = Surroundings(inside=inside, codes=(*REFUSED, *NATIVE))
    for k in range(6):
        kinds[f"Ctrl-C {k}"] = Surroundings(signal=signal.SIGINT, codes=(0, 130, -2))
        kinds[f"SIGTERM {k}"] = Surroundings(signal=signal.SIGTERM, codes=(0, 143, -15))
    kinds["SIGHUP"] = Surroundings(signal=signal.SIGHUP, codes=(0, 129, -1))
    return kinds


KINDS: dict[str, Surroundings] = {**variable_kinds(), **stream_kinds(), **limit_kinds()}
