"""A name that no file can have is refused at the door, by the argument, in one line of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from small_writers import RIVER, collect, compare, contents, explore, top_up

import rhocover as rc
from rhocover.cli import app
from rhocover.datasets.minari.files import MinariWriter, open_minari
from rhocover.errors import InvalidArgumentError
from rhocover.report.figures import occupancy_figure, save_figure
from rhocover.report.pages.plan import page_of_plans
from rhocover.report.pages.rendering import write_page

NAMES = {
    "a NUL": "a\0b",
    "a NUL in a folder": "a\0b/c",
    "half a letter": "a\ud800b",
    "a long name": "x" * 300,
    "a long path": "/".join(["y" * 200] * 30),
}
SPACES = {"observation_space": gym.spaces.Discrete(4), "action_space": gym.spaces.Discrete(2)}
DOORS: dict[str, tuple[str, Callable[[str], Any]]] = {  # how it is called, and the argument
    "explore": ("out", explore),
    "resume": ("out", rc.resume),
    "compare": ("out", compare),
    "collect": ("out", collect),
    "top_up": ("out", top_up),
    "MDP.save": ("path", RIVER.save),
    "MDP.load": ("path", rc.MDP.load),
    "Comparison.load": ("path", rc.Comparison.load),
    "write_page": ("path", lambda name: write_page(page_of_plans([rc.plan(RIVER, 2.0)]), name)),
    "save_figure": (
        "path", lambda name: save_figure(occupancy_figure(RIVER, rc.plan(RIVER, 2.0).occupancy, "v"), f"{name}.png"),
    ),
    "MinariWriter": ("path", lambda name: MinariWriter(name, "small/set-v0", **SPACES)),
    "open_minari": ("source", open_minari),
    "audit": ("data", rc.audit),
    "audit a table": ("data", lambda name: rc.audit(f"{name}.csv")),
    "top_up of": ("data", lambda name: rc.top_up(name, num_steps=5)),
}  # fmt: skip
LINES = (
    "plan river_swim --rho 2 --out @", "plan river_swim --rho 2 --report @.html", "plan @.safetensors --rho 2",
    "explore river_swim --rho 2 --steps 50 --out @ --force", "resume @", "compare --redraw @",
    "compare river_swim --steps 50 --seeds 1 --workers 1 --out @", "audit @", "demo --out @",
    "collect FrozenLake-v1 --rho 2 --steps 50 --out @ --force", "top-up steps.csv --steps 5 --policy @.csv",
    "reproduce reference-values --out @",
)  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("door", DOORS)
def test_a_name_that_no_file_can_have_is_refused_by_the_argument(door, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argument, call = DOORS[door]
    with pytest.raises(InvalidArgumentError, match=f"^`{argument}` must be the name of a f") as caught:
        call(NAMES[kind])
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)
    assert not contents(tmp_path)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("line", LINES)
def test_a_command_refuses_it_in_one_line(line, kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.csv").write_text("s,a,s_next,done\n0,1,1,0\n1,0,0,0\n")
    before = contents(tmp_path)
    with pytest.raises(SystemExit) as end:
        app.main([word.replace("@", NAMES[kind]) for word in line.split()])
    said = capsys.readouterr().err
    assert end.value.code in (1, 2)
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert len(said) < 1000
    assert "embedded" not in said
    assert contents(tmp_path) == before
