"""What the tests of every command share."""

from __future__ import annotations

import shlex
import signal
import sys

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, settings

from chromium import NOT_CHECKED, find_browser
from rhocover.cli import app

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: Ctrl-C would never arrive
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same each time, and none is refused for the time that it took: a machine may be busy.
settings.register_profile(
    "project", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")

RING = '''
import gymnasium as gym
import numpy as np


class Ring(gym.Env):
    """A ring of five states; it breaks at the step `broken`, and shows 9 at the step `lost`."""

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)

    def __init__(self, broken=None, lost=None):
        self.broken, self.lost, self.t = broken, lost, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return self.s, {}

    def step(self, action):
        self.t += 1
        if self.t == self.broken:
            raise RuntimeError("the ring broke")
        self.s = (self.s + 2 * int(action) - 1) % 5
        return (9 if self.t == self.lost else self.s), 0.0, False, False, {}


gym.register("Ring-v0", entry_point=Ring, disable_env_checker=True, max_episode_steps=20)
'''


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def is_one_error_line(self) -> bool:
        return self.err.startswith("error: ") and self.err.count("\n") == 1 and self.err.endswith("\n")


@pytest.fixture
def rhocover(capsys, monkeypatch, tmp_path):
    """Returns a function that runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))

    def run(line: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            app.main(shlex.split(line))
        return Outcome(int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """Returns the name of an environment that a module of the user's brings."""
    folder = tmp_path.parent / f"{tmp_path.name}-modules"
    folder.mkdir()
    (folder / "rings.py").write_text(RING)
    monkeypatch.syspath_prepend(folder)
    yield "rings:Ring-v0"
    sys.modules.pop("rings", None)
    gym.registry.pop("Ring-v0", None)


def pytest_terminal_summary(terminalreporter):
    """Says so where there was no browser to look at the pages with."""
    if find_browser() is None:
        terminalreporter.write_line(NOT_CHECKED, yellow=True, bold=True)
