"""reproduce(): published numbers and statements, run again, with our numbers beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rhocover import checks
from rhocover.errors import InvalidArgumentError, parse_text, unknown_name
from rhocover.experiments.compare import read_seeds
from rhocover.experiments.reproducing import paper_statements, peers, reference_values, tarbouriech2020
from rhocover.experiments.reproducing.reproduction import ReproducedRow, Reproduction

__all__ = ["NAMES", "ReproducedRow", "Reproduction", "reproduce"]

Defaults = tuple[Callable[..., Reproduction], int, int]  # what does it, its seeds and its steps

_KNOWN: dict[str, Defaults] = {
    tarbouriech2020.NAME: (
        tarbouriech2020.tarbouriech2020, tarbouriech2020.SEEDS, tarbouriech2020.NUM_STEPS
    ),
    paper_statements.NAME: (
        paper_statements.special_cases, paper_statements.SEEDS, paper_statements.NUM_STEPS
    ),
    peers.NAME: (peers.peers_worst_ratio, peers.SEEDS, peers.NUM_STEPS),
    reference_values.NAME: (reference_values.reference_values, 0, 0),
}  # fmt: skip
NAMES = tuple(_KNOWN)


def reproduce(
    name: str,
    *,
    seeds: Any = None,
    num_steps: int | None = None,
    workers: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Returns our numbers beside those that were published, proved or recorded under that name.

    | name | what is run again |
    |---|---|
    | tarbouriech2020-table1 | model errors of systems that learn the transitions, 2,000,000 steps |
    | paper-special-cases | the lemmas of the paper behind this library, both sides as numbers |
    | peers-worst-ratio | the worst covered pair after 50,000 steps, for several systems |
    | reference-values | optima of small models, recorded and closed ones; nothing is simulated |

    `seeds` is a number k (0..k-1) or a list, `num_steps` the budget of each run; both have the defaults of
    what is reproduced. Runs share out among `workers` processes, one for each core by default; the result
    does not depend on how many. A script that uses several needs the usual `if __name__ == "__main__":`.
    `report(done, total)` is called after each run.

    >>> found = reproduce("reference-values")
    >>> all(row.holds for row in found.rows)
    True
    """
    if not isinstance(name, str) or name not in _KNOWN:
        raise unknown_name("reproduction", name, NAMES, argument="name")
    run, default_seeds, default_steps = _KNOWN[name]
    if not default_steps and (seeds is not None or num_steps is not None):
        given = "num_steps" if seeds is None else "seeds"
        raise InvalidArgumentError(
            parse_text(f"{name} simulates nothing: leave `seeds` and `num_steps` out."), argument=given
        )
    if workers is not None:
        checks.integer(workers, "workers", least=1)
    found = () if not default_steps else read_seeds(default_seeds if seeds is None else seeds)
    steps = default_steps if num_steps is None else checks.integer(num_steps, "num_steps", least=LEAST_STEPS)
    return run(found, steps, workers, report)


LEAST_STEPS = 1000  # below, some pairs were never visited, and most of the numbers mean nothing
