"""The parameter tables of the reference: every argument has a meaning, every meaning an argument."""

from __future__ import annotations

import inspect

import pytest
from extensions import extension

import rhocover

parameters = extension("parameters")


@pytest.mark.parametrize("name", parameters.TABLES)
def test_every_parameter_of_a_table_has_a_meaning_and_its_own_default(name: str) -> None:
    thing = getattr(rhocover, name)
    rows = parameters.parameters_of(thing)
    signature = inspect.signature(thing).parameters
    assert [row[0] for row in rows] == list(signature)
    for parameter, default, meaning in rows:
        assert (default == "") == (signature[parameter].default is inspect.Parameter.empty)
        assert meaning.strip()


def test_every_meaning_is_that_of_a_parameter() -> None:
    names = {name: list(inspect.signature(getattr(rhocover, name)).parameters) for name in parameters.TABLES}
    used = {
        own if (own := f"{name}.{parameter}") in parameters.MEANING else parameter
        for name, found in names.items()
        for parameter in found
    }
    assert set(parameters.MEANING) == used


def test_every_public_function_has_a_table() -> None:
    functions = {name for name in rhocover.__all__ if inspect.isfunction(getattr(rhocover, name))}
    assert functions <= set(parameters.TABLES)
