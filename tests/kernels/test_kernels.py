"""The tests are repeated as other processors would run them, and the load beside them ends with them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from busy_cores import busy_cores
from processors import KERNELS, Setting, flags_of, native_kernels, settings

from patience import PATIENCE, waited_for

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EVERY = set().union(*KERNELS.values())
CACHE = Path("cache")


def kernels(found: list[Setting]) -> list[str]:
    return [setting.variables.get("OPENBLAS_CORETYPE", "own") for setting in found]


@pytest.mark.parametrize(
    ("flags", "native", "expected"),
    [
        (EVERY, "SkylakeX", ["Haswell", "Nehalem"]),
        (EVERY, "SapphireRapids", ["Haswell", "Nehalem"]),
        (EVERY, "Zen", ["SkylakeX", "Nehalem"]),
        (EVERY - KERNELS["SkylakeX"], "Haswell", ["Nehalem", "own"]),
        (EVERY - KERNELS["SkylakeX"], "Zen", ["Nehalem", "own"]),
        (KERNELS["Nehalem"], "Nehalem", ["own"]),
        (EVERY, "", ["own"]),  # another BLAS
        (set(), "neoversen1", ["own"]),  # another kind of processor
    ],
)
def test_kernels_are_those_that_the_processor_can_run_and_does_not_run_anyway(flags, native, expected):
    found = settings(flags, native, CACHE)
    assert kernels(found) == expected
    plain = found[-1].variables
    assert (plain["NUMBA_CPU_NAME"], plain["NUMBA_CACHE_DIR"]) == (
        "generic",
        "cache",
    )  # its code is not for others


def test_the_flags_are_read_from_the_first_processor():
    text = "processor\t: 0\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nflags\t\t: fpu\n"
    assert flags_of(text) == {"fpu", "avx2", "fma"}
    assert flags_of("Features : asimd\n") == set()


def test_a_process_takes_the_kernels_that_it_is_told_to():
    """Else the repetition would repeat the same bits."""
    own, info = native_kernels(), Path("/proc/cpuinfo")
    flags = flags_of(info.read_text("utf-8")) if info.exists() else set()
    code = "from processors import native_kernels; print(native_kernels())"
    for setting in settings(flags, own, CACHE):
        wanted = setting.variables.get("OPENBLAS_CORETYPE")
        if wanted is not None:
            env = {**os.environ, **setting.variables, "PYTHONPATH": str(HERE)}
            done = subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.stdout.strip() == wanted != own


def test_the_load_has_ended_when_it_is_left_in_any_way():
    begun = []
    with suppress(ZeroDivisionError), busy_cores(2) as workers:
        begun += workers
        assert [worker.poll() for worker in begun] == [None, None]
        raise ZeroDivisionError
    assert [worker.returncode for worker in begun] == [-signal.SIGKILL] * 2


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_the_load_ends_by_itself_if_what_began_it_is_killed():
    code = (
        "import os, signal, busy_cores\n"
        "with busy_cores.busy_cores(1) as workers:\n"
        "    print(workers[0].pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    line, env = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(line, env=env, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    assert waited_for(lambda: is_gone(int(done.stdout)))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("name", ["NUMERICAL_TESTS", "WAITING_TESTS"])
def test_every_test_that_the_makefile_repeats_exists(name):
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    listed = re.search(rf"^{name} = (.*)$", text, re.MULTILINE)
    assert listed is not None
    paths = [path.partition("::")[0] for path in listed[1].split()]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
