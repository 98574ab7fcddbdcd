"""top_up() into a folder: what it collects keeps the promise, the old data stays, and it goes on where it was."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from lake_walks import INF, NAMES, by_hand, columns_of, is_a_sentence, lake, model_steps, random_steps
from toy_environments import CAR, Failing, Ring, contents, limited, nested_ring, place

import rhocover as rc
from rhocover.collecting import tallied
from rhocover.collecting.env_run import read_env_run
from rhocover.collecting.top_up import SHARE, SHORTEST, TopUpExplorer
from rhocover.datasets import read_tally
from rhocover.datasets.minari.files import open_minari
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from rhocover.exploring.runs.spec import Encoding, RunSpec
from rhocover.planning.problem import Objective
from rhocover.planning.union import best_addition
from tiers import tiered

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("small_parts")]


# --- collecting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [None, "known", "learned"])
def test_after_is_the_audit_of_both_data_sets_put_together_by_hand(walked, tmp_path, model):
    """The new data set as Minari itself reads it, after the old columns."""
    found = rc.top_up(walked, lake(), 700, out=tmp_path / "new", model=model)
    new = columns_of(found.collection)
    assert new[0].size == found.num_steps == found.collection.num_steps == 700
    if model == "learned":
        whole = tuple(np.concatenate(columns) for columns in zip(walked, new, strict=True))
        both = rc.audit(whole)
        order = [both.tally.number_of[key] for key in found.after.tally.keys]
        assert np.array_equal(both.counts[order], found.after.counts)
    else:
        both = by_hand(walked, new)
        assert np.array_equal(both.counts, found.after.counts)
        assert both.verdict.split(":")[0] == found.after.verdict.split(":")[0]
    assert found.after.counts.sum() == 2700
    assert both.divergence == pytest.approx(found.after.divergence, abs=1e-12)
    assert both.worst_ratio == pytest.approx(found.after.worst_ratio, rel=1e-12)
    assert both.tally.num_episodes == found.after.tally.num_episodes
    assert (both.tally.moves.sum(), both.tally.ends.sum()) == (
        found.after.tally.moves.sum(), found.after.tally.ends.sum(),
    )  # fmt: skip


def test_before_is_the_audit_of_the_old_data(walked, tmp_path):
    found = rc.top_up(walked, lake(), 100, out=tmp_path / "new", rho=1.0)
    old = rc.audit(walked, 1.0, model=lake())
    assert np.array_equal(found.before.counts, old.counts)
    assert found.before.divergence == old.divergence
    assert found.fresh_worst_ratio == old.best_worst_ratio


def best_union(data, num_steps: int, rho: float) -> float:
    """Returns the least divergence that any policy's steps on the lake can bring, in the long run."""
    truth = rc.audit(data, rho, model=lake())
    members = rc.Occupancies.average(truth.best.mdp)
    return best_addition(members, rc.Coverage(rho, np.ones(44)), truth.counts.ravel(), num_steps).divergence


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
@pytest.mark.parametrize(("rho", "margin"), tiered([(2, 0.2), (INF, 0.6)]))
def test_what_was_collected_comes_near_the_best_there_is(walked, tmp_path, rho, margin, model):
    """10 000 steps after 2000. Ice is slippery, so a run of this length misses the shares it aims at.

    Over ten seeds the divergence came out at most 0.09 (rho = 2), 0.17 (rho = inf, known) and 0.36 (rho =
    inf, learned) above the best union's. The seed is fixed, so this fails for another rule, not by chance:
    random steps end 0.59 and 1.32 above it, and the old data is 0.46 and 1.32 above it.
    """
    found = rc.top_up(walked, lake(), 10_000, rho, out=tmp_path / "new", model=model)
    goal = best_union(walked, 10_000, rho)
    if model == "known":
        assert found.predicted.divergence == pytest.approx(goal, abs=1e-5)
    assert found.after.divergence <= goal + margin
    assert found.before.divergence >= goal + 2 * margin


def test_new_steps_go_where_the_old_ones_were_not(tmp_path):
    """The old data has tried one action of three. Steps that ignore it would take that action a third of the
    time; steps that complete it take it where a state is new to them, or where the old data is thin.
    """
    tally = read_tally(random_steps(limited(50), 900, actions=1), num_states=7, num_actions=3)
    found = rc.top_up(tally, limited(50), 1800, out=tmp_path / "new")
    fresh = found.collection.audit.counts.sum(axis=0)
    assert fresh[0] < fresh.sum() / 6
    assert found.after.is_complete


