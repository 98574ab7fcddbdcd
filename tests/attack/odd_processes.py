"""Commands in odd surroundings: they do their work, or say in a line why they cannot.

Wrong is: an exit code that is not one of those that the surroundings allow, a traceback of ours, an error without its
line, results that are half there, files outside of the folder, and a command that cannot be run again afterwards.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from copies import members
from found import Found, Rng
from surroundings import KINDS, NATIVE, Surroundings
from watched_place import Place, watched_place

PATIENCE = 240  # seconds: a command takes about two alone, and compiles afresh in a new home
TRACEBACK = r"Traceback \(most|Exception ignored"
SOONEST = 0.3  # seconds: until then Python itself begins, and Ctrl-C is its own to answer
STEPS = "s,a,s_next,done\n" + "0,1,1,0\n1,0,0,0\n0,1,1,0\n1,1,1,0\n" * 5
COMMANDS = {  # what is run, and what is there afterwards
    "plan": ("plan river_swim --set num_states=4 --rho 2 --out out --report page.html", "out/plan.json", "page.html"),
    "explore": ("explore river_swim --set num_states=4 --rho 2 --steps 300 --explorer tracking --out out", "out/explore.json"),
    "compare": ("compare river_swim --set num_states=4 --steps 100 --seeds 2 --explorer tracking --workers 1 --out out", "out/compare.json"),
    "collect": ("collect FrozenLake-v1 --rho 2 --steps 60 --model learned --out out", "out/datasheet.json"),
    "audit": ("audit steps.csv --out out --json", "out/audit.json"),
    "envs": ("envs",),
    "doctor": ("doctor --no-self-test",),
}  # fmt: skip
ORDER = [sorted(KINDS)[k] for k in np.random.default_rng(0).permutation(len(KINDS))]
EARLY = (
    "rhocover/__init__.py",
    "rhocover/__main__.py",
    "rhocover/cli/__init__.py",
)  # before anything of ours can answer


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str
    left: int  # processes


def processes(rng: Rng, number: int) -> Found:
    """Runs one command in odd surroundings."""
    name, which = ORDER[number % len(ORDER)], str(rng.choice([*COMMANDS]))
    odd, (line, *made) = KINDS[name], COMMANDS[which]
    found = Found("odd surroundings", f"{name}: {which}")
    with watched_place() as place:
        (place.here / "steps.csv").write_text(STEPS)
        odd.prepare(place)
        before = place.listing()
        after = float(rng.uniform(SOONEST, 4.0)) if odd.signal else None
        found.name += f", signal after {after:.2f} s" if after else ""
        done = ran(line, place, odd, after)
        found.wrong += judged(done, odd, made, place)
        if done.code and (odd.signal or odd.may_litter):
            found.wrong += wrong_again(line, made, place)
        stray = [path for path in place.outside(before) if not path.startswith("tmp/matplotlib-")]
        found.add(f"outside of the folder: {stray}" if stray and done.code >= 0 else None)
    return found


def ran(line: str, place: Place, odd: Surroundings, after: float | None = None) -> Done:
    """Returns how a command ended; it is sent the signal after so many seconds."""
    variables: dict[str, Any] = {
        **os.environ,
        **place.variables(),
        "OPENBLAS_NUM_THREADS": "1",
        **odd.variables,
    }
    if "PYTHONPATH" in odd.variables:
        variables["PYTHONPATH"] = str(place.root / str(odd.variables["PYTHONPATH"]))

    def inside() -> None:
        odd.inside(place)
        for stream in odd.closed:
            os.close(stream)

    output: Any = open(odd.output, "w") if odd.output else subprocess.PIPE  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, "-m", "rhocover", *line.split()], cwd=place.here, preexec_fn=inside, start_new_session=True,
        env={name: value for name, value in variables.items() if value is not None},
        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    if not odd.has_reader and process.stdout is not None:
        process.stdout.close()
        process.stdout = None
    if after is not None:
        _sent(process, odd.signal, after)
    return _finished(process)


def _sent(process: Any, number: int, after: float) -> None:
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)


def _finished(process: Any) -> Done:
    try:
        out, err = process.communicate(timeout=PATIENCE)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = -999
    end = time.monotonic() + 10
    while (left := members(process.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return Done(code, out or "", err or "", len(left))


def judged(done: Done, odd: Surroundings, made: list[str], place: Place) -> list[str]:
    """Returns what is wrong with how a command ended."""
    wrong = []
    is_early = odd.signal and is_before_us(done.err)
    is_noise = bool(odd.noise) and odd.noise in done.err
    if done.code not in odd.codes and not is_early:
        wrong.append(f"exit code {done.code}: {done.err[-700:]}")
    if re.search(TRACEBACK, done.err) and not (is_early or is_noise or done.code in NATIVE):
        wrong.append(f"a traceback: {done.err[-900:]}")
    is_silent = done.code in (1, 2) and not re.search(r"^error: .", done.err, re.MULTILINE)
    if is_silent and odd.is_heard and not is_early:
        wrong.append(f"exit code {done.code} without a line: {done.err[-500:]!r}")
    missing = [name for name in made if not (place.here / name).exists()]
    if done.code == 0 and missing:
        wrong.append(f"exit code 0 without {missing}")
    hidden = sorted(path.name for path in place.here.rglob(".*"))
    if done.code in (0, 1, 2, 130) and hidden and not (done.code and odd.may_litter):
        wrong.append(f"litter: {hidden}")
    return [*wrong, f"{done.left} processes left"] if done.left else wrong


def is_before_us(said: str) -> bool:
    """Whether a traceback is of Python's own beginning, where nothing of ours runs yet."""
    files = re.findall(r'File "([^"]+)", line \d+', said)
    return not any("/rhocover/" in name and not name.endswith(EARLY) for name in files) and bool(files)


def wrong_again(line: str, made: list[str], place: Place) -> list[str]:
    """Returns what is wrong with the same command again, after one that a signal ended."""
    words = line
    if made:
        begun = (place.here / "out" / "manifest.json").exists() and "collect " in line
        words = f"{line} --resume" if begun else f"{line} --force"
    done = ran(words, place, Surroundings())
    missing = [name for name in made if not (place.here / name).exists()]
    litter = sorted(path.name for path in place.here.rglob(".*"))
    wrong = [f"again ({words}): exit code {done.code}: {done.err[-500:]}"] if done.code else []
    wrong += [f"again: no {missing}"] if missing and not done.code else []
    return [*wrong, f"again: litter {litter}"] if litter else wrong
