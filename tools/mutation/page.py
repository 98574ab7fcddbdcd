"""The results as they are kept, `results.json`, and the page that is written from them, `README.md`."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

from tools.mutation.mutants import Mutant

HERE = Path(__file__).parent
RESULTS, ARGUMENTS = HERE / "results.json", HERE / "arguments.json"
PAGE = HERE / "README.md"
KINDS = {
    "same": "computes the same thing",
    "rounding": "moves a tolerance, a rounding allowance or the last digits",
    "speed": "costs time or memory, or saves some",
    "choice": "takes another way that is as good",
    "hole": "is wrong, and no test notices",
    "open": "is not argued yet",
}


def last_rows(results: Path) -> dict[str, dict]:
    """Returns the last result of every mutant, by name; `first` is who killed it when it was drawn."""
    found: dict[str, dict] = {}
    for line in results.read_text().splitlines() if results.exists() else []:
        row = json.loads(line)
        name = "{path}:{function}:{change}:{occurrence}".format(**row)
        found[name] = {**row, "first": found.get(name, {}).get("first", row["killer"])}
    return found


def compacted(
    rows: dict[str, dict], every: dict[str, list[Mutant]], drawn: list[Mutant], seed: int, source: Path
) -> dict:
    """Returns what is kept: counts of every file, and each survivor with its line before and after."""
    tried = [m for m in drawn if m.name in rows]
    alive = [m for m in tried if not rows[m.name]["killer"]]
    files, survivors = {}, {}
    for path, mutants in every.items():
        own = [rows[m.name] for m in tried if m.path == path]
        killed, first = (sum(bool(row[key]) for row in own) for key in ("killer", "first"))
        files[path] = {"mutants": len(mutants), "drawn": len(own), "killed": killed, "at_first": first}
    for m in sorted(alive, key=lambda m: (list(every).index(m.path), m.begin)):
        survivors[m.name] = _change(m, (source / m.path).read_bytes())
    return {"seed": seed, "files": files, "survivors": survivors}


def _change(mutant: Mutant, source: bytes) -> list[str]:
    """Returns the lines of the change before and after, without their indentation."""
    first = source.rfind(b"\n", 0, mutant.begin) + 1
    last = source.find(b"\n", mutant.end)
    text = mutant.applied(source)
    after = text[first : len(text) - (len(source) - last)]
    return [" ".join(t.decode().split()) for t in (source[first:last], after)]


def read() -> tuple[dict, dict]:
    """Returns the results and the arguments."""
    return json.loads(RESULTS.read_text()), json.loads(ARGUMENTS.read_text())


def rendered(results: dict, arguments: dict) -> str:
    """Returns the page."""
    parts = [_head(results, arguments), _scores(results), _survivors(results, arguments)]
    return "\n\n".join(parts) + "\n"


def _head(results: dict, arguments: dict) -> str:
    total = _sum(results["files"])
    kinds = Counter(_argument(name, arguments)[0] for name in results["survivors"])
    drawn, killed, first = (total[key] for key in ("drawn", "killed", "at_first"))
    score, lean = _percent(killed, drawn), _percent(killed, drawn - kinds["same"])
    listed = "\n".join(f"- {kinds[kind]}: {text}" for kind, text in KINDS.items() if kinds[kind])
    return f"""# Surviving mutants

This page is written by `python -m tools.mutation` from `results.json` and `arguments.json` beside it.

A mutant is the source with one small mistake, made by a program: another operator, a constant off by one, a
statement left out. It is killed when a test fails, ends in an error or hangs. The numerical core has
{total["mutants"]} mutants; {drawn} of them were drawn at random (seed {results["seed"]}), about the same
share of every file's, and {killed} of those are killed.

**Score: {score}**, with a 95 % interval of {_range(killed, drawn)}. Without the survivors that
compute the same thing it is {lean}.

Some tests were written because of survivors of this draw, which favours it. Counted as they were when they
were drawn, before any of those tests, at least {_percent(first, drawn)} were killed
({_range(first, drawn)}): that is what to expect of a mutant that was not drawn.

Survivors, by what they do:

{listed}"""


def _range(part: int, whole: int) -> str:
    low, high = interval(part, whole)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _argument(name: str, arguments: dict) -> tuple[str, str]:
    return tuple(arguments.get(name, ("open", "Nobody has looked at it yet.")))


def _scores(results: dict) -> str:
    rows = [("file", "mutants", "drawn", "killed", "score", "95 % interval"), ("---", *["---:"] * 5)]
    groups = {path.split("/")[0] for path in results["files"] if "/" in path}
    for path, count in results["files"].items():
        group = path.split("/")[0]
        if group in groups:
            groups.remove(group)
            inner = {p: c for p, c in results["files"].items() if p.startswith(group + "/")}
            rows.append(_score(f"**{group}/**", _sum(inner)))
        if count["drawn"]:
            rows.append(_score(f"**{path}**" if path == group else f"`{path}`", count))
    rows.append(_score("**all**", _sum(results["files"])))
    return "## Scores\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _score(name: str, count: dict[str, int]) -> tuple[str, ...]:
    numbers = [str(count[key]) for key in ("mutants", "drawn", "killed")]
    score = _percent(count["killed"], count["drawn"])
    return (name, *numbers, score, _range(count["killed"], count["drawn"]))


def _survivors(results: dict, arguments: dict) -> str:
    lines, last = ["## Survivors, and why"], ""
    for name, (before, after) in results["survivors"].items():
        path, function = name.split(":")[:2]
        kind, why = _argument(name, arguments)
        if path != last:
            lines.append(f"### {path}")
        last = path
        lines.append(f"`{function}` {KINDS[kind]}. {why}\n\n```diff\n- {before}\n+ {after}\n```")
    return "\n\n".join(lines)


def _sum(files: dict[str, dict[str, int]]) -> dict[str, int]:
    keys = ("mutants", "drawn", "killed", "at_first")
    return {key: sum(count[key] for count in files.values()) for key in keys}


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def interval(part: int, whole: int, z: float = 1.96) -> tuple[float, float]:
    """Returns Wilson's interval of a share; it is right for shares near 1, too."""
    if whole == 0:
        return 0.0, 1.0
    share, extra = part / whole, z * z / whole
    middle = (share + extra / 2) / (1 + extra)
    half = z * math.sqrt(share * (1 - share) / whole + extra / whole / 4) / (1 + extra)
    return middle - half, middle + half
