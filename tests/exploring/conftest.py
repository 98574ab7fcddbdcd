"""Runs to compare with, and checkpoints at every chance."""

from __future__ import annotations

import json

import pytest
from interrupted_runs import RIVER

import rhocover as rc
from rhocover.exploring.runs import checkpoint
from rhocover.exploring.worlds import simulator


@pytest.fixture(scope="module")
def reference():
    """Returns runs that nothing stopped, each made once."""
    made = {}

    def run(case: dict) -> rc.Run:
        key = json.dumps(case)
        if key not in made:
            made[key] = rc.explore(RIVER, **case)
        return made[key]

    return run


@pytest.fixture
def often(monkeypatch):
    """Checkpoints whenever everything stands still."""
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(simulator.Simulator, "batch_steps", 1000)
