"""Runs in environments never claim what they did not see: what is covered, how well, and by which model."""

from __future__ import annotations

import json
import math
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from toy_environments import CAR, Counted, Ring, limited

import rhocover as rc
from rhocover.collecting.state_index import KEPT_STEPS
from rhocover.errors import InvalidArgumentError
from rhocover.learning.markov import FALSE_ALARM
from rhocover.report.pages.rendering import page_html
from rhocover.report.pages.run import page_of_run
from tiers import tiered

INF = math.inf
COARSE = rc.Bins((3, 3))
pytestmark = pytest.mark.filterwarnings("ignore:The codes are too coarse")  # which they are, on purpose


def car(mu=None, *, rho: float = 2.0, num_steps: int = 2000, bins=COARSE, **more):
    return rc.explore(gym.make("MountainCar-v0"), rho, num_steps, mu, states=bins, model="learned", **more)


def told_everywhere(run) -> str:
    """Returns all that is told of a run: as text, as JSON and as a page."""
    page = page_html(page_of_run(run, certificate=run.certificate(), evidence=run.evidence()))
    return " ".join([str(run), json.dumps(run.summary()), page, str(run.evidence()), run.coverage_text])


# --- what there is to be covered ------------------------------------------------------------------------


def test_weights_on_a_bin_that_was_never_met_are_not_covered():
    """The car never is at the right end at full speed to the left; the run said that this was complete."""
    mu = np.zeros((9, 3))
    mu[6] = 1.0
    run = car(mu)
    assert 6 not in run.tally.keys
    assert not run.is_complete
    assert run.coverage_text.startswith("incomplete (0 of 3 pairs; ")
    assert run.divergence == run.worst_ratio == run.gap == run.certificate().gap == INF
    assert run.visited_divergence == run.visited_worst_ratio == INF
    assert run.num_missing == run.trace.num_weighted == 3


def test_bins_that_were_not_met_count_as_not_visited():
    run = car(bins=CAR)
    num_bins, num_met = 12 * 11, run.num_states_met
    assert num_met == len(run.tally.keys) < num_bins
    tried = int((run.tally.counts > 0).sum())
    assert run.coverage_text == (
        f"incomplete ({tried} of {3 * num_bins} pairs; {num_met} of {num_bins} bins met)"
    )
    assert run.num_missing == 3 * num_bins - tried
    assert run.summary()["scope"]["num_possible"] == num_bins
    assert f"{num_met} of {num_bins} bins met" in told_everywhere(run)
    assert f"{num_met} of {num_bins} bins were met" in str(run.evidence())


def test_where_nobody_knows_the_states_coverage_is_of_those_met_and_never_complete():
    """All pairs of seven states have many visits, and a function may always show an eighth state."""
    run = rc.explore(Ring(), 2.0, 4000, states=int, model="learned")
    assert run.tally.counts.min() > 0
    assert run.is_open
    assert not run.is_complete
    assert run.coverage_text == (
        "21 of 21 pairs of the 7 states met so far (whether there are others is not known)"
    )
    assert math.isfinite(run.divergence)
    assert run.gap == run.certificate().gap == INF
    assert "coverage complete" not in told_everywhere(run)
    assert "coverage cannot be called complete" in told_everywhere(run)


def test_numbers_of_a_space_that_were_never_met_leave_it_open_whether_they_are_states():
    """CliffWalking has 48 numbers: 37 states, the goal, where episodes end, and ten that are never shown."""
    run = rc.explore(gym.make("CliffWalking-v1"), 2.0, 6000, model="learned")
    assert run.num_states_met == 37
    assert run.is_open
    assert (
        "37 states met so far (there may be 48, 1 of them met only as ends of episodes)" in run.coverage_text
    )
    lake = rc.explore(gym.make("FrozenLake-v1"), 2.0, 4000, model="learned")
    assert lake.is_complete
    assert lake.coverage_text == (
        "complete (44 of 44 pairs; 16 of 16 states met, 5 of them met only as ends of episodes)"
    )


def test_weights_by_a_rule_leave_open_what_bins_that_were_not_met_weigh():
    run = car("transition_std")
    assert run.is_open
    assert not run.is_complete
    assert f"{run.num_states_met} bins met so far (there are 9)" in run.coverage_text


def test_a_state_that_was_only_led_to_is_met_and_its_pairs_are_missing():
    """One step: the state it led to was met, and nothing was tried there."""
    run = rc.explore(Ring(), 2.0, 1, model="learned")
    assert run.num_states_met == len(run.tally.keys)
    assert run.num_missing == 3 * run.num_states_met - 1


