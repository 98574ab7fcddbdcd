"""What is there stays, unless --force or overwrite=True asks for it, and then only what is the command's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rhocover as rc
from rhocover.cli.app import BAD_INPUT
from rhocover.datasets.minari.files import MinariWriter
from rhocover.errors import InvalidArgumentError
from rhocover.report.figures import occupancy_figure, save_figure
from rhocover.report.pages.plan import page_of_plans
from rhocover.report.pages.rendering import write_page
from tiers import tiered

RIVER = rc.envs.river_swim(num_states=4)
MINE = b"mine"
STEPS = "s,a,s_next,done\n0,1,1,0\n1,0,0,0\n0,1,1,0\n1,1,1,0\n"
FILES = {  # a command, and the file of its results that is there already
    "plan river_swim --rho 2 --out out": "out/plan.json",
    "plan river_swim --rho 2 --out out --report other.html": "out/occupancy-rho-2.png",
    "plan river_swim --rho 2 --report page.html": "page.html",
    "explore river_swim --rho 2 --steps 300 --out out": "out/run.safetensors",
    "explore river_swim --rho 2 --steps 300 --report page.html": "page.html",
    "compare river_swim --steps 100 --seeds 2 --out out": "out/compare.json",
    "compare river_swim --steps 100 --seeds 2 --report page.html": "page.html",
    "collect FrozenLake-v1 --rho 2 --steps 100 --out out": "out/manifest.json",
    "collect FrozenLake-v1 --rho 2 --steps 100 --out new --report page.html": "page.html",
    "audit steps.csv --out out": "out/audit.json",
    "audit steps.csv --report page.html": "page.html",
    "top-up steps.csv --steps 10 --policy policy.csv": "policy.csv",
    "top-up steps.csv --steps 10 --report page.html": "page.html",
    "reproduce reference-values --out out": "out/reference-values.txt",
    "demo --out out": "out/river-regret.png",
}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("line", tiered(FILES))
def test_a_command_refuses_to_write_over_a_file_and_changes_nothing(line, rhocover, tmp_path):
    (tmp_path / "steps.csv").write_text(STEPS)
    path = tmp_path / FILES[line]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(MINE)
    before = everything(tmp_path)
    found = rhocover(line)
    assert found.code == BAD_INPUT
    assert found.is_one_error_line
    assert path.name in found.err or str(path.parent.name) in found.err
    assert everything(tmp_path) == before


@pytest.mark.parametrize("line", tiered(["explore river_swim --rho 2 --steps 300 --out out --force",
                                  "compare river_swim --steps 100 --seeds 1 --out out --force",
                                  "collect FrozenLake-v1 --rho 2 --steps 100 --out out --force"]))  # fmt: skip
def test_making_room_never_removes_what_is_somebody_elses(line, rhocover, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_bytes(MINE)
    found = rhocover(line)
    assert found.code == BAD_INPUT
    assert everything(tmp_path) == {"out/notes.txt": MINE}


def test_what_a_killed_command_left_behind_is_no_obstacle_to_making_room(rhocover, tmp_path):
    left = tmp_path / "out" / ".rhocover.1234abcd.tmp"
    left.mkdir(parents=True)
    (left / "run.png").write_bytes(b"half a picture")
    assert rhocover("explore river_swim --rho 2 --steps 300 --out out --force").code == 0
    assert not left.exists()


def saves() -> dict[str, Callable[[Path], Any]]:
    """Returns everything in the library that writes one file."""
    found = rc.plan(RIVER, 2.0)
    run = rc.explore(RIVER, 2.0, 200, explorer="tracking")
    compared = rc.compare(
        {"river": RIVER}, rho=2.0, num_steps=100, seeds=1, explorers=["tracking"], workers=1
    )
    steps = ([0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 1, 1], [False] * 4)
    return {
        "model": RIVER.save, "plan": found.save, "run": run.save, "audit": rc.audit(steps).save, "comparison": compared.save,
        "picture.png": lambda path: save_figure(occupancy_figure(RIVER, found.occupancy, "visits"), path),
        "page.html": lambda path: write_page(page_of_plans([found]), path),
    }  # fmt: skip


def test_no_save_replaces_a_file_unless_it_is_asked_to(tmp_path):
    for name, save in saves().items():
        (tmp_path / name).write_bytes(MINE)
        with pytest.raises(InvalidArgumentError, match=f"{name}.*exists already"):
            save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == MINE
    assert len(everything(tmp_path)) == 7


def test_no_folder_of_somebody_else_is_written_to(tmp_path):
    (tmp_path / "notes.txt").write_bytes(MINE)
    lake = gym.make("FrozenLake-v1")
    spaces = {"observation_space": lake.observation_space, "action_space": lake.action_space}
    calls = {
        "explore": lambda: rc.explore(RIVER, 2.0, 100, out=tmp_path),
        "compare": lambda: rc.compare(
            {"river": RIVER}, rho=2.0, num_steps=100, seeds=1, workers=1, out=tmp_path
        ),
        "collect": lambda: rc.collect(lake, 2.0, 100, out=tmp_path),
        "top_up": lambda: rc.top_up(
            {"s": [0], "a": [3], "s_next": [0], "done": [False]}, lake, 10, out=tmp_path
        ),
        "MinariWriter": lambda: MinariWriter(tmp_path, "mine/set-v0", **spaces, overwrite=True),
    }
    for call in calls.values():
        with pytest.raises(InvalidArgumentError):
            call()
        assert everything(tmp_path) == {"notes.txt": MINE}
