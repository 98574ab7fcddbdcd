"""Nothing public is without a property: a new name fails here until one is written."""

from __future__ import annotations

import inspect

import junk_calls
import property_tools
import test_coverage_properties
import test_data_properties
import test_exploring_properties
import test_model_properties
import test_planning_properties

import rhocover as rc
from rhocover import _HOME

MODULES = (
    test_coverage_properties, test_data_properties, test_exploring_properties, test_model_properties,
    test_planning_properties,
)  # fmt: skip


def functions_of(module) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    }


def test_every_public_name_has_a_property():
    assert all(module.__name__.startswith("test_") for module in MODULES)
    missing = set(_HOME) - property_tools.COVERED
    assert not missing
    assert not functions_of(rc.weights) - property_tools.COVERED
    assert not set(rc.envs.__all__) - property_tools.COVERED


def test_every_public_name_with_arguments_meets_junk():
    met = {call.name for call in junk_calls.calls()}
    without_arguments = {"Feedback", "Stationary", "Tracking"}
    made_by_others = {
        "AgentsPlan",
        "Budget",
        "Collection",
        "FeaturePlan",
        "TopUp",
    }  # results: properties only
    needs_torch = {"CoverageCallback", "CoverageReplayBuffer", "CoverageVecEnv"}
    assert not set(_HOME) - met - without_arguments - made_by_others - needs_torch
    baselines = set(rc.baselines.__all__) - {"UniformRandom"}
    assert not baselines - met
    assert not functions_of(rc.weights) - met
    assert not set(rc.envs.__all__) - met - {"EnvInfo", "names", "describe"}