@pytest.mark.parametrize("model", ["known", "learned"])
def test_the_explorer_begins_with_the_visits_of_the_old_data(walked, tmp_path, monkeypatch, model):
    """Pair by pair, episodes' ends among them; states come in the order of the table, or of the data."""
    seen, begun = [], tallied.state_after
    monkeypatch.setattr(tallied, "state_after", lambda *given: seen.append(begun(*given)) or seen[0])
    tally = read_tally(walked)
    found = rc.top_up(tally.over(tally.keys[::-1]), lake(), 80, out=tmp_path / "new", model=model)
    state = seen[0]
    assert state.num_steps == state.counts.sum() == 2000
    assert np.array_equal(state.counts, found.before.counts.ravel())


class Switch(gym.Env):
    """Two states, nothing random: action 0 goes to the other one, action 1 stays; with a table."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = self.action_space = gym.spaces.Discrete(2)
        self.P = {s: {0: [(1.0, 1 - s, 0.0, False)], 1: [(1.0, s, 0.0, False)]} for s in (0, 1)}
        self.initial_state_distrib = np.array([1.0, 0.0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        self.state = self.state if action else 1 - self.state
        return self.state, 0.0, False, False, {}


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
@pytest.mark.parametrize("rho", tiered([1, 2, INF], short=[2]))
def test_new_steps_come_to_all_places_that_lack_them(tmp_path, rho, model):
    """The best addition stays half the time in either state and never switches: no one run does that.

    A union of 500 visits each would be even; the first block is an eighth of the steps, so that far off and
    no further may a state that is left too late or too early be.
    """
    states = [0, 1] * 500
    data = read_tally((states, [0] * 1000, [*states[1:], 0], [False] * 1000), num_actions=2)
    found = rc.top_up(data, Switch(), 1000, rho, out=tmp_path / "new", model=model)
    assert found.after.counts.min() >= 500 - 1000 // SHARE
    assert found.collection.audit.counts[:, 0].max() <= 50


def test_a_top_up_plans_again_after_an_eighth_of_what_is_left(walked):
    asked = read_env_run(lake(), RunSpec(Objective(2.0), 5000), Encoding())
    explorer = TopUpExplorer(7000)
    state = explorer.init(asked.belief(asked.state_index()))
    lengths = []
    for done in (2000, 6000, 6900, 6990, 6999, 7000):
        counts = np.full(state.counts.size, done // state.counts.size)
        block = explorer.policy(dataclasses.replace(state, counts=counts, num_steps=done))
        lengths.append(block.num_steps)
    assert lengths == [5000 // SHARE, 1000 // SHARE, SHORTEST, 10, 1, 1]


# --- every kind of environment -------------------------------------------------------------------------

WORLDS = {
    "a ring": (Ring, {}),
    "a ring with a limit": (lambda: limited(5), {}),
    "a ring whose actions begin at 5": (lambda: Ring(first_action=5), {}),
    "a ring that shows a Dict": (nested_ring, {"states": place}),
    "a ring that shows texts": (Ring, {"states": lambda o: "abcdefg"[int(o)]}),
    "MountainCar": (lambda: gym.make("MountainCar-v0"), {"states": CAR}),
    "three rings at once": (lambda: SyncVectorEnv([lambda: limited(5)] * 3), {}),
    "a lake, known": (lake, {}),
    "a lake, learned": (lake, {"model": "learned"}),
}


def collected(name: str, out: Path, num_steps: int = 300) -> tuple:
    """Returns a collection of a world, and the settings to go on with it."""
    make, settings = WORLDS[name]
    settings = {"model": "known" if name == "a lake, known" else "learned"} | settings
    return rc.collect(make(), 2.0, num_steps, out=out, **settings), make, settings


@pytest.mark.parametrize("name", tiered(WORLDS))
def test_a_collection_is_topped_up_in_its_environment_and_stays_as_it_is(name, tmp_path):
    """The union counts every pair as the two data sets do, state by state, by the environment's keys."""
    old, make, settings = collected(name, tmp_path / "old")
    hashes = contents(tmp_path / "old")
    found = rc.top_up(old, make(), 240, out=tmp_path / "new", model=settings["model"])
    assert contents(tmp_path / "old") == hashes
    assert found.collection.num_steps == 240
    assert found.after.num_steps == 540
    both = old.tally + found.collection.tally
    assert found.after.counts.sum() == both.counts.sum() == 540
    assert sorted(found.after.counts.ravel()[found.after.counts.ravel() > 0].tolist()) == sorted(
        both.counts[both.counts > 0].tolist()
    )
    again = read_tally(found.collection.path, **{k: v for k, v in settings.items() if k == "states"})
    assert again.num_steps == 240
    assert np.array_equal(
        again.over(sorted(again.keys, key=str)).counts,
        found.collection.tally.over(sorted(again.keys, key=str)).counts,
    )
    assert is_a_sentence(found.verdict)
    json.dumps(found.summary(), allow_nan=False)


