"""Counts whole episodes: collections and Minari data sets, with the encoding that `collect` stored with them.

Observations are encoded by `states`, as in `collect`. Spaces that are finite already need no encoding, and
neither does what `collect` wrote, because its manifest or datasheet contains it. Only numbers are taken from
there: edges of bins, levels of actions, lists of actions; a user's function cannot be stored.
`terminations` are ends, `truncations` are not. The data are read and counted in pieces. No environment is
made from the metadata of a data set.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets.actions import needs_quantiles, quantile_actions
from rhocover.datasets.builder import Tallier, count_episodes, rows_of, within_episodes
from rhocover.datasets.collection.manifest import is_collection
from rhocover.datasets.collection.source import CollectionSource, open_collection, table_of_numbers
from rhocover.datasets.read_options import (
    MOST_FITTED,
    ReadData,
    ReadOptions,
    as_read,
    num_kept,
    watched_states,
)
from rhocover.datasets.tables import DataTable
from rhocover.documents import from_document
from rhocover.environments.encoding import (
    ACTION_CODE,
    ACTIONS,
    read_action_code,
    read_state_code,
    state_code_from_document,
)
from rhocover.environments.encoding.base import is_lossy
from rhocover.errors import FileFormatError, InvalidArgumentError, InvalidDataError, parse_text
from rhocover.files import check_format

# The datasheet of a data set.


def stored(source: Any, name: str) -> Any:
    """Returns the setting `name` from the datasheet of an opened data set; None without a datasheet."""
    sheet = source.metadata.get("rhocover")
    settings = sheet.get("settings") if isinstance(sheet, dict) else None
    if not isinstance(sheet, dict) or not isinstance(settings, dict):
        return None
    check_version(f"the datasheet of {source.dataset_id}", sheet)
    return settings.get(name)


def stored_actions(source: Any) -> Any:
    """Returns the number of levels of each component, or the listed actions; None for all of a space."""
    document = stored(source, "actions")
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in ACTIONS:
        return None
    try:
        found = from_document(ACTION_CODE, document, "the action code")
    except FileFormatError as error:
        damaged = (
            f": the actions of {source.dataset_id} are damaged, or not those of its action space: {error}"
        )
        raise InvalidDataError.of("data", damaged.removesuffix(".")) from error
    if kind == "levels":
        return [len(levels) for levels in found.levels]
    if kind == "chosen" and not source.action_space.shape:
        return [action[0] for action in found.actions]
    return found.actions


def check_version(place: Path | str, document: dict[str, Any]) -> None:
    """Raises if a later rhocover wrote the settings or datasheet, naming the version that can read them."""
    versions = document.get("versions")
    writer = versions.get("rhocover") if isinstance(versions, dict) else None
    check_format(place, document.get("format", 1), writer)  # the first format was not numbered


# Whole episodes.


@dataclass(frozen=True)
class _Binned:
    """Bins of real actions, with what counting needs of an action code."""

    numbers: Any
    names: tuple[str, ...]
    remark: str

    @property
    def values(self) -> tuple[str, ...]:
        """As many as there are actions."""
        return self.names


def open_episodes(data: Any) -> Any:
    """Returns the source of a collection's folder, or of a Minari data set: its id, its folder, or opened."""
    if isinstance(data, CollectionSource):
        return data
    if isinstance(data, str | os.PathLike) and is_collection(Path(data)):
        return open_collection(Path(data))
    from rhocover.datasets.minari.files import MinariSource, open_minari

    return data if isinstance(data, MinariSource) else open_minari(data)  # type: ignore[arg-type]


def read_episodes(data: Any, asked: ReadOptions) -> ReadData:
    """Returns the counts of a collection or a Minari data set."""
    source = open_episodes(data)
    check_spaces(source, asked.spaces)
    states, held_out, num_fitted = _fitted_codes(source, asked)
    code = watched_states(_state_code(states, source), held_out, source.observation_space)
    action_code = _action_code(asked.actions, source)
    tallier = Tallier(len(action_code.values), code.count, num_kept=num_kept(code))
    goes_on = False
    for columns in source.pieces():
        count_episodes(tallier, columns, code, action_code, source.dataset_id, goes_on)
        goes_on = columns.has_more
    if not tallier.num_steps:
        raise InvalidDataError.of("data", f": {source.dataset_id} has zero steps: there is nothing to count")
    remark = getattr(action_code, "remark", "")
    remarks = (*asked.fit_remarks(num_fitted), *((remark,) if remark else ()))
    tally = tallier.tally(source=str(source.dataset_id), action_names=action_code.names, remarks=remarks)
    return as_read(code.named(tally), tallier, code, asked)


def numbered_collection(folder: Path) -> tuple[DataTable, Any, Any]:
    """Returns a collection as a table of numbers, with the codes of its states and actions.

    Only where the states are numbers: what codes of observations see depends on all steps before.
    """
    source = open_collection(folder)
    states, actions = _state_code(None, source), _action_code(None, source)
    if is_lossy(states) or states.every_key is None:
        raise InvalidArgumentError.of(
            "executor",
            "counts collections whose observations are numbers, but the states of this one are codes of them",
            remedy=parse_text("Leave `executor` out."),
        )
    return table_of_numbers(folder, states, actions), states, actions


def _fitted_codes(source: Any, asked: ReadOptions) -> tuple[Any, Any, int]:
    """Returns `states` and `held_out`, fitted to the first steps if they must be, and to how many."""
    if not asked.must_fit:
        return *asked.codes, 0
    first = next(source.pieces(), None)
    if first is None:
        return *asked.codes, 0
    is_state, is_next = within_episodes(np.asarray(first.lengths, np.int64))
    shown = list(rows_of(first.observations))
    seen, then = ([shown[t] for t in np.flatnonzero(which)[:MOST_FITTED]] for which in (is_state, is_next))
    return *asked.fitted_codes(seen, then), len(seen)


def _state_code(states: Any, source: Any) -> Any:
    """Returns the given state code, else the one in the datasheet of a collection."""
    document = stored(source, "states")
    if states is None and document is not None:
        return state_code_from_document(document, source.observation_space)
    return read_state_code(states, source.observation_space)


def _action_code(actions: Any, source: Any) -> Any:
    """Returns the given action code, else that of the levels or the list of actions in a datasheet."""
    found = stored_actions(source) if actions is None else None
    if actions is not None and needs_quantiles(actions, source.action_space):
        first = next(source.pieces(), None)
        if first is not None:
            bins = quantile_actions(actions, first.actions[:MOST_FITTED])
            return _Binned(bins.code, bins.names, bins.remark)
    if found is None:
        return read_action_code(actions, source.action_space)
    try:
        code = read_action_code(found, source.action_space)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDataError.of(
            "data", f": the actions of {source.dataset_id} are damaged: {error}"
        ) from error
    if code.document() != dict(stored(source, "actions")):
        raise InvalidDataError.of(
            "data", f": the actions of {source.dataset_id} are not those of its action space"
        )
    return code


def check_spaces(source: Any, expected: tuple[Any, Any] | None) -> None:
    """Raises if a source does not have the expected observation and action space, if any are."""
    if expected is not None:
        _check_space(source.observation_space, expected[0], "observation space", source.dataset_id)
        _check_space(source.action_space, expected[1], "action space", source.dataset_id)


def _check_space(came: Any, expected: Any, name: str, source: str) -> None:
    if came != expected:
        raise InvalidDataError.of(
            "data",
            parse_text(
                f": {source} has the {name} {came}, but `model` has {expected}: it belongs to another "
                "environment"
            ),
            remedy=parse_text("Leave `model` out."),
        )
