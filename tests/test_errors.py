"""Errors and warnings pass between processes whole, and what they quote cannot command a terminal."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import rhocover as rc
from patience import PATIENCE
from rhocover import errors

FIELDS = {
    "NotCommunicatingError": {"pairs": ((0, 1), (2, 3))},
    "InfeasibleFloorError": {"eta_max": 0.25, "argument": "eta"},
    "InfeasibleConditionsError": {"conditions": (0, 2), "best": 0.3, "multipliers": (0.5, 0.5)},
    "InvalidDataError": {"argument": "data"},
    "HarmedPartError": {"argument": "data"},
    "NotConvergedError": {"plan": None},
    "RangeError": {"state": "what went wrong"},
}
ARGUMENTS = {
    "InfeasibleFloorError": (0.25,),
    "NotCommunicatingError": ([(0, 1), (2, 3)],),
    "InfeasibleConditionsError": ([0, 2], 0.3, [0.5, 0.5]),
}
ABOUT = {"message": "what went wrong", "argument": "", "remedy": ""}
NEEDS_TORCH = {"rhocover.environments.sb3"}


def own_classes() -> list[type[Exception]]:
    """Returns every error and warning that a module of the package defines."""
    found = []
    for info in pkgutil.walk_packages(rc.__path__, "rhocover."):
        if info.name.endswith("__main__") or info.name in NEEDS_TORCH:
            continue
        values = vars(importlib.import_module(info.name)).values()
        own = (value for value in values if inspect.isclass(value) and value.__module__ == info.name)
        found += [value for value in own if issubclass(value, BaseException)]
    return found


CLASSES = own_classes()
COPIES = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def test_the_walk_finds_errors_in_every_room():
    names = {kind.__name__ for kind in CLASSES}
    assert {
        "RhocoverError",
        "InfeasibleFloorError",
        "RequirementError",
        "OutsideSpaceError",
        "CacheWarning",
    } <= names


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_survives_with_its_fields(kind, way):
    error = kind("what went wrong", *ARGUMENTS.get(kind.__name__, ()))
    error.add_note("a note")
    again = COPIES[way](error)
    assert type(again) is kind
    assert (str(again), again.args) == ("what went wrong", ("what went wrong",))
    fields = (ABOUT if issubclass(kind, errors.InvalidArgumentError) else {}) | FIELDS.get(kind.__name__, {})
    assert vars(again) == vars(error) == fields | {"__notes__": ["a note"]}


@pytest.mark.parametrize("way", COPIES)
def test_what_an_error_says_of_an_argument_survives_field_by_field(way):
    remedy = ("Pass ", errors.Setting("restrict", "True"), " or ", errors.Call("f(x)", "rhocover f"), ".")
    with pytest.raises(errors.InvalidDataError) as caught, errors.naming("data.csv"), errors.inside("data"):
        raise errors.InvalidDataError.of("a", errors.parse_text("must fit `mu`"), "none", remedy)
    again = COPIES[way](caught.value)
    assert (again.argument, again.part, again.where) == ("data", "a", "data.csv")
    assert (again.expected, again.got, again.remedy) == (caught.value.expected, "none", remedy)
    assert str(again) == "data.csv: `a` must fit `mu`, got none. Pass restrict=True or f(x)."


@pytest.mark.parametrize("kind", [errors.CheckpointError, errors.OutOfMemoryError, errors.SolverError])
def test_an_error_about_no_argument_may_name_one(kind):
    error = pickle.loads(pickle.dumps(kind(errors.parse_text("go on with `resume=True` in `out`."))))
    assert str(error) == "go on with resume=True in `out`."
    assert error.text_in(lambda part: part if isinstance(part, str) else "X") == "go on with X in X."


def test_a_caller_names_arguments_as_it_knows_them():
    with pytest.raises(errors.InvalidArgumentError) as caught, errors.calling(model="env"):
        raise errors.InvalidArgumentError.of(
            "model", "is none", remedy=errors.parse_text("Leave `model` out.")
        )
    assert caught.value.argument == "env"
    assert str(caught.value) == "`env` is none. Leave `env` out."


def test_a_note_is_a_text_that_another_dialect_writes_too():
    note = errors.Note("First.", errors.parse_text("Pass `best=True`."))
    assert (note, pickle.loads(pickle.dumps(note)).parts) == ("First. Pass best=True.", note.parts)
    assert (
        errors.format_text(note, lambda part: part if isinstance(part, str) else "--best")
        == "First. Pass --best."
    )


def test_a_part_of_an_argument_is_named_in_full_and_the_argument_by_its_name():
    error = errors.InvalidArgumentError.of("mu[1, 2]", "must be finite", "nan")
    assert (error.argument, str(error)) == ("mu", "`mu[1, 2]` must be finite, got nan.")


def test_what_python_itself_keeps_in_an_error_survives():
    disk = errors.CheckpointError(28, "No space left on device", "place")
    again = pickle.loads(pickle.dumps(disk))
    assert (again.errno, again.strerror, again.filename, str(again)) == (
        28, "No space left on device", "place", str(disk),
    )  # fmt: skip
    missing = errors.MissingExtraError("not installed", name="torch", path="here")
    again = pickle.loads(pickle.dumps(missing))
    assert (again.name, again.path, str(again)) == ("torch", "here", "not installed")


def test_a_plan_that_fell_short_travels_in_its_error():
    with pytest.raises(errors.NotConvergedError) as caught:
        rc.plan(rc.envs.river_swim(), 2.0, max_steps=1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.plan.divergence == caught.value.plan.divergence


def floor_too_high(eta: float) -> None:
    rc.plan(rc.envs.river_swim(), 2.0, eta=eta)


@pytest.mark.thorough
def test_a_pool_of_processes_hands_over_an_error_with_its_field():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        error = pool.submit(floor_too_high, 0.4).exception(timeout=PATIENCE)
    assert isinstance(error, errors.InfeasibleFloorError)
    assert 0 < error.eta_max < 0.4


@pytest.mark.parametrize(
    "order", ["\x1b[2J", "\x9b31m", "\r", "\b", "\x07", "\u202e", "\u2066", "\u2028", "\udcff"]
)
@pytest.mark.parametrize("kind", [errors.InvalidDataError, errors.GapWarning], ids=lambda kind: kind.__name__)
def test_a_message_shows_what_a_terminal_would_obey(kind, order):
    shown = str(kind(f"column a{order}b,\nsecond line"))
    assert shown.startswith("column a\\")
    assert shown.endswith("b,\nsecond line")
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_names_in_a_list_are_shortened_unless_they_would_read_the_same():
    from rhocover.errors import LONGEST_NAME, short_names

    apart = ["a" * 200, "b" * 200]
    half = LONGEST_NAME // 2
    assert short_names(apart) == [f"{letter * half} ... {letter * half}" for letter in "ab"]
    alike = [f"({'x' * 50} {side} {'y' * 50})" for side in ("from", "below")]
    assert short_names(alike) == alike
    assert short_names([*alike, alike[0]]) == [*alike, alike[0]]
