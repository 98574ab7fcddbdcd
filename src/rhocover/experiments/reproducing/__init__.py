"""reproduce(): repeats published experiments and checks published statements with our numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rhocover import checks
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.experiments.compare import read_seeds
from rhocover.experiments.reproducing import paper_statements, peers, reference_values, tarbouriech2020
from rhocover.experiments.reproducing.reproduction import ReproducedRow, Reproduction
from rhocover.progress import Report, progress

__all__ = ["NAMES", "ReproducedRow", "Reproduction", "reproduce"]

Defaults = tuple[Callable[..., Reproduction], int, int]  # the function, its default seeds and steps

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
    seeds: int | Iterable[int] | None = None,
    num_steps: int | None = None,
    workers: int | None = None,
    report: Report | None = None,
) -> Reproduction:
    """Returns our numbers next to those that were published, proved or recorded.

    | name | what is reproduced |
    |---|---|
    | tarbouriech2020-table1 | model errors of methods that learn the transitions, 2,000,000 steps |
    | paper-special-cases | the lemmas of the paper behind this library, both sides as numbers |
    | peers-worst-ratio | the least covered pair after 50,000 steps, for several methods |
    | reference-values | optima of small models, recorded or in closed form; nothing is simulated |

    `seeds` is a number k (0..k-1) or a list, `num_steps` the number of steps of each run; the defaults depend
    on the name. Runs are distributed over `workers` processes, by default one per core; the number does not
    change the result. A script that uses several needs the usual `if __name__ == "__main__":`.
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
        raise InvalidArgumentError.of(
            given, f"is not for {name}, which simulates nothing", remedy="Leave it out."
        )
    if workers is not None:
        checks.integer(workers, "workers", least=1)
    found = () if not default_steps else read_seeds(default_seeds if seeds is None else seeds)
    steps = default_steps if num_steps is None else checks.integer(num_steps, "num_steps", least=LEAST_STEPS)
    with progress(f"reproducing {name}", report) as told:
        return run(found, steps, workers, told)


LEAST_STEPS = 1000  # with fewer, some pairs are never visited and most of the numbers are meaningless
