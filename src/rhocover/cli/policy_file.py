"""The policy of `rhocover top-up` as a file."""

from __future__ import annotations

import csv
from pathlib import Path

from rhocover.cli.outputs import check_free
from rhocover.collecting import TopUp
from rhocover.errors import InvalidArgumentError
from rhocover.files import save_tensors

ENDINGS = (".csv", ".safetensors")


def check_policy(path: Path | None, *, force: bool) -> None:
    """Refuses a file for the policy that cannot be written, or that exists already unless `force`."""
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        raise InvalidArgumentError(f"--policy must end in {' or '.join(ENDINGS)}, got {str(path)!r}.")
    check_free(path.parent, [path.name], force=force)


def write_policy(found: TopUp, path: Path) -> None:
    """Writes the policy: rows are states in the order of the data's keys."""
    tally = found.before.tally
    names = [tally.state_name(state) for state in range(tally.num_states)]
    if path.suffix.lower() == ".safetensors":
        actions = list(tally.action_names or map(str, range(tally.num_actions)))
        save_tensors(path, "policy", {"policy": found.policy}, {"states": names, "actions": actions})
        return
    _write_csv(path, names, found)


def _write_csv(path: Path, names: list[str], found: TopUp) -> None:
    tally = found.before.tally
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["state", *(tally.action_names or range(tally.num_actions))])
        for name, row in zip(names, found.policy.tolist(), strict=True):
            writer.writerow([name, *row])