@pytest.mark.parametrize("name", ["a ring", "MountainCar", "a lake, known"])
def test_a_topped_up_collection_may_be_topped_up_again(name, tmp_path):
    old, make, settings = collected(name, tmp_path / "old", 120)
    once = rc.top_up(old, make(), 120, out=tmp_path / "once", model=settings["model"])
    both = old.tally + once.collection.tally
    named = {key: value for key, value in settings.items() if key in ("states", "model")}
    twice = rc.top_up(both, make(), 120, out=tmp_path / "twice", **named)
    assert twice.before.num_steps == 240
    assert twice.after.num_steps == 360


def test_a_table_is_used_where_there_is_one(walked, tmp_path):
    assert rc.top_up(walked, lake(), 80, out=tmp_path / "a").before.is_exact
    assert not rc.top_up(walked, lake(), 80, out=tmp_path / "b", model="learned").before.is_exact
    old = rc.collect(Ring(), 2.0, 80, out=tmp_path / "ring", model="learned")
    assert not rc.top_up(old, Ring(), 80, out=tmp_path / "c").before.is_exact


# --- what is on disk -----------------------------------------------------------------------------------


def test_the_new_data_is_a_data_set_like_any_other(walked, tmp_path, monkeypatch):
    found = rc.top_up(walked, lake(), 200, out=tmp_path / "new", command="the line that made it")
    made = found.collection
    files = {path.name for path in (tmp_path / "new").iterdir() if path.is_file()}
    assert {"manifest.json", "datasheet.json", "datasheet.html"} <= files
    assert made.dataset_id == "rhocover/frozenlake-v1/top-up-rho-2-v0"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    found.to_minari()
    assert minari.load_dataset(made.dataset_id).total_steps == 200
    assert open_minari(made.dataset_id).metadata["rhocover"] == made.datasheet
    assert made.datasheet["repeat"] == "the line that made it"
    assert made.run is None


def test_the_datasheet_says_how_to_top_up_again(walked, tmp_path):
    repeat = rc.top_up(walked, lake(), 80, out=tmp_path / "new").collection.datasheet["repeat"]
    assert "top_up(" in repeat
    assert "TopUpExplorer" not in repeat


def test_the_old_files_are_not_touched(walked, tmp_path):
    np.savez(tmp_path / "walk.npz", **dict(zip(NAMES, walked, strict=True)))
    before = (tmp_path / "walk.npz").read_bytes()
    rc.top_up(tmp_path / "walk.npz", lake(), 100, out=tmp_path / "new")
    rc.top_up(tmp_path / "walk.npz", num_steps=100)
    assert (tmp_path / "walk.npz").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"walk.npz", "new"}


def test_planning_writes_nothing(walked, tmp_path, elsewhere):
    hashes = contents(elsewhere)
    rc.top_up(walked, num_steps=100)
    rc.top_up(model_steps(rc.envs.river_swim(), 50), rc.envs.river_swim(), num_steps=100)
    assert contents(elsewhere) == hashes
    assert not list(tmp_path.iterdir())


def test_the_same_call_gives_the_same_files_and_another_seed_others(walked, tmp_path):
    one = rc.top_up(walked, lake(), 200, out=tmp_path / "a", seed=5)
    two = rc.top_up(walked, lake(), 200, out=tmp_path / "b", seed=5)
    other = rc.top_up(walked, lake(), 200, out=tmp_path / "c", seed=6)
    assert data_of(one.collection) == data_of(two.collection)
    assert data_of(one.collection) != data_of(other.collection)


