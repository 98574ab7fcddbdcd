"""An environment that is rude is refused in a short message of ours, and takes nothing of what was done with it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import rhocover as rc
from rhocover.cli.app import FAILED
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

MOST_LETTERS = 2000
ID = "Rude-v0"


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __float__ = __repr__  # type: ignore[assignment]


class Rude(gym.Env):
    """Shows two states; from the fifth step on it shows or raises something else."""

    def __init__(
        self, *, raises: BaseException | None = None, close: Exception | None = None, **shows: Any
    ) -> None:
        self.observation_space, self.action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
        self.raises, self.closing, self.shows, self.count = raises, close, shows, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        self.count += 1
        is_rude = self.count >= 5
        if is_rude and self.raises is not None:
            raise self.raises
        shows = self.shows if is_rude else {}
        return shows.get("observation", int(action)), shows.get("reward", 0.0), False, self.count % 9 == 0, {}

    def close(self) -> None:
        if self.closing is not None:
            raise self.closing


RUDE = {
    "a reward that no float holds": {"reward": 10**400},
    "a reward of more digits than can be shown": {"reward": 10**5000},
    "a reward that raises": {"reward": Unspeakable()},
    "an observation of many letters": {"observation": "x" * 10**6},
    "an observation that raises": {"observation": Unspeakable()},
    "an error of many letters": {"raises": RuntimeError("x" * 10**6)},
    "an error without a text": {"raises": UnspeakableError()},
}


@pytest.mark.parametrize("way", tiered(RUDE))
def test_what_an_environment_shows_or_raises_is_refused_in_a_short_message(way, tmp_path):
    with pytest.raises(EnvironmentFailedError) as caught:
        rc.collect(Rude(**RUDE[way]), 2.0, 40, out=tmp_path / "out", model="learned")
    assert len(str(caught.value)) < MOST_LETTERS


def test_the_message_names_the_reward_that_no_float_holds(tmp_path):
    """And not the first reward of the stretch, which is all right."""
    with pytest.raises(
        EnvironmentFailedError,
        match=r"an integer of 1329 bits as a reward, expected a number that a float can hold",
    ):
        rc.collect(Rude(reward=10**400), 2.0, 40, out=tmp_path / "out", model="learned")


@pytest.mark.parametrize("name", tiered(["observation_space", "action_space", "spec", "unwrapped"]))
def test_an_environment_that_raises_when_asked_what_it_is_is_refused(name, tmp_path):
    def get(self: Any) -> Any:
        raise RuntimeError("no such thing")

    env = type("Rude", (Rude,), {name: property(get, lambda self, value: None)})()
    steps = {"s": [0, 1], "a": [1, 0], "s_next": [1, 0], "done": [False, False]}
    for call in (
        lambda: rc.collect(env, 2.0, 40, out=tmp_path / "out", model="learned"),
        lambda: rc.explore(env, 2.0, 40, model="learned"),
        lambda: rc.top_up(steps, env, 40, out=tmp_path / "more", model="learned"),
    ):
        with pytest.raises(EnvironmentFailedError, match=f"`{name}` was read: RuntimeError: no such thing"):
            call()
    assert not any(tmp_path.iterdir())


def test_a_spec_that_is_no_spec_is_refused_before_anything_is_written(tmp_path):
    env = Rude()
    env.spec = "a text"  # type: ignore[assignment]
    with pytest.raises(EnvironmentFailedError, match="`spec` must be a Gymnasium EnvSpec or None, got str"):
        rc.collect(env, 2.0, 40, out=tmp_path / "out", model="learned")
    assert not any(tmp_path.iterdir())


@pytest.fixture
def collected(rhocover):
    """Returns a function that runs `rhocover collect` in an environment of this kind."""

    def run(**kind: Any) -> Any:
        gym.register(ID, lambda **_: Rude(**kind), disable_env_checker=True)
        try:
            return rhocover(f"collect {ID} --rho 2 --steps 40 --model learned --out out")
        finally:
            del gym.registry[ID]

    return run


@pytest.mark.parametrize("code", tiered([0, 3, None, "a text"]))
def test_a_command_does_not_end_as_an_environment_wants_it_to(code, collected, tmp_path):
    """The mutant ends with 0 and without a word, though there is no data set."""
    found = collected(raises=SystemExit(code))
    assert found.code == FAILED
    assert f"SystemExit: {code}." in found.err.splitlines()[-1]
    assert found.err.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "out" / "datasheet.json").exists()


@pytest.mark.parametrize("error", [RuntimeError("stuck"), OSError(5, "stuck"), UnspeakableError()])
def test_an_environment_that_cannot_be_closed_takes_nothing_back(error, collected, tmp_path):
    found = collected(close=error)
    assert found.code == 0
    assert f"warning: the environment could not be closed: {type(error).__name__}" in found.err
    assert (tmp_path / "out" / "datasheet.json").exists()


@pytest.mark.parametrize("name", ["num_steps", "rho"])
def test_an_argument_of_any_length_is_refused_in_a_short_message(name):
    arguments = {"rho": 2.0, "num_steps": 100} | {name: [0] * 10**5}
    with pytest.raises(InvalidArgumentError, match=f"`{name}`") as caught:
        rc.explore(rc.envs.river_swim(), **arguments)
    assert len(str(caught.value)) < MOST_LETTERS


def test_a_command_says_in_one_line_what_is_no_exception(collected):
    """The mutant prints a traceback: such a class ends a coroutine, and passes by all that catches errors."""

    class Odd(BaseException):
        pass

    found = collected(raises=Odd("so it is"))
    assert found.code == FAILED
    assert found.err.splitlines()[-1] == "error: code that the command runs raised Odd: so it is"
