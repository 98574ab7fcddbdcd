"""The commands about environments and data say what the Python API says, and remove or run nothing unasked."""

from __future__ import annotations

import builtins
import io
import json
import time
from pathlib import Path

import gymnasium as gym
import pytest

import rhocover as rc
from lake_commands import COLLECT, LAKE, contents, read, write_steps
from patience import PATIENCE, waited_for
from rhocover.cli import codes, output, places
from test_cli import names_in
from tiers import tiered

# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    tiered([
        ("FrozenLak-v1 --rho 2", "unknown environment 'FrozenLak-v1'. Did you mean 'FrozenLake-v1'"),
        ("Xyzzy --rho 2", "Known to Gymnasium: CartPole-v0"),
        ("river_swim --rho 2", "'river_swim' is a model of rhocover, not a Gymnasium environment"),
        ("no_such_module:Env-v0 --rho 2", "cannot be imported: No module named 'no_such_module'"),
        (f"{LAKE} --rho 2 --set is_slippery", "`--set` must be NAME=VALUE, got 'is_slippery'"),
        (f"{LAKE} --rho 2 --set a=1 --set a=2", "`--set` has a twice. Give it once."),
        (f"{LAKE} --rho 2 --set nonsense=1", "unknown argument of FrozenLake-v1 'nonsense'. Known: desc, is_slippery"),
        (f"{LAKE} --rho 2 --set map_name=9x9", "FrozenLake-v1 cannot be made with these arguments: KeyError"),
        (f"{LAKE} --rho -1", "`--rho` must be in [0, inf], got -1"),
        (f"{LAKE} --rho 2 --steps 0", "`--steps` must be at least 1"),
        (f"{LAKE} --rho 2 --seed -1", "`--seed` must be at least 0"),
        (f"{LAKE} --rho 2 --explorer nobody", "unknown explorer 'nobody'"),
        (f"{LAKE} --rho 2 --model guessed", "guessed"),
        (f"{LAKE} --rho 2 --mu random:1", "unknown weights for `--mu`: 'random:1'"),
        (f"{LAKE} --rho 2 --mu mu.npy", "there is no file 'mu.npy'"),
        (f"{LAKE} --rho 2 --id 'a b'", "`--id` must be like 'name-v0'"),
        (f"{LAKE} --rho 2 --num-envs 0", "`--num-envs` must be at least 1"),
        (f"{LAKE} --rho 2 --num-envs 2", "a vector environment has no table of its transitions. Pass --model learned"),
        (f"{LAKE} --rho 2 --max-episode-steps 0", "`--max-episode-steps` must be at least 1"),
        (f"{LAKE} --rho 2 --until-visits 0", "`--until-visits` must be at least 1"),
        (f"{LAKE} --rho 2 --until-visits 1 --until-gap 1", "cannot be combined"),
        (f"{LAKE} --rho 2 --delta 1", "`--delta` must be in (0, 1)"),
        (f"{LAKE} --rho 2 --actions 3 --model learned", "`--actions` must be a list of actions of Discrete(4), got 3. Leave"),
        (f"{LAKE} --rho 2 --states bins:3 --model learned", "bins need a Box space"),
        (f"{LAKE} --rho 2 --resume", "`--resume`: there is no collection in 'o'. Leave --resume out"),
        (f"{LAKE} --rho 2 --resume --force", "`--force` would remove what --resume continues. Leave it out."),
        (f"{LAKE} --rho 2 --report page.txt", "`--report` must name a file that ends in .html"),
        ("MountainCar-v0 --rho 2", "It can be learned during the run: pass --model learned --states bins:8."),
        ("MountainCar-v0 --rho 2 --model learned", "Pass --states bins:8, or `--states` as module:name"),
        ("MountainCar-v0 --rho 2 --states bins:4", "an environment encoded by `--states` has no table"),
        ("MountainCar-v0 --rho 2 --model learned --states bins", "`--states` must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states grid:3", "`--states` must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4@", "`--states` must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4@1:2:3", "`--states` must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states quantiles:4@1:2", "`--states` must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:four", "`--states` needs whole numbers"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:0", "`--states` must be at least 1"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4,3,2", "`--states` must be one number or 2"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4@2:1", "LOW of --states must be below HIGH of --states"),
        ("CartPole-v1 --rho 2 --model learned --states bins:4", "Pass --states net, or say where its bins end, LOW:HIGH for each dimension"),
        ("Pendulum-v1 --rho 2 --model learned --states bins:4", "Pass --actions 3 for three levels per dimension"),
        ("Pendulum-v1 --rho 2 --model learned --states bins:4 --actions x", "`--actions` needs whole numbers"),
        ("Pendulum-v1 --rho 2 --model learned --states bins:4 --actions 0", "`--actions` must be at least 1"),
    ]),
)  # fmt: skip
def test_what_cannot_be_collected_is_refused_in_one_line(rhocover, line, words):
    result = rhocover(f"collect {line} --out o")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err
    assert names_in(Path.cwd()) == set()


