"""collect(): what is on disk is what happened, to the last step, and anybody can read it."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_environments import (
    ANGLE,
    CAR,
    POLE,
    Counted,
    Failing,
    Ring,
    contents,
    limited,
    moves_of,
    moves_of_run,
    nested_ring,
    place,
    visits_of,
    visits_of_tally,
)

import rhocover as rc
from rhocover.collecting import log, stepping
from rhocover.collecting.datasheet import page_of_collection
from rhocover.datasets.collection.manifest import load_manifest
from rhocover.datasets.collection.source import open_collection
from rhocover.environments.table_model import read_table
from rhocover.errors import InvalidArgumentError, MissingExtraError
from tiers import tiered

LEARNED = {"model": "learned"}
SINGLE = {
    "FrozenLake, known": (lambda: gym.make("FrozenLake-v1"), {}),
    "a short FrozenLake, known": (lambda: gym.make("FrozenLake-v1", max_episode_steps=6), {}),
    "Taxi": (lambda: gym.make("Taxi-v4"), LEARNED),
    "MountainCar": (lambda: gym.make("MountainCar-v0"), {"states": CAR} | LEARNED),
    "Pendulum": (lambda: gym.make("Pendulum-v1"), {"states": ANGLE, "actions": 3} | LEARNED),
    "CartPole": (lambda: gym.make("CartPole-v1"), {"states": POLE} | LEARNED),
    "a Dict": (nested_ring, {"states": place} | LEARNED),
    "a Tuple": (lambda: nested_ring(is_tuple=True), {"states": place} | LEARNED),
    "Blackjack": (lambda: gym.make("Blackjack-v1"), {"states": lambda o: tuple(map(int, o))} | LEARNED),
    "texts": (Ring, {"states": lambda o: "abcdefg"[int(o)]} | LEARNED),
    "actions from 5": (lambda: Ring(first_action=5), LEARNED),
    "a limit": (lambda: limited(5), LEARNED),
}
MANY = {
    "rings, next step": (lambda: SyncVectorEnv([lambda: limited(5)] * 3), LEARNED),
    "rings, same step": (
        lambda: SyncVectorEnv([lambda: limited(5)] * 3, autoreset_mode=AutoresetMode.SAME_STEP), LEARNED,
    ),
    "rings, disabled": (
        lambda: SyncVectorEnv([lambda: limited(5)] * 3, autoreset_mode=AutoresetMode.DISABLED), LEARNED,
    ),
    "Pendulums": (lambda: gym.make_vec("Pendulum-v1", 2), {"states": ANGLE, "actions": 3} | LEARNED),
    "poles": (
        lambda: gym.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point"),
        {"states": POLE} | LEARNED,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Logs have parts of 64 steps and environments are seeded every 90, so that there are many of both."""
    monkeypatch.setattr(log, "ROUND", 64)
    monkeypatch.setattr(stepping, "BETWEEN", 90)


def collected(name: str, out: Path, num_steps: int = 500, **more):
    make, settings = (SINGLE | MANY)[name]
    env = make()
    return env, rc.collect(env, 2.0, num_steps, out=out, **(settings | more)), settings


def episodes(found) -> list:
    return list(open_collection(found.path).episodes())


def visits_of_run(found) -> Counter:
    """Returns the visits that the run counted, by the environment's keys."""
    if found.run.model != "known":
        return visits_of(moves_of_run(found.run))
    keys = read_table(gym.make("FrozenLake-v1")).states.tolist()
    counts = found.run.counts
    return Counter({(keys[s], int(a)): int(counts[s, a]) for s, a in np.argwhere(counts)})


