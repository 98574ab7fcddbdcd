"""Runs and data sets over codes say how far the codes may be trusted, and warn of those that may not."""

from __future__ import annotations

import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
from mazes import FINE, Maze, snake

import rhocover as rc
from rhocover.collecting.datasheet import page_of_collection
from rhocover.environments.encoding import read_state_code
from rhocover.environments.encoding.watching import MOST, Watch
from rhocover.errors import InvalidArgumentError, RhocoverWarning
from rhocover.learning.codes import SENTENCE
from rhocover.report.pages.audit import page_of_audit
from rhocover.report.pages.rendering import page_html
from rhocover.report.pages.run import page_of_run
from tiers import tiered

SIZE = 5
GRID = rc.Bins(FINE * SIZE, low=0, high=SIZE, of=[0, 1])  # the cells that a maze counts itself


class NoisyMaze(Maze):
    """A maze whose observations also hold numbers that have nothing to do with where the point is."""

    def __init__(self, is_wall: np.ndarray, num_random: int) -> None:
        super().__init__(is_wall)
        self.num_random = num_random
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2 + num_random,), np.float64)

    def _shown(self) -> np.ndarray:
        return np.concatenate([super()._shown(), self.np_random.normal(size=self.num_random)])


def explored(env, states, num_steps=3000, model="from_scratch", **more):
    return rc.explore(env, 2.0, num_steps, states=states, model=model, seed=0, **more)


def random_data(env, num_steps: int):
    """Returns (s, a, s_next, done) of random actions."""
    rng, shown = np.random.default_rng(0), [env.reset(seed=0)[0]]
    actions = rng.integers(env.action_space.n, size=num_steps)
    shown += [env.step(int(action))[0] for action in actions]
    return np.array(shown[:-1]), actions, np.array(shown[1:]), np.zeros(num_steps, bool)


def test_a_net_of_good_radius_is_diagnosed_without_a_warning():
    env = Maze(snake(SIZE))
    run = explored(env, rc.Net(), held_out=GRID)
    codes = run.codes
    assert codes.warning == ""
    assert str(codes).splitlines() == list(codes.lines)  # what a reader prints, not the fields
    assert codes.growth.num_codes == run.scope.num_met
    assert codes.growth.num_possible is None
    assert abs(codes.dimension.estimate - 2) < 0.5
    assert codes.dimension.num_numbers == 2
    assert codes.divergence <= run.divergence  # summing over actions loses something
    assert codes.upper_estimate >= codes.divergence
    for told in (str(run), json.dumps(run.summary(), ensure_ascii=False), page_html(page_of_run(run))):
        assert SENTENCE in told
        assert str(codes.held_out) in told


def test_held_out_cells_are_those_that_the_maze_counts():
    """The maze counts where steps lead; the run also counts where it began, which is one of those cells."""
    env = Maze(snake(SIZE))
    run = explored(env, rc.Net(), held_out=GRID)
    assert run.codes.held_out.num_codes == len(env.visited)
    assert run.codes.held_out.num_possible == (FINE * SIZE) ** 2


def test_a_held_out_code_changes_no_step():
    plain, beside = (explored(Maze(snake(SIZE)), rc.Net(), 500, held_out=code) for code in (None, GRID))
    assert (plain.tally.moves != beside.tally.moves).nnz == 0


@pytest.mark.parametrize("num_random", tiered([2, 3]))
def test_numbers_that_do_not_matter_make_a_code_too_fine(num_random):
    with pytest.warns(RhocoverWarning, match="too fine for 3,000 steps"):
        run = explored(NoisyMaze(snake(SIZE), num_random), rc.Net(0.4))
    assert run.codes.is_too_fine
    assert run.codes.dimension.estimate > 2.5


def test_choosing_what_matters_makes_a_code_good_again():
    run = explored(NoisyMaze(snake(SIZE), 2), rc.Net(0.5, of=[0, 1]))
    assert run.codes.warning == ""
    assert abs(run.codes.dimension.estimate - 2) < 0.5


def test_a_giant_radius_is_too_coarse():
    with pytest.warns(RhocoverWarning, match="too coarse: 100% of the steps stay"):
        run = explored(Maze(snake(SIZE)), rc.Net(50.0), 1500)
    assert run.codes.growth.num_codes == 1


@pytest.mark.parametrize(
    ("name", "states", "num_steps"),
    tiered(
        [("MountainCar-v0", rc.Bins(20), 3000), ("MountainCar-v0", rc.Bins(20), 10_000),
         ("FrozenLake-v1", None, 3000), ("Taxi-v4", None, 3000), ("CliffWalking-v1", None, 3000)],
        short=[("MountainCar-v0", rc.Bins(20), 3000), ("FrozenLake-v1", None, 3000)],
    ),
)  # fmt: skip
def test_there_is_no_false_alarm(name, states, num_steps):
    run = explored(gym.make(name), states, num_steps, "learned")
    assert (run.codes is None) == (states is None)
    if states is not None:
        assert run.codes.growth.num_possible == 400
        assert run.codes.growth.num_codes == run.num_states_met