@pytest.mark.parametrize(
    ("line", "words"),
    tiered([
        ("audit none.csv", "DATA: there is no file 'none.csv'"),
        ("audit no/such-v0", "neither a folder nor the id of a Minari data set"),
        ("audit empty.csv", "zero rows"),
        ("audit few.csv", "few.csv"),
        ("audit mixed.csv", "whole number"),
        ("audit notes.txt", "must end in"),
        ("audit notes.json", "lacks `state` and `action`"),
        ("audit steps.csv --num-states 3", "whole numbers from 0 to 2, got"),
        ("audit steps.csv --num-states 0", "`--num-states` must be at least 1"),
        ("audit steps.csv --num-actions 2", "whole numbers from 0 to 1, got"),
        ("audit steps.csv --env CliffWalking-v1", "`--env`"),
        ("audit steps.csv --env Nothing-v0", "unknown environment 'Nothing-v0'"),
        ("audit steps.csv --env CartPole-v1", "Leave `--env` out"),
        ("audit steps.csv --set a=1", "`--set` needs `--env`, which it configures. Leave it out."),
        ("audit steps.csv --rho -1", "`--rho` must be in [0, inf]"),
        ("audit steps.csv --delta 2", "`--delta` must be in (0, 1)"),
        ("audit steps.csv --mu nothing", "unknown weights for `--mu`: 'nothing'"),
        ("audit steps.csv --mu small.csv", "`--mu` must have shape"),
        ("audit steps.csv --thin -1", "--thin': expected 0 or more, got '-1'"),
        ("audit steps.csv --require-worst-ratio 0.5", "`--require-worst-ratio` must be finite and at least 1, a perfect match, got 0.5"),
        ("audit steps.csv --require-worst-ratio inf", "`--require-worst-ratio` must be finite and at least 1, a perfect match, got inf"),
        ("audit lake --env CliffWalking-v1", "it belongs to another environment"),
        ("audit lake --states bins:3", "bins need a Box space"),
        ("top-up none.csv --steps 10", "there is no file 'none.csv'"),
        ("top-up steps.csv --steps 0", "`--steps` must be at least 1"),
        ("top-up steps.csv --steps 10 --out o", "`--out` is the folder for new data, which need an environment as `--env`"),
        ("top-up steps.csv --steps 10 --resume", "`--resume` is for new data, which need `--out`. Leave it out."),
        ("top-up steps.csv --steps 10 --id a-v0", "`--id` is for new data, which need `--out`. Leave it out."),
        ("top-up steps.csv --steps 10 --set a=1", "`--set` needs `--env`, which it configures. Leave it out."),
        ("top-up steps.csv --steps 10 --max-episode-steps 9", "`--max-episode-steps` needs `--env`, which it configures. Leave it out."),
        ("top-up steps.csv --steps 10 --policy p.txt", "`--policy` must end in .csv or .safetensors"),
        ("top-up steps.csv --steps 10 --env CliffWalking-v1", "`--env`"),
        ("top-up steps.csv --steps 10 --env CartPole-v1", "Is it data of another environment?"),
        ("top-up steps.csv --steps 10 --env Taxi-v4 --out o", "another environment"),
        ("top-up steps.csv --steps 10 --env FrozenLake-v1 --out o --resume --force", "`--force` would remove what --resume continues. Leave it out."),
        ("top-up steps.csv --steps 10 --env FrozenLake-v1 --out o --resume", "there is no collection in"),
    ]),
)  # fmt: skip
def test_data_that_cannot_be_used_is_refused_in_one_line(rhocover, line, words):
    write_steps()
    Path("empty.csv").write_text("s,a,s_next,done\n")
    Path("few.csv").write_text("s,reward\n1,2\n")
    Path("mixed.csv").write_text("s,a,s_next,done\n0,1,1,0\n0,left,1,0\n")
    Path("notes.json").write_text("{}")
    Path("notes.txt").write_text("{}")
    Path("small.csv").write_text("1,2\n3,4\n")
    if "lake" in line:
        assert rhocover(f"{COLLECT} --out lake").code == 0
    before = names_in(Path.cwd())
    result = rhocover(line)
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err
    assert names_in(Path.cwd()) == before


def test_a_missing_package_is_named_with_the_line_that_installs_it(rhocover, monkeypatch):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    Path("steps.parquet").write_bytes(b"PAR1")
    original = builtins.__import__

    def without(name, *rest, **given):
        if name.partition(".")[0] in ("minari", "h5py", "pyarrow"):
            raise ImportError(f"No module named {name!r}", name=name.partition(".")[0])
        return original(name, *rest, **given)

    monkeypatch.setattr(builtins, "__import__", without)
    for line, extra in (("export lake --minari a-v0", "minari"), ("audit a/b-v0", "minari"),
                        ("audit steps.parquet", "parquet")):  # fmt: skip
        result = rhocover(line)
        assert (result.code, result.is_one_error_line) == (1, True), result.err
        assert f"Install it with: pip install 'rhocover[{extra}]'" in result.err


