"""Messages that a user can act on, and arguments that mean the same everywhere.

An error names a way out that works where it is read: in Python a call, in a shell a line to type.
`test_cli_advice` follows the advice of every command.
"""

from __future__ import annotations

import inspect
import json
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import typer.main

import rhocover as rc
from rhocover.cli.app import app

RIVER = rc.envs.river_swim(num_states=4)
VERBS = (rc.plan, rc.explore, rc.collect, rc.audit, rc.top_up, rc.compare)
LONG = "x" * 400
CELLS = "def cell(observation):\n    return round(float(observation[0]), 1)\n"


def message(function, *given, **arguments) -> str:
    """Returns the error message of a call that must be refused."""
    with pytest.raises(rc.errors.InvalidArgumentError) as error:
        function(*given, **arguments)
    return str(error.value)


def commands() -> dict:
    return typer.main.get_command(app).commands


# --- a way out that works where it is read --------------------------------------------------------------


@pytest.mark.parametrize("line", ["plan MountainCar-v0", "budget MountainCar-v0 --visits 5"])
def test_an_environment_without_a_table_is_sent_to_the_command_that_learns_it(rhocover, line):
    said = " ".join(rhocover(line).err.split())
    assert "Learn it while exploring: rhocover explore MountainCar-v0 --model learned --states bins:8" in said


def test_a_comparison_of_an_environment_without_a_table_needs_no_known_model(rhocover):
    said = " ".join(rhocover("compare MountainCar-v0 --steps 30 --seeds 1 --workers 1").err.split())
    assert "Pass --states bins:8" in said
    assert "--model" not in said


def test_a_function_of_observations_is_named_in_a_shell_and_passed_in_python(rhocover, tmp_path):
    line = "explore MountainCar-v0 --model learned --steps 40"
    said = " ".join(rhocover(line).err.split())
    assert "or `--states` as module:name, a function of an observation that is imported from there" in said
    (tmp_path / "my_cells.py").write_text(CELLS, "utf-8")
    assert rhocover(f"{line} --states my_cells:cell").code == 0
    python = message(rc.explore, gym.make("MountainCar-v0"), model="learned", num_steps=40)
    assert "Pass states=rc.Bins(8), or `states` as a function from an observation" in python


def test_planning_for_an_environment_names_what_makes_a_model_of_it():
    assert message(rc.plan, gym.make("FrozenLake-v1")).endswith("Make one with rc.MDP.from_gymnasium(env).")
    untold = message(rc.plan, gym.make("MountainCar-v0"))
    assert untold.endswith('learn it while exploring, with rc.explore(env, model="learned").')
    assert message(rc.budget, "river_swim", visits=2).endswith("Make one with rc.envs.make('river_swim').")


def test_no_message_names_a_function_of_an_internal_module():
    vector = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    said = message(rc.explore, vector, model="learned", num_steps=40, states=rc.Net(), explorer="rf_express")
    assert "rhocover.environments" not in said
    unfitted = message(rc.CoverageReward, gym.make("FrozenLake-v1"), states=rc.QuantileBins(4))
    assert "rhocover." not in unfitted


def test_values_of_one_type_are_not_called_a_mix():
    data = {"s": [0, 1], "a": [0, 1], "s_next": [1, 0], "done": np.array([Fraction(1), Fraction(0)])}
    said = message(rc.audit, data)
    assert "got values of type Fraction" in said
    data["done"] = np.array([Fraction(1), "no"], dtype=object)
    assert "got a mix of Fraction, str" in message(rc.audit, data)


def test_one_state_is_one_state():
    run = rc.explore(
        gym.make("MountainCar-v0"), num_steps=40, model="from_scratch", states=lambda _: 0, seed=0
    )
    assert "1 state met so far" in str(run)
    assert "1 states" not in str(run)


def test_a_verdict_quotes_only_the_ends_of_a_long_name():
    data = {
        "s": [LONG, "short", LONG],
        "a": [0, 1, 0],
        "s_next": ["short", LONG, "short"],
        "done": [False, False, False],
    }
    found = rc.audit(data)
    assert LONG in found.tally.keys
    assert "xxx ... xxx" in found.verdict
    assert "x" * 60 not in found.verdict
    assert "x" * 60 not in str(found)