# --- the round trip ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiered(SINGLE | MANY))
def test_an_audit_of_the_data_set_counts_exactly_what_the_run_counted(name, tmp_path):
    env, found, settings = collected(name, tmp_path / "out")
    read = {key: value for key, value in settings.items() if key != "model"}
    model = env if found.run.model == "known" else None
    again = rc.audit(found.path, 2.0, model=model, **read)
    assert visits_of_tally(found.tally) == visits_of_run(found)
    assert np.array_equal(again.counts, found.audit.counts)
    assert again.tally.keys == found.audit.tally.keys
    assert again.tally.state_names == found.audit.tally.state_names
    assert again.num_steps == found.run.num_steps == 500
    assert again.visited_divergence == found.audit.visited_divergence
    is_whole = again.num_pairs == found.audit.num_pairs  # the run knows of bins that are not in the data
    assert again.divergence == found.audit.divergence or not is_whole
    assert again.tally.num_episodes == found.tally.num_episodes == len(episodes(found))
    assert again.tally.num_truncated == found.tally.num_truncated


@pytest.mark.parametrize("name", tiered(["FrozenLake, known", "MountainCar", "a Dict", "rings, same step"]))
def test_minari_itself_reads_the_data_set_by_its_id(name, tmp_path, monkeypatch):
    env, found, _ = collected(name, tmp_path / "out")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    found.to_minari()
    data = minari.load_dataset(found.dataset_id)
    assert data.total_steps == 500
    assert data.total_episodes == len(episodes(found))
    single = hasattr(env, "single_observation_space")
    assert data.observation_space == (env.single_observation_space if single else env.observation_space)
    assert data.action_space == (env.single_action_space if single else env.action_space)
    for theirs, ours in zip(data.iterate_episodes(), episodes(found), strict=True):
        assert np.array_equal(theirs.actions, ours.actions)
        assert np.array_equal(theirs.rewards, ours.rewards)
        assert np.array_equal(theirs.terminations, ours.terminations)
        if not isinstance(ours.observations, dict):
            assert np.array_equal(theirs.observations, ours.observations)
        assert sum(theirs.terminations | theirs.truncations) == 1
    assert found.load().count_rows() == 500


@pytest.mark.parametrize(
    "name", tiered([name for name in SINGLE if name not in ("a Dict", "a Tuple", "texts")])
)
def test_an_episode_with_a_seed_is_what_a_fresh_environment_does(name, tmp_path):
    _, found, _ = collected(name, tmp_path / "out")
    fresh = SINGLE[name][0]()
    seeded = [episode for episode in episodes(found) if episode.seed is not None]
    assert seeded
    for episode in seeded:
        check_replay(fresh, episode)
    if name not in ("MountainCar", "Pendulum"):  # their episodes are 200 steps long
        assert len({episode.seed for episode in seeded}) == len(seeded) >= 3


def check_replay(env: gym.Env, episode) -> None:
    observation, _ = env.reset(seed=episode.seed)
    for step in range(len(episode)):
        assert same_observation(observation, row(episode.observations, step))
        observation, reward, terminated, truncated, _ = env.step(episode.actions[step])
        assert reward == episode.rewards[step]
        assert terminated == episode.terminations[step]
        assert truncated == episode.truncations[step] or step == len(episode) - 1
    assert same_observation(observation, row(episode.observations, len(episode)))


def row(observations, k: int):
    if isinstance(observations, tuple):
        return tuple(part[k] for part in observations)
    return {n: p[k] for n, p in observations.items()} if isinstance(observations, dict) else observations[k]


def same_observation(a, b) -> bool:
    if isinstance(b, tuple):
        return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(b, dict):
        return all(np.array_equal(a[key], b[key]) for key in b)
    return bool(np.array_equal(a, b))


@pytest.mark.parametrize("name", tiered(["rings, next step", "rings, same step", "rings, disabled", "poles"]))
def test_the_first_episode_of_each_copy_has_its_seed_if_it_is_one(name, tmp_path):
    _, found, _ = collected(name, tmp_path / "out", seed=40)
    seeded = [episode for episode in episodes(found) if episode.seed is not None]
    assert {episode.seed for episode in seeded} == (set() if name == "poles" else {40, 41, 42})
    for episode in seeded:
        check_replay(limited(5), episode)


