"""The policy of `rhocover top-up` as a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from rhocover.cli.outputs import check_files
from rhocover.collecting import TopUp
from rhocover.errors import InvalidArgumentError
from rhocover.files import save_tensors, write_atomically
from rhocover.locks import Location, locate
from rhocover.temporary import is_called, remove_left

ENDINGS = (".csv", ".safetensors")


def check_policy(policy: Path | None, *, force: bool) -> Location | None:
    """Returns where the policy goes; refuses a file that cannot be written, or that exists unless `force`."""
    if policy is None:
        return None
    place, path = locate(policy, "policy", "file"), policy
    if path.suffix.lower() not in ENDINGS:
        raise InvalidArgumentError(f"--policy must end in {' or '.join(ENDINGS)}, got {str(path)!r}.")
    check_files(path.parent, [path.name], force=force)
    return place


def write_policy(found: TopUp, place: Location, *, force: bool) -> None:
    """Writes the policy, whole or not at all: rows are states in the order of the data's keys."""
    path = place.path
    check_files(path.parent, [path.name], force=force)  # again: others may have been faster
    remove_left(path.parent, is_called(path))
    tally = found.before.tally
    names = [tally.state_name(state) for state in range(tally.num_states)]
    if path.suffix.lower() == ".safetensors":
        actions = list(tally.action_names or map(str, range(tally.num_actions)))
        words = {"states": names, "actions": actions}
        save_tensors(path, "policy", {"policy": found.policy}, words, overwrite=force)
        return
    write_atomically(path, _csv_text(names, found).encode(), overwrite=force)


def _csv_text(names: list[str], found: TopUp) -> str:
    tally, file = found.before.tally, io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["state", *(tally.action_names or range(tally.num_actions))])
    for name, row in zip(names, found.policy.tolist(), strict=True):
        writer.writerow([name, *row])
    return file.getvalue()
