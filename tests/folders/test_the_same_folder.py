"""A verb writes to the folder that it began in, wherever the process goes and whatever becomes of the name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import gymnasium as gym
import pytest
from small_writers import WRITERS, collect, contents, explore, lake

import rhocover as rc
from rhocover.datasets.minari.files import MinariWriter
from rhocover.errors import CheckpointError
from tiers import tiered


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Returns the working directory; there is another one beside it."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("verb", tiered(WRITERS))
def test_a_report_that_changes_the_working_directory_does_not_change_where_results_go(verb, here, often):
    WRITERS[verb].call("whole")
    expected = contents(here / "whole").keys()

    def leave(done, total):
        os.chdir(here.parent / "there")

    found = WRITERS[verb].call("out", leave)
    assert contents(here / "out").keys() == expected
    assert not contents(here.parent / "there")
    if verb == "collect":
        assert Path(found.page).is_file()  # what is returned leads there, too


class Leaving(gym.Wrapper):
    """Changes the working directory as soon as it is reset."""

    def reset(self, **named):
        os.chdir("/")
        return self.env.reset(**named)


def test_an_environment_that_changes_the_working_directory_does_not_either(here):
    collect("out", env=Leaving(lake()))
    assert (here / "out" / "datasheet.html").is_file()


def test_a_command_writes_its_report_where_it_was_typed(here, rhocover, monkeypatch):
    from rhocover.cli import plan

    os.chdir(here)
    real = plan.plan_table
    monkeypatch.setattr(plan, "plan_table", lambda *args: (os.chdir(here.parent / "there"), real(*args))[1])
    found = rhocover("plan river_swim --rho 2 --out out --report page.html")
    assert found.code == 0, found.err
    assert {"plan.json", "ratio-rho-2.png"} < contents(here / "out").keys()
    assert (here / "page.html").is_file()
    assert not contents(here.parent / "there")


def test_a_data_set_is_written_where_it_was_begun(here):
    spaces = {"observation_space": gym.spaces.Discrete(4), "action_space": gym.spaces.Discrete(2)}
    with MinariWriter("set", "small/old-v0", **spaces) as writer:
        os.chdir(here.parent / "there")
        writer.add_many([0, 1], [0], [0.0], [True], [False], [1])
        writer.finish()
    assert (here / "set" / "data" / "metadata.json").is_file()
    assert not contents(here.parent / "there")


@pytest.mark.parametrize("happens", tiered(["deleted", "moved", "replaced"]))
@pytest.mark.parametrize("verb", tiered(WRITERS))
def test_a_folder_that_goes_away_midway_is_told_and_not_made_again(verb, happens, tmp_path, often):
    """The mutant makes it anew, without its settings: half a run that nobody can go on with."""
    out, done = tmp_path / "out", []

    def report(steps, num_steps):
        if not done:
            done.append(steps)
            shutil.rmtree(out) if happens == "deleted" else out.rename(tmp_path / "kept")
            if happens == "replaced":
                out.mkdir()

    with pytest.raises(
        CheckpointError, match=r"was moved or deleted meanwhile\. Nothing was written"
    ) as caught:
        WRITERS[verb].call(out, report)
    assert str(out) in str(caught.value)
    assert ("leads to another folder now" if happens == "replaced" else "is gone") in str(caught.value)
    assert not contents(out)
    assert out.exists() == (happens == "replaced")


@pytest.mark.parametrize("verb", ["explore", "compare"])
def test_a_folder_that_is_moved_back_is_gone_on_with(verb, tmp_path, often):
    out, kept, done = tmp_path / "out", tmp_path / "kept", []

    def report(steps, num_steps):
        if not done:
            done.append(steps)
            out.rename(kept)

    with pytest.raises(CheckpointError):
        WRITERS[verb].call(out, report)
    kept.rename(out)
    whole = WRITERS[verb].call(tmp_path / "whole")
    assert str(WRITERS[verb].again(out)) == str(whole)


def test_a_link_to_a_folder_leads_to_the_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    explore(tmp_path / "out")
    assert "result.safetensors" in contents(tmp_path / "real")
    assert rc.resume(tmp_path / "out").num_steps == 600


def test_a_relative_folder_in_a_working_directory_that_is_gone_is_refused(here):
    shutil.rmtree(here)
    with pytest.raises(rc.errors.InvalidArgumentError, match="the working directory, which is gone"):
        explore("out")