# --- figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered([0.0, 0.5, 1.0, 2.0, INF], short=[2.0]))
def test_figures_are_over_all_pairs_with_a_weight_met_or_not(rho):
    """By hand: nine bins of three actions, equal weights, those never met with no visit."""
    run = car(rho=rho, num_steps=1500)
    counts = np.zeros((9, 3))
    counts[list(run.tally.keys)] = run.tally.counts
    shares, coverage = counts / 1500, rc.Coverage(rho, np.ones((9, 3)))
    assert run.divergence == pytest.approx(coverage.divergence(shares), rel=1e-12)
    assert (run.divergence == INF) == (rho >= 1)
    assert run.worst_ratio == coverage.worst_ratio(shares) == INF
    part = rc.Coverage(rho, (counts > 0).astype(float))
    assert run.visited_divergence == pytest.approx(part.divergence(shares), rel=1e-12)
    assert run.visited_worst_ratio == pytest.approx(part.worst_ratio(shares), rel=1e-12)


@pytest.mark.parametrize("name", ["bins", "a lake"])
def test_an_incomplete_run_is_not_compared_with_the_best_of_other_pairs(name):
    """It printed a worst ratio of 15.1 beside 17.6 of the best plan, for 199 of 200 pairs."""
    lake = gym.make("FrozenLake-v1", map_name="8x8")
    run = car() if name == "bins" else rc.explore(lake, 2.0, 3000, model="learned")
    assert run.num_missing > 0
    assert not run.is_comparable
    assert run.gap == run.certificate().gap == run.certificate().plug_in_gap == INF
    assert np.isnan(run.trace["divergence"]).all()
    assert "best plan at this rho" not in str(run)
    assert "there is no best to compare with" in str(run)
    summary = run.summary()
    assert summary["divergence"] == summary["worst_ratio"] == summary["gap"] == "inf"
    assert summary["best_divergence"] is summary["best_worst_ratio"] is None
    assert math.isfinite(summary["visited_worst_ratio"])
    assert "best plan" not in page_html(page_of_run(run)).split("<footer")[0].split("plan</dt>")[0]


def test_a_run_whose_pairs_are_all_in_the_model_that_was_seen_is_compared_with_its_best():
    run = rc.explore(Ring(), 2.0, 4000, model="learned")
    assert run.is_complete
    assert run.is_comparable
    assert run.divergence == run.trace["divergence"][-1]
    assert run.worst_ratio == run.trace["worst_ratio"][-1]
    assert f"best {run.best.divergence:.6g}" in str(run)
    assert run.summary()["best_divergence"] == run.best.divergence


@pytest.mark.parametrize("explorer", tiered(["feedback", "uniform_random"]))
@pytest.mark.parametrize("num_steps", tiered([5, 20_000]))
def test_the_gap_and_the_certificate_agree_about_what_is_infinite(explorer, num_steps):
    """Who is told of all states can certify a gap once all were visited; who is not never can."""
    run = rc.explore(Ring(), 2.0, num_steps, model="learned", explorer=explorer)
    assert run.gap == run.certificate().gap
    assert math.isfinite(run.gap) == (explorer == "uniform_random" and num_steps > 5)
    assert np.isinf(run.trace["gap"][np.isfinite(run.trace["divergence"])]).all()


# --- what a run can be asked ------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["model_error", "planning_regret"])
def test_what_needs_the_truth_is_refused_where_nobody_knows_it(ask):
    """It compared the model that was seen with itself, and found no error."""
    run = rc.explore(gym.make("FrozenLake-v1"), 2.0, 300, model="learned")
    with pytest.raises(
        InvalidArgumentError, match=rf"`{ask}` needs the true.*from_gymnasium.*SmallModelError"
    ):
        getattr(run, ask)()
    known = rc.explore(gym.make("FrozenLake-v1"), 2.0, 300)
    assert known.model_error().l1_mean > 0