@pytest.mark.parametrize("name", tiered(["a limit", "FrozenLake, known", "Pendulum"]))
def test_what_is_stored_is_what_the_environment_showed(name, tmp_path):
    make, settings = SINGLE[name]
    env = Counted(make(), lambda o: np.array(o).tolist())
    found = rc.collect(env, 2.0, 300, out=tmp_path / "out", **settings)
    shown = iter(env.paper)
    for episode in episodes(found):
        assert next(shown)[2] == episode.observations[0].tolist()
        for k in range(len(episode)):
            _, _, after, terminated, truncated = next(shown)
            assert after == episode.observations[k + 1].tolist()
            assert terminated == episode.terminations[k]
            assert truncated == episode.truncations[k] or k == len(episode) - 1


def test_the_last_episode_is_marked_as_cut_and_no_other_one_is_changed(tmp_path):
    env = Counted(Ring(ending=0.1))
    found = rc.collect(env, 2.0, 300, out=tmp_path / "out", **LEARNED)
    *before, last = episodes(found)
    ended = sum(entry[0] == "step" and entry[3] for entry in env.paper)
    is_over = env.paper[-2][0] == "step" and env.paper[-2][3]  # the very last step ended an episode
    assert len(before) == ended - is_over
    assert all(e.terminations[-1] and not e.truncations.any() for e in before)
    assert bool(last.truncations[-1]) == (not is_over)
    assert not last.terminations[:-1].any()


@pytest.mark.parametrize("num_steps", tiered([1, 2, 63, 64, 65, 128]))
@pytest.mark.parametrize(
    "name", tiered(["a limit", "rings, next step", "rings, same step", "rings, disabled"])
)
def test_any_number_of_steps_however_they_fall_on_parts(name, num_steps, tmp_path):
    _, found, _ = collected(name, tmp_path / "out", num_steps)
    again = rc.audit(found.path, 2.0)
    assert visits_of_tally(again.tally) == visits_of_run(found)
    assert again.num_steps == num_steps


def test_collections_that_end_early_hold_what_was_seen(tmp_path):
    found = rc.collect(Ring(), 2.0, 50_000, out=tmp_path / "out", until=rc.EveryPair(4), **LEARNED)
    assert found.run.is_enough
    assert found.num_steps == found.run.num_steps < 5000
    assert found.audit.counts.min() >= 4


@pytest.mark.thorough
def test_the_same_call_gives_the_same_files(tmp_path, real_pages):
    for name in ("a limit", "rings, same step", "Pendulum"):
        one, two = (tmp_path / f"{name} {k}" for k in range(2))
        for out in (one, two):
            collected(name, out)
        assert contents(one) == contents(two)


@pytest.mark.parametrize("name", tiered(["FrozenLake, known", "Pendulum", "a Dict", "rings, same step"]))
def test_to_collect_is_to_explore_and_to_keep_it(name, tmp_path):
    """Writing things down changes nothing of what is done."""
    make, settings = (SINGLE | MANY)[name]
    _, found, _ = collected(name, tmp_path / "out")
    run = rc.explore(make(), 2.0, 500, **settings)
    assert np.array_equal(run.moves, found.run.moves)
    assert np.array_equal(run.last_states, found.run.last_states)
    assert run.divergence == found.run.divergence or math.isnan(run.divergence)


def test_another_seed_gives_another_data_set(tmp_path):
    (_, one, _), (_, two, _) = (collected("a limit", tmp_path / str(k), seed=k) for k in range(2))
    assert moves_of_run(one.run) != moves_of_run(two.run)


@pytest.mark.parametrize("rho", tiered([0.0, 1.0, math.inf]))
def test_any_rho_is_collected_for_and_named(rho, tmp_path):
    found = rc.collect(Ring(), rho, 300, out=tmp_path / "out", **LEARNED)
    assert found.datasheet["settings"]["rho"] == repr(rho)
    assert found.path.is_dir()