def test_states_that_are_numbers_are_only_counted_by_what_is_held_out():
    run = explored(gym.make("FrozenLake-v1"), None, 500, "known", held_out=lambda state: int(state) // 4)
    assert run.codes.held_out.num_codes == 4
    assert SENTENCE not in str(run)
    assert "held out    4 codes so far" in str(run)


def test_codes_are_first_met_when_a_run_first_acts_in_them():
    run = explored(gym.make("MountainCar-v0"), rc.Bins(20), 2000, "learned")
    kept = run.episode_counts._kept
    states = np.concatenate([part[0] for part in kept])
    acted, first = np.unique(states, return_index=True)
    assert run.episode_counts.first_steps(acted.max() + 1)[acted].tolist() == first.tolist()
    assert run.codes.growth.num_new >= int((first >= 1000).sum())


def test_vector_environments_are_watched_too():
    env = gym.make_vec("MountainCar-v0", num_envs=3)
    run = explored(env, rc.Bins(20), 1500, "learned", held_out=rc.Bins(40))
    assert run.codes.growth.num_codes == run.num_states_met
    assert run.codes.held_out.num_codes >= run.num_states_met
    assert run.codes.dimension.num_points > 500


def test_a_collection_and_its_datasheet_are_diagnosed(tmp_path):
    env = Maze(snake(SIZE))
    found = rc.collect(
        env, 2.0, 1500, out=tmp_path / "out", states=rc.Net(), model="from_scratch", held_out=GRID
    )
    sheet = json.loads((tmp_path / "out" / "datasheet.json").read_text("utf-8"))
    assert sheet["codes"]["held_out"]["num_codes"] == len(env.visited)
    assert sheet["held_out"]["kind"] == "bins"
    assert SENTENCE in str(found)
    page = page_html(page_of_collection(found))
    assert page.count(SENTENCE) == 1
    assert str(found.audit.codes.held_out) in page


def test_an_audit_of_data_is_diagnosed_as_the_run_that_collected_them(tmp_path):
    run = rc.collect(
        Maze(snake(SIZE)), 2.0, 1500, out=tmp_path / "out", states=rc.Net(), model="from_scratch"
    )
    again = rc.audit(tmp_path / "out", held_out=GRID, best=False)
    mine, theirs = run.audit.codes, again.codes
    assert theirs.growth.num_codes == mine.growth.num_codes
    assert theirs.stays == pytest.approx(mine.stays)
    assert theirs.divergence == pytest.approx(mine.divergence)
    assert theirs.dimension.estimate == pytest.approx(mine.dimension.estimate, rel=0.2)
    assert theirs.held_out.num_possible == (FINE * SIZE) ** 2


@pytest.mark.parametrize("best", [True, False])
def test_an_audit_says_that_a_certificate_is_for_the_coded_model_only(best):
    data = random_data(Maze(snake(SIZE)), 3000)
    found = rc.audit(data, states=lambda shown: tuple(int(x) for x in shown), best=best)
    assert SENTENCE in str(found)
    assert SENTENCE in page_html(page_of_audit(found))
    if best:
        assert "for the coded model only" in found.certificate.condition
    numbers = rc.audit((data[1], data[1], data[1], data[3]), best=best)
    assert numbers.codes is None
    assert SENTENCE not in str(numbers)


@pytest.mark.filterwarnings("ignore:The codes are too coarse")
def test_an_audit_says_if_codes_are_not_markov():
    """Cells of 5 steps are left sooner if they were entered longer ago; a state and its action say all else."""
    steps = np.zeros(4000, np.int64)
    place = np.arange(4000) // 5 % 4  # five steps in each of four places
    data = place[:, None] + 0.5, steps, np.roll(place, -1)[:, None] + 0.5, steps > 0
    found = rc.audit(data, states=rc.Bins(4, low=0, high=4))
    assert found.codes.markov.is_found
    assert str(found.codes.markov) in str(found)
    assert found.certificate.condition.endswith(
        "for the coded model only and if these states were Markov, which they are not"
    )
    random = np.random.default_rng(0).integers(4, size=(4001, 1)) + 0.5
    plain = rc.audit((random[:-1], steps, random[1:], steps > 0), states=rc.Bins(4, low=0, high=4))
    assert not plain.codes.markov.is_found  # wrong with probability at most 1e-3, and the seed is fixed
    assert not plain.certificate.condition.endswith("not")


def test_a_run_says_which_code_is_visited_otherwise_than_planned():
    run = explored(Maze(snake(SIZE)), rc.Net())
    states = run.problem.mdp.pair_state
    planned, visited = (
        np.bincount(states, run.problem.d_star),
        np.bincount(states, run.visits) / run.visits.sum(),
    )
    most = int(np.argmax(np.abs(planned - visited)))
    told = f"{run.problem.mdp.state_labels[most]}: {planned[most]:.1%} planned, {visited[most]:.1%} visited"
    assert told in str(run)
    assert any(told in remark for remark in run.remarks)
    assert f"{run.planned_distance:.0%} of the visits are in other codes than planned" in str(run)


def test_the_command_line_counts_what_is_held_out(rhocover):
    asked = "MountainCar-v0 --states bins:12,11 --held-out bins:40 --model learned --rho 2 --steps 600"
    shown = rhocover(f"explore {asked}")
    assert shown.code == 0
    assert "of 1,600 bins" in " ".join(shown.out.split())
    assert SENTENCE in " ".join(shown.out.split())
    assert "coded model only" not in shown.out  # nothing is certified while pairs are missing
    stored = json.loads(rhocover(f"collect {asked} --out car --json").out)
    assert stored["parameters"]["held_out"] == "bins:40"
    assert stored["collection"]["codes"]["held_out"]["num_possible"] == 1600
    again = json.loads(rhocover("audit car --held-out bins:40 --no-best --json").out)
    counted = again["audit"]["codes"]["held_out"]["num_codes"]
    assert counted == stored["collection"]["codes"]["held_out"]["num_codes"]
    wrong = rhocover(f"explore {asked.replace('bins:40', 'grid')}")
    assert wrong.code == 2
    assert "`--held-out` must be like bins:12,11" in " ".join(wrong.err.split())
    assert "`--held-out` is for environments" in rhocover("explore river_swim --rho 2 --held-out bins:4").err


def test_audits_warn_of_codes_too():
    data = random_data(Maze(snake(SIZE)), 2000)
    with pytest.warns(RhocoverWarning, match="too coarse"):
        rc.audit(data, states=rc.Net(50.0).fit(data[0]), best=False)
    with pytest.warns(RhocoverWarning, match="too fine"):
        rc.audit(data, states=rc.Net(0.01).fit(data[0]), best=False)


def test_two_data_sets_of_codes_are_still_codes():
    data = random_data(Maze(snake(SIZE)), 1000)
    tally = rc.audit(data, states=rc.Bins(5, low=0, high=5), best=False).tally
    both = rc.audit(tally + tally, best=False)
    assert both.codes is not None
    assert both.codes.dimension is None
    assert SENTENCE in str(both)


def test_a_sample_does_not_depend_on_the_pieces():
    shown = np.random.default_rng(0).random((3 * MOST + 17, 2))
    code = read_state_code(rc.Bins(4, low=0, high=1), gym.spaces.Box(0, 1, (2,)))
    whole, parts, single = Watch(code), Watch(code), Watch(code)
    whole.see_all(shown)
    for piece in np.array_split(shown, [1, 5, 4000, 4001, 9000]):
        parts.see_all(piece)
    for one in shown:
        single.see(one)
    samples = [watch.coded().sample for watch in (whole, parts, single)]
    assert MOST / 2 <= len(samples[0].points) <= MOST
    assert all(np.array_equal(samples[0].points, sample.points) for sample in samples)
    assert np.array_equal(samples[0].points, shown[::4][: len(samples[0].points)])


def test_observations_that_are_no_numbers_have_no_sample():
    watch = Watch(read_state_code(lambda shown: shown["text"], gym.spaces.Dict({"text": gym.spaces.Text(3)})))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch.see({"text": "a"})
        assert watch.coded().sample is None


def test_bad_held_out_codes_are_refused_by_name():
    env = Maze(snake(SIZE))
    with pytest.raises(InvalidArgumentError, match="held_out"):
        explored(env, rc.Net(), 100, held_out="fine")
    with pytest.raises(Exception, match=r"`held_out`: .* failed on the observation"):
        explored(env, rc.Net(), 100, held_out=lambda shown: shown["nothing"])
    with pytest.raises(InvalidArgumentError, match="`held_out` is for environments"):
        rc.explore(rc.envs.river_swim(), 2.0, 100, held_out=GRID)
    data = random_data(env, 50)
    with pytest.raises(InvalidArgumentError, match="held_out"):
        rc.audit(data, states=rc.Bins(5, low=0, high=5), held_out=3)
    tally = rc.audit(data, states=rc.Bins(5, low=0, high=5), best=False).tally
    with pytest.raises(InvalidArgumentError, match="`held_out` is for observations"):
        rc.audit(tally, held_out=GRID)