WORLDS = {
    "a lake": lambda: (gym.make("FrozenLake-v1"), {"model": "learned"}),
    "a lake that is known": lambda: (gym.make("FrozenLake-v1"), {}),
    "a short lake that is known": lambda: (gym.make("FrozenLake-v1", max_episode_steps=4), {}),
    "a ring that is cut": lambda: (limited(6), {"model": "learned"}),
    "a lake, whose states an explorer is told of": lambda: (
        gym.make("FrozenLake-v1"), {"model": "learned", "explorer": "uniform_random"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("world", tiered(WORLDS))
def test_the_tally_of_a_run_has_its_own_episodes_ends_and_starts(world):
    """Counted by hand from what the environment was asked and said."""
    env, settings = WORLDS[world]()
    env = Counted(env)
    run = rc.explore(env, 2.0, 700, **settings)
    starts, ends, moves, cut, shown, length = Counter(), Counter(), Counter(), 0, None, 0
    for entry in env.paper:
        if entry[0] == "reset":
            shown, length = entry[2], 0
            continue
        _, action, after, terminated, truncated = entry
        starts[shown] += length == 0
        length += 1
        ends[shown, action] += terminated
        moves[shown, action, after] += not terminated
        cut += truncated and not terminated
        shown = after
    tally, A = run.tally, run.tally.num_actions
    open_end = not (env.paper[-1][0] == "reset" or env.paper[-1][3] or env.paper[-1][4])
    assert tally.num_episodes == starts.total() > 1
    assert tally.num_truncated == cut + open_end
    assert {k: n for k, n in zip(tally.keys, tally.starts.tolist(), strict=True) if n} == +starts
    counted = {(tally.keys[i // A], i % A): n for i, n in enumerate(tally.ends.tolist()) if n}
    assert counted == +ends
    found = tally.moves.tocoo()
    places = zip(*(c.tolist() for c in found.coords), found.data.tolist(), strict=True)
    assert {(tally.keys[r // A], r % A, tally.keys[c]): n for r, c, n in places} == +moves
    assert tally.num_steps == 700
    assert set(tally.keys) | set(tally.end_keys) == {entry[2] for entry in env.paper}


def test_the_tally_of_a_run_is_that_of_the_data_it_left(tmp_path):
    for name, settings in {"known": {}, "learned": {"model": "learned"}}.items():
        found = rc.collect(gym.make("FrozenLake-v1"), 2.0, 900, out=tmp_path / name, **settings)
        run, data = found.run.tally.over(sorted(found.run.tally.keys)), found.tally
        data = data.over(run.keys)
        assert (run.moves != data.moves).nnz == 0
        for part in ("ends", "starts"):
            assert np.array_equal(getattr(run, part), getattr(data, part))
        assert (run.num_episodes, run.num_truncated) == (data.num_episodes, data.num_truncated)
        assert set(run.end_keys) == set(data.end_keys)


def test_evidence_names_states_and_actions_and_says_nothing_empty():
    run = car(num_steps=3000, bins=rc.Bins((6, 5), names=("place", "speed")))
    text, found = str(run.evidence()), run.evidence()
    assert found.unvisited
    assert found.unvisited_names == tuple(run.tally.pair_name(pair) for pair in found.unvisited)
    assert all(run.tally.counts.ravel()[pair] == 0 for pair in found.unvisited)
    assert found.unvisited_names[0].startswith("((place ")
    assert found.unvisited_names[0] in text
    assert "0 times" not in text
    river = rc.explore(rc.envs.river_swim(), 2.0, 6, model="learned").evidence()
    assert f"never visited ({rc.envs.river_swim().pair_name(river.unvisited[0])}" in str(river)
    told = rc.explore(Ring(), 2.0, 3, model="learned", explorer="uniform_random").evidence()
    assert set(told.unmet) <= set(range(7))
    assert told.unmet_names == tuple(map(str, told.unmet))


# --- states that are not Markov ---------------------------------------------------------------------------


def test_coarse_bins_of_a_car_are_said_not_to_be_markov_wherever_the_run_is_told():
    """The car is carried on by a speed that three bins do not show."""
    run = car(num_steps=10_000)
    assert run.markov.is_found
    assert run.markov.p_value < FALSE_ALARM
    assert 0 < run.markov.standard_error < run.markov.information
    [remark] = run.not_markov
    assert "not Markov" in remark
    assert "as if they were Markov" in remark
    assert f"{run.markov.information:.2g} ± " in remark
    assert remark in str(run)
    page = page_html(page_of_run(run))
    assert "The states are not Markov" in page
    found = run.summary()["markov"]
    assert found["is_refuted"]
    assert found["p_value"] == run.markov.p_value
    assert found["planned_distance"] == run.planned_distance


TABLES = ("FrozenLake-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4")


@pytest.mark.parametrize("settings", tiered([{}, {"model": "learned"}]), ids=["known", "learned"])
@pytest.mark.parametrize("name", tiered(TABLES))
def test_tables_are_markov_and_nothing_is_said(name, settings):
    """Each may fail with probability 1e-3 at most, whatever the explorer does: fixed seeds, all together 8e-3."""
    run = rc.explore(gym.make(name), 2.0, 5000, **settings)
    assert not run.markov.is_found
    assert run.remarks == ()
    assert "Markov" not in str(run)
    assert run.summary()["markov"]["is_refuted"] is False


class Echo(gym.Env):
    """A fair coin that shows each throw twice: seen side by side it remembers."""

    def __init__(self):
        self.observation_space, self.action_space = spaces.Discrete(3), spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.side, self.is_new = 0, 1, True
        return 0, {}

    def step(self, action):
        """Air, side, air, the same side, air, another throw."""
        if self.at != 0:
            self.at = 0
        else:
            self.side = int(self.np_random.integers(1, 3)) if self.is_new else self.side
            self.at, self.is_new = self.side, not self.is_new
        return self.at, 0.0, False, False, {}


def test_what_is_found_is_found_in_copies_as_in_one():
    one = rc.explore(Echo(), 2.0, 3000, model="learned")
    many = gym.vector.SyncVectorEnv([Echo] * 3)
    several = rc.explore(many, 2.0, 3000, model="learned")
    assert one.markov.is_found
    assert several.markov.is_found
    assert one.markov.num_steps == several.markov.num_steps == 3000


def test_a_certificate_of_states_that_are_not_markov_says_that_it_supposes_them_to_be():
    """Who is told of the three states gets a finite gap: of a chain that is not the coin's."""
    run = rc.explore(Echo(), 2.0, 3000, model="learned", explorer="uniform_random")
    found = run.certificate()
    assert math.isfinite(found.gap)
    assert "if these states were Markov, which they are not" in str(found)
    assert "Markov" not in str(
        rc.explore(Ring(), 2.0, 3000, model="learned", explorer="uniform_random").certificate()
    )


def test_steps_are_kept_one_by_one_up_to_a_bound(monkeypatch):
    whole = rc.explore(limited(6), 2.0, 1200, model="learned")
    monkeypatch.setattr("rhocover.collecting.state_index.KEPT_STEPS", 500)
    run = rc.explore(limited(6), 2.0, 1200, model="learned")
    assert run.markov.num_steps == 500 < whole.markov.num_steps == 1200 < KEPT_STEPS
    assert run.tally.num_episodes == whole.tally.num_episodes >= 200


# --- data sheets ------------------------------------------------------------------------------------------


def collect_car(out, bins=COARSE, **more):
    return rc.collect(gym.make("MountainCar-v0"), 2.0, 6000, states=bins, model="learned", out=out, **more)


def test_a_datasheet_says_what_was_not_met_and_that_states_are_not_markov(tmp_path, real_pages):
    found = collect_car(tmp_path / "car")
    sheet = json.loads((tmp_path / "car" / "datasheet.json").read_text())
    met = found.run.num_states_met
    assert met < 9
    assert found.audit.num_pairs == 27
    assert found.audit.num_missing == found.run.num_missing == 27 - (found.tally.counts > 0).sum()
    assert found.verdict == sheet["verdict"]
    assert f"{met} of 9 bins were met" in sheet["verdict"]
    assert sheet["coverage"]["worst_ratio"] == sheet["scope"]["worst_ratio"] == "inf"
    assert sheet["uniform_random_worst_ratio"] is None
    assert sheet["coverage"]["thin"][0]["count"] == 0
    assert found.audit.certificate.gap == INF
    assert sheet["scope"]["num_met"] == met
    assert sheet["markov"]["is_refuted"]
    page = (tmp_path / "car" / "datasheet.html").read_text()
    assert f"{met} of 9 bins met" in page
    assert "The states are not Markov" in page


def test_shares_of_thin_pairs_are_of_all_that_was_to_be_covered(tmp_path):
    found = collect_car(tmp_path / "car", seed=2)
    shares = {pair.name: pair.share for pair in found.audit.thin if pair.count}
    assert shares
    names = [found.tally.pair_name(pair) for pair in range(found.tally.counts.size)]
    for name, share in shares.items():
        assert share == pytest.approx(found.tally.counts.ravel()[names.index(name)] / 6000 * 27)


def test_a_verdict_where_states_are_unknown_is_of_those_met(tmp_path):
    found = rc.collect(Ring(), 2.0, 3000, states=int, model="learned", out=tmp_path / "ring")
    assert found.verdict.startswith("Covers all 21 pairs of the 7 states in the data; ")
    told = found.datasheet["scope"]["text"]
    assert told == "21 of 21 pairs of the 7 states met so far (whether there are others is not known)"
    whole = rc.collect(Ring(), 2.0, 3000, model="learned", out=tmp_path / "whole")
    assert whole.verdict.startswith("Covers all 21 pairs")
    assert whole.datasheet["scope"]["text"] == "complete (21 of 21 pairs; 7 of 7 states met)"


@pytest.mark.thorough
def test_what_is_said_of_memory_survives_an_interruption_to_the_bit(tmp_path):
    def stop(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    whole = collect_car(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        collect_car(tmp_path / "car", report=stop)
    again = collect_car(tmp_path / "car", resume=True)
    assert again.datasheet == whole.datasheet
    assert again.run.markov == whole.run.markov
    sheets = [(tmp_path / name / "datasheet.json").read_bytes() for name in ("car", "whole")]
    assert sheets[0] == sheets[1]
