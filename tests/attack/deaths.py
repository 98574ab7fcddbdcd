"""Processes that are killed while they write, again and again, and disks that fail under them.

A verb is killed with SIGKILL, at a random instant or at a random one of its file operations, and called again until
it comes to its end. Then its files are those of a call that nobody disturbed, to the bit (clocks stand still here,
so that no file holds a time), and there are no others.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from broken_disk import Disk, breaking
from copies import Ended, in_a_copy
from fault_runs import AT_ONCE, Files, called, contents, trial
from found import Found, Rng
from watched_place import Place, watched_place
from writing_verbs import COMPARED, RIVER, RUN, VERBS, CommandError, Verb, outcome

import rhocover as rc

GROWING = "manifest.json"  # has another part after each round, and is whole each time

MOST_DEATHS = 8  # of one run


def collect_again(folder: Path) -> None:
    """Goes on with a collection of the command line as its help says; that it is finished is an end, too."""
    out = folder / "out"
    words = ["collect", "FrozenLake-v1", "--rho", "2", "--steps", "40", "--model", "learned", "--out", out]
    is_done = (out / "datasheet.json").exists()
    code, said = outcome(*words, *(["--resume"] if (out / "manifest.json").exists() else []))
    if code and not (is_done and "is finished" in said):
        raise CommandError(said)


def learn(folder: Path) -> None:
    """Explores a model that is not known, or goes on with that."""
    out = folder / "out"
    if (out / "run.safetensors").exists():
        rc.resume(out)
    else:
        rc.explore(RIVER, **RUN | {"model": "learned"}, out=out)


MORE = {
    "collect --out": Verb(collect_again),
    "explore, learning": Verb(learn),
    "compare with two processes": Verb(
        lambda folder: rc.compare({"river": RIVER}, **COMPARED | {"workers": 2}, out=folder / "out")
    ),
}
RESUMED = ("out/explore.json", "page.html")  # of a run that was resumed they say `rhocover resume`
ATTACKED = {name: verb for name, verb in (VERBS | MORE).items() if name != "demo"}  # takes 15 seconds alone
ATTACKED["explore --out --report"] = replace(VERBS["explore --out --report"], differs=RESUMED)
LONG = (
    "explore and resume",
    "collect",
    "top_up",
    "explore, learning",
)  # that are resumed, not begun anew: first
SLOW = "compare with two processes"  # its processes begin afresh, two seconds each


@dataclass(frozen=True)
class Undisturbed:
    """What a verb leaves that nobody disturbs."""

    before: Files
    whole: Files
    operations: int
    seconds: float


@functools.cache
def undisturbed(name: str) -> Undisturbed:
    """Returns what a verb leaves; done twice, so that it is known that it always leaves the same."""
    warm(ATTACKED[name])
    first, second = (_undisturbed(ATTACKED[name]) for _ in range(2))
    if first.whole != second.whole:
        raise AssertionError(
            f"{name}: two undisturbed calls differ in {differing(first.whole, second.whole)}"
        )
    return replace(second, seconds=min(first.seconds, second.seconds))


def warm(verb: Verb) -> None:
    """Calls a verb in this process, so that its copies find everything imported and compiled."""
    here = os.getcwd()
    with watched_place() as place:
        os.chdir(place.here)
        try:
            verb.prepare(Path())
            verb.call(Path())
        finally:
            os.chdir(here)


def _undisturbed(verb: Verb) -> Undisturbed:
    with watched_place() as place:
        _prepare(verb, place)
        before = contents(place.here)
        ended = in_a_copy(lambda: _counted(verb), place)
        if ended.code or ended.wrong:
            raise AssertionError(f"an undisturbed call ends with {ended}")
        return Undisturbed(before, contents(place.here), ended.value, ended.seconds)


def _prepare(verb: Verb, place: Place) -> None:
    ended = in_a_copy(lambda: verb.prepare(Path()) and None, place)
    assert ended.code == 0, ended


def _counted(verb: Verb) -> int:
    with breaking(Disk()) as disk:
        verb.call(Path())
    return disk.count


def differing(left: Files, right: Files) -> list[str]:
    """Returns the names of files that are not the same."""
    return sorted(name for name in {**left, **right} if left.get(name) != right.get(name))


# --- killed ---------------------------------------------------------------------------------------------


def deaths(rng: Rng, number: int) -> Found:
    """Kills one verb up to a few times, and looks at what the call after that leaves."""
    name = chosen(rng, number)
    verb, whole = ATTACKED[name], undisturbed(name)
    found = Found(f"deaths: {name}", name, tried=0)
    with watched_place() as place:
        _prepare(verb, place)
        outside = place.listing()
        for _ in range(MOST_DEATHS):
            ended = _killed(verb, place, rng, whole, found)
            found.tried += ended.is_killed
            found.add(ended.wrong and f"{found.name}: {ended.wrong}")
            _look_between(verb, place, whole, found)
            if not ended.is_killed:
                break
        _look_at_the_end(verb, place, whole, outside, found)
    return found


def chosen(rng: Rng, number: int) -> str:
    """Returns the verb of a case: all in turn, slow ones seldom; of two processes each has its own half to warm."""
    names = sorted((name for name in ATTACKED if name != SLOW), key=lambda name: name not in LONG)
    return SLOW if number % 40 == 39 else names[number % len(names)]


def _killed(verb: Verb, place: Place, rng: Rng, whole: Undisturbed, found: Found) -> Ended:
    """Calls a verb in a copy that is killed at a random instant or operation, if it gets there."""
    if rng.random() < 0.5:
        seconds = whole.seconds * float(rng.uniform(0.0, 1.0)) ** 2  # a run that goes on is shorter
        found.name += f", after {seconds:.3f} s"
        return in_a_copy(lambda: called(verb, Path()), place, kill_after=seconds)
    n = int(np.ceil(whole.operations * rng.uniform(0.0, 1.0) ** 2))
    found.name += f", at operation {n}"
    return in_a_copy(lambda: _on_a_disk(verb, Disk(n, "death")), place)


def _on_a_disk(verb: Verb, disk: Disk) -> str | None:
    with breaking(disk):
        return called(verb, Path())


def _look_between(verb: Verb, place: Place, whole: Undisturbed, found: Found) -> None:
    """After a death, what has its final name is whole."""
    now = contents(place.here)
    for name in now.keys() & whole.whole.keys():
        allowed = (whole.whole[name], whole.before.get(name))
        if name.endswith(GROWING):
            json.loads((place.here / name).read_text("utf-8"))
        elif name.endswith(AT_ONCE) and now[name] not in allowed and name not in verb.differs:
            found.add(f"{found.name}: {name} is half written")


def _look_at_the_end(
    verb: Verb, place: Place, whole: Undisturbed, outside: dict[str, str], found: Found
) -> None:
    ended = in_a_copy(lambda: called(verb, Path()), place)
    found.add(ended.wrong and f"{found.name}, then again: {ended.wrong}")
    if ended.code or ended.value is not None:
        found.add(f"{found.name}, then again: ended with {ended.code}, {ended.value}")
    found.wrong += [f"{found.name}: {text}" for text in left_wrong(verb, place, whole, outside)]


def left_wrong(verb: Verb, place: Place, whole: Undisturbed, outside: dict[str, str]) -> list[str]:
    """Returns what is wrong with the files after the last call: other bits, or files too many."""
    now, wrong = contents(place.here), []
    litter = sorted(now.keys() - whole.whole.keys())
    if litter:
        wrong.append(f"litter: {litter}")
    other = [name for name in differing(now, whole.whole) if name not in (*litter, *verb.differs)]
    if other:
        wrong.append(f"other bits than undisturbed: {other}")
    strayed = [name for name in place.outside(outside) if name.removeprefix("here/") not in litter]
    return [*wrong, f"outside of the folder: {strayed}"] if strayed else wrong


# --- a disk that fails ----------------------------------------------------------------------------------


def faults(rng: Rng, number: int) -> Found:
    """Lets one operation of a verb fail, or all from there on, and looks at the call after that."""
    name = chosen(rng, number) if number % 40 != 39 else "compare"
    verb, whole = ATTACKED[name], undisturbed(name)
    n, mode = int(rng.integers(1, whole.operations + 1)), ("once", "full")[int(rng.integers(2))]
    found = Found("failing disks", f"{name}, {mode} at operation {n}")
    with watched_place() as place:
        _prepare(verb, place)
        outside = place.listing()
        ended = in_a_copy(lambda: _tried(verb, n, mode, whole), place)
        found.add(ended.wrong)
        found.add(None if ended.code == 0 else f"ended with {ended.code}")
        found.wrong += ended.value or []
        found.wrong += [f"outside of the folder: {place.outside(outside)}"] if place.outside(outside) else []
    return found


def _tried(verb: Verb, n: int, mode: str, whole: Undisturbed) -> Any:
    return trial(verb, Path(), n, mode, whole.whole, whole.before)