def data_of(found) -> dict[str, str]:
    """Returns the hashes of the data set's files."""
    return contents(found.path)


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
@pytest.mark.parametrize("at", tiered([1, 63, 64, 65, 150, 299]))
def test_after_an_interruption_the_rest_is_as_if_there_had_been_none(walked, tmp_path, at, model):
    whole = rc.top_up(walked, Failing(lake()), 300, out=tmp_path / "whole", model=model)
    error = KeyboardInterrupt() if at % 2 else None
    with pytest.raises(KeyboardInterrupt if at % 2 else EnvironmentFailedError):
        rc.top_up(walked, Failing(lake(), at, error=error), 300, out=tmp_path / "new", model=model)
    found = rc.top_up(walked, Failing(lake()), 300, out=tmp_path / "new", model=model, resume=True)
    assert data_of(found.collection) == data_of(whole.collection)
    assert contents(tmp_path / "new") == contents(tmp_path / "whole")
    assert np.array_equal(found.after.counts, whole.after.counts)
    assert found.verdict == whole.verdict


def test_several_interruptions_are_no_worse_than_one(walked, tmp_path):
    rc.top_up(walked, Failing(lake()), 300, out=tmp_path / "whole")
    for number, at in enumerate((70, 100, 130)):
        with pytest.raises(EnvironmentFailedError):
            rc.top_up(walked, Failing(lake(), at), 300, out=tmp_path / "new", resume=number > 0)
    found = rc.top_up(walked, Failing(lake()), 300, out=tmp_path / "new", resume=True)
    assert contents(tmp_path / "new") == contents(tmp_path / "whole")
    assert found.after.num_steps == 2300


@pytest.fixture
def interrupted(walked, tmp_path) -> Path:
    """Returns the folder of a top-up that stopped after 149 of 300 steps."""
    with pytest.raises(EnvironmentFailedError):
        rc.top_up(walked, Failing(lake(), 150), 300, mu=np.ones((11, 4)), out=tmp_path / "half")
    return tmp_path / "half"


@pytest.mark.parametrize(
    "changed", tiered([{"rho": 1.0}, {"seed": 1}, {"num_steps": 400}, {"model": "learned", "mu": None}])
)
def test_a_top_up_goes_on_with_the_same_settings_only(walked, interrupted, changed):
    settings = {"num_steps": 300, "mu": np.ones((11, 4)), "out": interrupted, "resume": True} | changed
    with pytest.raises(InvalidArgumentError, match="begin a new collection in another folder"):
        rc.top_up(walked, Failing(lake()), **settings)


def test_a_top_up_goes_on_with_the_same_old_data_only(walked, interrupted):
    other = random_steps(lake(), 2000, seed=1)
    with pytest.raises(InvalidArgumentError, match="begin a new collection in another folder"):
        rc.top_up(other, Failing(lake()), 300, mu=np.ones((11, 4)), out=interrupted, resume=True)


def test_a_top_up_goes_on_with_the_same_weights_only(walked, interrupted):
    mu = np.ones((11, 4))
    mu[3] = 50.0
    with pytest.raises(InvalidArgumentError, match="begin a new collection in another folder"):
        rc.top_up(walked, Failing(lake()), 300, mu=mu, out=interrupted, resume=True)


def test_a_finished_top_up_and_an_empty_folder_cannot_be_resumed(walked, tmp_path):
    rc.top_up(walked, lake(), 80, out=tmp_path / "new")
    with pytest.raises(InvalidArgumentError, match="finished"):
        rc.top_up(walked, lake(), 80, out=tmp_path / "new", resume=True)
    with pytest.raises(InvalidArgumentError, match="there is no collection in"):
        rc.top_up(walked, lake(), 80, out=tmp_path / "none", resume=True)


def test_progress_is_reported_up_to_the_end(walked, tmp_path):
    seen: list[tuple[int, int]] = []
    rc.top_up(
        walked, lake(), 300, out=tmp_path / "new", report=lambda done, total: seen.append((done, total))
    )
    steps = [done for done, _ in seen]
    assert steps == sorted(steps)
    assert steps[0] >= 0
    assert seen[-1] == (300, 300)
