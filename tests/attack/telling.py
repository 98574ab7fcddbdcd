"""What is told of an attack: a line for everything that was wrong, a table at the end, and an exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

Results = list[dict[str, Any]]  # what cases found: see `found.Found`, with their groups and numbers


def told(found: dict[str, Any], seed: int) -> Iterator[str]:
    """Yields a line for each thing that was wrong in a case, with the words that run it again."""
    for text in found["wrong"]:
        yield f"WRONG {found['group']} --seed {seed} --case {found['number']}: {found['name']}: {text}"


def exit_code(results: Results) -> int:
    """Returns 1 if anything was wrong."""
    return 1 if any(found["wrong"] for found in results) else 0


def table(results: Results) -> str:
    """Returns the table: kind, how often tried, and in how many cases something was wrong."""
    tried: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for found in results:
        tried[found["row"]] += found["tried"]
        wrong[found["row"]] += bool(found["wrong"])
    total = ("all deaths", sum(n for row, n in tried.items() if row.startswith("deaths:")))
    lines = [f"{'kind':40} {'tried':>8} {'wrong':>8}"]
    lines += [f"{row:40} {tried[row]:8} {wrong[row]:8}" for row in sorted(tried)]
    lines += [f"{total[0]:40} {total[1]:8}"] if total[1] else []
    return "\n".join([*lines, f"{'all':40} {sum(tried.values()):8} {sum(wrong.values()):8}"])