def test_an_environment_that_lacks_a_package_and_one_that_is_out_of_date(rhocover, monkeypatch):
    def lacking(*_, **__):
        raise gym.error.DependencyNotInstalled('Box2D is not installed, run `pip install "gymnasium[box2d]"`')

    with monkeypatch.context() as patch:
        patch.setattr(gym, "make", lacking)
        result = rhocover("collect LunarLander-v3 --rho 2 --out o")
    assert (result.code, result.is_one_error_line) == (1, True)
    assert 'pip install "gymnasium[box2d]"' in result.err
    old = rhocover("collect CartPole-v0 --rho 2 --model learned --states bins:2@-1:1 --steps 50 --out o")
    assert old.code == 0
    assert old.err.startswith("warning: The environment CartPole-v0 is out of date.")


# --- explore in an environment ----------------------------------------------------------------------


def test_an_environment_is_explored_like_a_model(rhocover):
    run = rc.explore(gym.make(LAKE, is_slippery=False), 2.0, 600, seed=3)
    result = rhocover(
        f"explore {LAKE} --set is_slippery=false --rho 2 --steps 600 --seed 3 --json --report r.html"
    )
    assert (result.code, result.err) == (0, "the report is in r.html\n")
    document = read(result.out)
    assert {**document["run"], "seconds": 0} == {**json.loads(json.dumps(run.summary())), "seconds": 0}
    assert document["parameters"]["set"] == {"is_slippery": False}


def test_what_nobody_knows_of_an_environment_is_not_told(rhocover):
    line = "explore MountainCar-v0 --rho 2 --model learned --states bins:3 --steps 500"
    document = read(rhocover(f"{line} --json").out)
    assert document["model_error"] is None
    shown = rhocover(line).out
    assert "on observed model" in shown
    assert "model error" not in shown


@pytest.mark.parametrize(
    ("line", "words"),
    tiered(
        [
            (f"{LAKE} --out old --force", "Store the data as well: rhocover collect FrozenLake-v1"),
            (f"{LAKE} --out new", "Store the data as well: rhocover collect FrozenLake-v1"),
            (f"{LAKE} --horizon 5", "`--horizon` is only for models"),
            (
                f"{LAKE} --num-envs 2",
                "a vector environment has no table of its transitions. Pass --model learned.",
            ),
            ("river_swim --states bins:3", "`--states` is for environments: a model has its own"),
            ("river_swim-v0", "unknown environment 'river_swim-v0'"),
        ]
    ),
)
def test_what_does_not_go_with_an_environment_is_refused(rhocover, line, words):
    assert rhocover("explore wheel --rho 2 --steps 100 --out old").code == 0
    before = contents(Path("old"))
    result = rhocover(f"explore {line} --rho 2 --steps 100")
    assert (result.code, result.is_one_error_line) == (2, True), result.err
    assert words in result.err
    assert names_in(Path.cwd()) == {"old"}
    assert contents(Path("old")) == before


# --- texts, progress and help -----------------------------------------------------------------------


def test_arguments_of_an_environment_are_json_or_else_text():
    texts = ["a=8x8", "b=true", "c=False", "d=3", "e=0.5", "f=null", 'g=["SF","HG"]', "h=a=b", 'i="7"', "j="]
    assert places.parse_arguments(texts) == {
        "a": "8x8", "b": True, "c": False, "d": 3, "e": 0.5, "f": None, "g": ["SF", "HG"], "h": "a=b", "i": "7",
        "j": "",
    }  # fmt: skip


def test_what_looks_like_an_environment_is_one():
    assert all(places.is_environment(name) for name in gym.registry)
    assert places.is_environment("my.module:space/Name-v3")
    assert not any(
        places.is_environment(name) for name in [*rc.envs.names(), "model.safetensors", "./a-v1/m"]
    )


def test_states_are_read_as_bins():
    assert codes.parse_states("bins:12,11", None) == rc.Bins((12, 11))
    assert codes.parse_states("bins:8@-1:2", None) == rc.Bins(8, -1.0, 2.0)
    assert codes.parse_states("bins:8,4@-1:,:2", None) == rc.Bins((8, 4), (-1.0, None), (None, 2.0))
    assert codes.parse_states(None, None) is None
    assert codes.parse_actions("3,5") == (3, 5)
    assert codes.parse_actions("3") == 3


def test_something_turns_after_a_second_where_somebody_looks(monkeypatch):
    from rich.console import Console

    shown = io.StringIO()
    monkeypatch.setattr(output, "console", lambda **_: Console(force_terminal=True, file=shown))
    monkeypatch.setattr(output, "PATIENCE", 10.0 * PATIENCE)
    with output.waiting("counting"):
        pass
    assert shown.getvalue() == ""
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.waiting("counting"):
        assert waited_for(lambda: "counting" in shown.getvalue())


def test_nothing_turns_where_nobody_looks(capsys, monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.waiting("counting"):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")