# --- one vocabulary ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_rho_is_2_unless_it_is_given(verb):
    assert inspect.signature(verb).parameters["rho"].default == 2.0


def test_an_option_has_one_name_and_one_meaning_in_every_command():
    options = [param for command in commands().values() for param in command.params if param.opts]
    assert not [param for param in options if "--chains" in param.opts]
    assert not [param for param in options if "--rho" in param.opts and param.required]
    copies = {opt for param in options if param.name in ("num_chains", "num_envs") for opt in param.opts}
    assert copies == {"--num-envs"}


@pytest.mark.parametrize("name", ["uniform", "transition_std", "model_error"])
def test_weights_by_name_are_those_of_the_function(name):
    function = getattr(rc.weights, name)
    best = rc.plan(RIVER, mu=function(RIVER))
    for mu in (name, function):
        assert (rc.plan(RIVER, mu=mu).occupancy == best.occupancy).all()
    assert "Did you mean 'transition_std'?" in message(rc.plan, RIVER, mu="transition-std")


def test_a_run_takes_weights_as_a_function():
    by_name = rc.explore(RIVER, num_steps=200, mu="transition_std")
    by_function = rc.explore(RIVER, num_steps=200, mu=rc.weights.transition_std)
    assert (by_name.visits == by_function.visits).all()
    own = rc.explore(RIVER, num_steps=200, mu=lambda seen: np.ones(seen.num_pairs))
    assert (own.visits == rc.explore(RIVER, num_steps=200).visits).all()
    said = message(rc.explore, RIVER, num_steps=200, mu=lambda: 1)
    assert said.startswith("`mu` must be a function of one argument")


def test_an_environment_is_compared_as_it_is():
    lake, small = gym.make("FrozenLake-v1"), {"num_steps": 30, "seeds": 1, "workers": 1}
    for given in ({"explorers": "counts"}, {"explorers": "uniform_random", "states": int}):
        assert "FrozenLake-v1" in str(rc.compare(lake, **given, **small))
    assert "`envs` must hold MDPs or names, got int" in message(rc.compare, 3)


def test_a_seed_that_was_drawn_is_recorded_and_repeats_the_run():
    runs = [rc.explore(RIVER, num_steps=300, explorer="uniform_random", seed=None) for _ in range(2)]
    assert runs[0].seed != runs[1].seed  # fails once in 2^32 times
    again = rc.explore(RIVER, num_steps=300, explorer="uniform_random", seed=runs[0].seed)
    assert (again.visits == runs[0].visits).all()


def test_a_float_without_a_fraction_is_a_number_of_steps(rhocover):
    assert rc.explore(RIVER, num_steps=3e2).num_steps == 300
    said = message(rc.explore, RIVER, num_steps=300.5)
    assert said == "`num_steps` must be a whole number, got 300.5."
    found = rhocover("explore river_swim --steps 3e2 --json")
    assert json.loads(found.out)["parameters"]["num_steps"] == 300


def test_a_model_in_an_array_is_planned_for(rhocover, tmp_path):
    np.save(tmp_path / "P.npy", RIVER.dense())
    np.savez(tmp_path / "model.npz", P=RIVER.dense())
    best = rc.plan(rc.MDP(RIVER.dense()))
    for name in ("P.npy", "model.npz"):
        [found] = json.loads(rhocover(f"plan {name} --json").out)["plans"]
        assert found["policy"] == best.policy.tolist()


def test_a_plan_is_the_same_after_loading(tmp_path):
    best = rc.plan(RIVER, 1.0, mu="model_error")
    best.save(tmp_path / "plan.safetensors")
    loaded = rc.Plan.load(tmp_path / "plan.safetensors")
    assert (loaded.policy == best.policy).all()
    assert loaded.summary() == best.summary()
    assert loaded.mdp.fingerprint == RIVER.fingerprint


def test_advice_before_a_command_is_about_that_place(rhocover):
    said = rhocover("--json envs").err
    assert "there is no option --json before a command" in said
    assert "Did you mean --help?" in rhocover("plan -h").err