# --- the folder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiered(["FrozenLake, known", "rings, next step"]))
def test_the_folder_holds_the_parts_that_the_manifest_names_and_the_datasheet(name, tmp_path, real_pages):
    _, found, _ = collected(name, tmp_path / "out")
    files = {path for path, digest in contents(tmp_path / "out").items() if digest}
    assert files == {
        "manifest.json", "datasheet.json", "datasheet.html",
        *(f"parts/{part.name}" for part in load_manifest(tmp_path / "out").parts),
    }  # fmt: skip
    assert found.load().count_rows() == found.num_steps
    assert found.page == tmp_path / "out" / "datasheet.html"
    page = found.page.read_text("utf-8")
    assert "<html" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_datasheet_in_a_minari_data_set_is_the_one_of_the_collection(tmp_path):
    _, found, _ = collected("MountainCar", tmp_path / "out")
    beside = json.loads((tmp_path / "out" / "datasheet.json").read_text("utf-8"))
    folder = Path(found.to_minari().storage.data_path)
    inside = json.loads((folder / "metadata.json").read_text("utf-8"))["rhocover"]
    assert beside == inside == json.loads(json.dumps(found.datasheet))
    assert {"verdict", "coverage", "uniform_random_worst_ratio", "settings", "repeat", "versions"} <= set(
        beside
    )
    assert beside["settings"]["seed"] == 0
    assert beside["versions"]["gymnasium"] == gym.__version__


def test_the_datasheet_gives_the_command_that_it_is_told(tmp_path, real_pages):
    found = rc.collect(Ring(), 2.0, 100, out=tmp_path / "out", command="rhocover collect ring", **LEARNED)
    assert found.datasheet["repeat"] == "rhocover collect ring"
    assert "rhocover collect ring" in found.page.read_text("utf-8")


def test_nothing_is_written_outside_of_out(tmp_path, elsewhere):
    collected("FrozenLake, known", tmp_path / "out")
    with pytest.raises(rc.errors.EnvironmentFailedError):
        rc.collect(Failing(Ring(), 90), 2.0, 300, out=tmp_path / "failed", **LEARNED)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "failed"}
    assert set(contents(elsewhere)) == {"home", "minari", "here"}


