"""Verbs, environments and commands that are wrong on purpose: each must be found by the attack that it is made for.

    python saboteurs.py

prints a line of JSON: by the name of each saboteur, what the attack said was wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import working

working.prepare()

import copies  # noqa: E402
import deaths  # noqa: E402
import environment_cases  # noqa: E402
import odd_processes  # noqa: E402
import races  # noqa: E402
from failing_environments import Fault, raising  # noqa: E402
from found import rng_of  # noqa: E402
from surroundings import Surroundings  # noqa: E402
from watched_place import watched_place  # noqa: E402
from writing_verbs import Verb  # noqa: E402

# --- verbs that do not survive --------------------------------------------------------------------------


def in_parts(folder: Path, before_the_end: Callable[[Path], Any]) -> None:
    """Writes a file under its name at the end, as it should be; something is done just before."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    before_the_end(out)
    (out / ".part").write_text("whole")
    os.replace(out / ".part", out / "result.json")


def littering(folder: Path) -> None:
    in_parts(folder, lambda out: (out / f".part-{os.getpid()}").write_text("x"))
    (folder / "out" / f".part-{os.getpid()}").unlink()


def half(folder: Path) -> None:
    (folder / "out").mkdir(exist_ok=True)
    with open(folder / "out" / "result.json", "w") as file:
        file.write("half")
        file.flush()
        os.chmod(folder / "out", 0o755)  # an operation to die at
        file.write(" and half")


def forgetful(folder: Path) -> None:
    """Takes down how often it was called: another result after a death."""

    def count(out: Path) -> None:
        before = (out / "count").read_text() if (out / "count").exists() else ""
        (out / "count").write_text(before + "x")

    in_parts(folder, count)


def straying(folder: Path) -> None:
    Path(os.environ["HOME"], "diary").write_text("x")
    in_parts(folder, lambda out: None)


def leaving(folder: Path) -> None:
    subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
    in_parts(folder, lambda out: None)


def hanging(folder: Path) -> None:
    if (folder / "out").exists():
        time.sleep(600)
    in_parts(folder, lambda out: None)


def killed(call: Callable[[Path], Any]) -> list[str]:
    """Returns what the deaths of a verb showed, over some seeds."""
    return attacked(deaths.deaths, {"verb": Verb(call)}, deaths, "ATTACKED")


def attacked(attack: Any, verbs: Any, module: Any, name: str) -> list[str]:
    """Returns what an attack on these verbs showed, over some cases."""
    module.undisturbed.cache_clear()
    with mock.patch.object(module, name, verbs), mock.patch.object(copies, "AFTERWARDS", 0.5):
        found = [attack(rng_of(0, "saboteurs", number), 4 * number) for number in range(6)]
    module.undisturbed.cache_clear()
    assert sum(case.tried for case in found) > 0, "nothing was tried"
    return [text for case in found for text in case.wrong]


def alone(call: Callable[[Path], Any]) -> list[str]:
    """Returns what one undisturbed copy showed; it is waited for a second."""
    with watched_place() as place, mock.patch.object(copies, "AFTERWARDS", 0.5):
        for _ in range(2):
            ended = copies.in_a_copy(lambda: call(Path()), place, patience=1.0)
        return [ended.wrong or ""]


# --- environments and commands --------------------------------------------------------------------------


def letting_through() -> list[str]:
    """Returns what is said of a library that hands on what an environment raises."""
    fault = Fault(raising(ValueError("mine")))
    with mock.patch("rhocover.collecting.worlds.failed", lambda what, num_steps, error: error):
        return environment(fault)


def environment(fault: Fault) -> list[str]:
    with watched_place() as place:
        ended = copies.in_a_copy(lambda: environment_cases.outcome_of("collect", fault), place)
        return [environment_cases.judged(ended, fault) or ""]


def lying() -> list[str]:
    """Returns what is said of a data set that is not what was shown."""
    wrong_data = environment_cases.wrong_data

    def altered(shown: Any, source: Any) -> Any:
        return wrong_data([(step[0], step[1] + 1, *step[2:]) for step in shown], source)

    with mock.patch.object(environment_cases, "wrong_data", altered):
        return environment(Fault())


def refusing() -> list[str]:
    """Returns what is said of a refusal of an environment that is all right."""
    ended = copies.Ended(0, {"kind": "refused", "said": "no"}, False, 0, 0.0, ())
    return [environment_cases.judged(ended, Fault(is_honest=True)) or ""]


def taking_memory() -> list[str]:
    return [copies.Ended(0, None, False, 3 << 30, 0.0, ()).wrong or ""]


def command(code: int, said: str, *, is_done: bool = False) -> list[str]:
    found = environment_cases.judged_command(code, said, is_done=is_done)
    return [found["said"]] if found["kind"] == "wrong" else []


def surrounded(code: int, said: str, **kind: Any) -> list[str]:
    with watched_place() as place:
        done = odd_processes.Done(code, "", said, 0)
        return odd_processes.judged(done, Surroundings(**kind), ["out/plan.json"], place)


# --- races ----------------------------------------------------------------------------------------------


def mixing(folder: Path, seed: int, report: Any = None) -> None:
    """Writes two files without asking who else is there, one seed in the other's order."""
    (folder / "out").mkdir(exist_ok=True)
    for name in ("ab", "ba")[seed]:
        (folder / "out" / f"{name}.json").write_text(str(seed))
        time.sleep(0.2)


def raced(call: Any) -> list[str]:
    return attacked(races.races, {"verb": call}, races, "VERBS")


TRACEBACK = "Traceback (most recent call last):\n  File 'x'\nValueError: x\n"
SABOTEURS: dict[str, Callable[[], list[str]]] = {
    "leaves litter": lambda: killed(littering),
    "writes in place": lambda: killed(half),
    "is another after a death": lambda: killed(forgetful),
    "writes elsewhere": lambda: killed(straying),
    "leaves a process": lambda: alone(leaving),
    "hangs": lambda: alone(hanging),
    "takes 3 GB": taking_memory,
    "lets an environment's error through": letting_through,
    "stores another reward": lying,
    "refuses what is right": refusing,
    "exits with 0 and no data": lambda: command(0, ""),
    "fails without a line": lambda: command(1, "something\n"),
    "fails with a traceback": lambda: command(1, f"{TRACEBACK}error: x\n"),
    "sends escapes to a terminal": lambda: command(1, "error: \x1b[2J\n"),
    "ends with another code": lambda: surrounded(7, ""),
    "ends well without results": lambda: surrounded(0, ""),
    "shows a traceback": lambda: surrounded(1, f"{TRACEBACK}error: x\n", codes=(1,)),
    "says nothing": lambda: surrounded(1, "", codes=(1,)),
    "mixes results": lambda: raced(mixing),
}
HONEST: dict[str, Callable[[], list[str]]] = {  # of whom nothing is to be said
    "survives": lambda: killed(lambda folder: in_parts(folder, lambda out: None)),
    "keeps to the contract": lambda: environment(Fault(is_honest=True)),
    "says why": lambda: [*command(1, "error: no\n"), *surrounded(1, "error: no\n", codes=(1,))],
}


def main() -> None:
    found = {name: list(filter(None, call())) for name, call in (SABOTEURS | HONEST).items()}
    print(
        json.dumps(
            {
                "saboteurs": {name: found[name] for name in SABOTEURS},
                "honest": {name: found[name] for name in HONEST},
            }
        )
    )


if __name__ == "__main__":
    main()