def test_an_existing_folder_is_never_overwritten(tmp_path):
    _, _, _ = collected("a limit", tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(
        InvalidArgumentError, match=r"already contains a collection. It is finished: name another folder"
    ):
        collected("a limit", tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match=r"is finished.*top_up"):
        collected("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("all of it")
    with pytest.raises(InvalidArgumentError, match="new or empty folder"):
        collected("a limit", tmp_path / "other")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidArgumentError, match="`out`"):
        collected("a limit", tmp_path / "file")
    assert (tmp_path / "other" / "thesis.tex").read_text() == "all of it"


def test_an_empty_folder_and_folders_yet_to_be_made_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    collected("a limit", tmp_path / "empty", 50)
    collected("a limit", tmp_path / "a" / "b" / "c", 50)
    assert (tmp_path / "a" / "b" / "c" / "datasheet.json").is_file()


@pytest.mark.parametrize("name", ["/tmp/evil-v0", "../evil-v0", "a/../../evil-v0", "", "no version", 3])
def test_ids_that_lead_out_of_the_folder_are_refused_before_anything_is_made(name, tmp_path):
    with pytest.raises(InvalidArgumentError, match="`dataset_id`"):
        rc.collect(Ring(), 2.0, 50, out=tmp_path / "out", dataset_id=name, **LEARNED)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", [None, 3, b"out"])
def test_out_must_be_the_name_of_a_folder(out, elsewhere):
    with pytest.raises(InvalidArgumentError, match="`out` must be the name of a folder"):
        rc.collect(Ring(), 2.0, 50, out=out, **LEARNED)
    assert set(contents(elsewhere)) == {"home", "minari", "here"}


def test_what_is_refused_leaves_no_folder(tmp_path):
    out = tmp_path / "out"
    for wrong in ({"num_steps": 0}, {"rho": -1.0}, {"explorer": "nobody"}, {"mu": np.ones(3)}):
        settings = {"rho": 2.0, "num_steps": 50, **LEARNED, **wrong}
        with pytest.raises(InvalidArgumentError):
            rc.collect(Ring(), out=out, **settings)
    with pytest.raises(InvalidArgumentError):
        rc.collect(gym.make("MountainCar-v0"), 2.0, 50, out=out, **LEARNED)
    assert not out.exists()


@pytest.mark.parametrize("package", ["minari", "h5py"])
def test_without_minari_a_collection_is_made_and_read_but_not_exported(package, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    found = rc.collect(Ring(), 2.0, 50, out=tmp_path / "out", **LEARNED)
    assert rc.audit(found.path).num_steps == 50
    with pytest.raises(MissingExtraError, match=r"pip install 'rhocover\[minari\]'"):
        found.to_minari()


def test_progress_is_reported_up_to_the_end(tmp_path):
    seen: list[tuple[int, int]] = []
    rc.collect(
        Ring(), 2.0, 500, out=tmp_path / "out", report=lambda *numbers: seen.append(numbers), **LEARNED
    )
    assert seen[-1] == (500, 500)
    assert [a for a, _ in seen] == sorted(a for a, _ in seen)
    assert len(seen) > 3


def test_the_environments_own_words_go_with_the_data(tmp_path):
    """An environment without a spec, and one made with arguments that no JSON holds, are named all the same."""
    found = rc.collect(Ring(), 2.0, 50, out=tmp_path / "ring", **LEARNED)
    assert found.datasheet["settings"]["environment"] == "Ring"
    gym.register("Secret-v0", entry_point=lambda what: Ring())
    try:
        odd = rc.collect(gym.make("Secret-v0", what=object()), 2.0, 50, out=tmp_path / "odd", **LEARNED)
    finally:
        del gym.registry["Secret-v0"]
    assert "Secret-v0" in odd.datasheet["settings"]["environment"]


def test_moves_by_hand_are_the_moves_of_the_data_set(tmp_path):
    env = Counted(limited(5))
    found = rc.collect(env, 2.0, 400, out=tmp_path / "out", **LEARNED)
    again = rc.audit(found.path, 2.0).tally
    moves = again.moves.tocoo()
    rows, columns = (c.tolist() for c in moves.coords)
    A = again.num_actions
    went_on = Counter(
        {(again.keys[r // A], r % A, again.keys[c]): n
         for r, c, n in zip(rows, columns, moves.data.tolist(), strict=True)}
    )  # fmt: skip
    by_hand: Counter = Counter()
    ends: Counter = Counter()
    for (state, action, after), entry in zip(
        moves_of(env.paper), [e for e in env.paper if e[0] == "step"], strict=True
    ):
        if entry[3]:
            ends[state, action] += 1
        else:
            by_hand[state, action, after] += 1
    assert went_on == by_hand
    assert ends == Counter(
        {(again.keys[p // A], p % A): int(again.ends[p]) for p in np.flatnonzero(again.ends)}
    )


def test_a_collection_over_bins_says_how_many_of_them_it_met(tmp_path):
    """MountainCar from the valley, 300 steps: most of 132 bins are never met, and nothing calls that complete."""
    found = rc.collect(
        gym.make("MountainCar-v0"), 2.0, 300, states=CAR, model="learned", out=tmp_path / "car"
    )
    assert found.audit.met is not None
    assert found.audit.met.total == 132
    assert found.audit.num_pairs == 3 * 132
    assert not found.audit.is_complete
    assert found.audit.worst_ratio == math.inf
    said = f"({found.audit.met.number} of 132 bins were met)"
    assert said in found.verdict
    assert said in found.datasheet["verdict"]
    assert page_of_collection(found).verdict.word == "Coverage is incomplete"
    assert rc.audit(found.path).verdict == found.verdict
