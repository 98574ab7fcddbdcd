"""Pictures of runs show the numbers of the runs, beside what is possible, and every word can be read."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from test_figures import is_legible

import rhocover as rc
from rhocover.errors import InvalidArgumentError
from rhocover.experiments.comparison import comparison_regret_figure, comparison_worst_ratio_figure
from rhocover.exploring import explorer_names
from rhocover.exploring.explorers.registry import CLASSES, VARIANTS
from rhocover.report.figures import decades, save_figure, snapshot_figure, snapshots, visit_ratio
from rhocover.report.figures.lines import (
    CITED,
    COLOURS,
    colours_of,
    count_text,
    curve_of,
    curves_of_runs,
    display_name,
    spread,
)
from rhocover.report.figures.over_time import regret_figure, run_figure, worst_ratio_figure
from tiers import tiered

pytestmark = pytest.mark.thorough  # every test makes runs and draws them

STEPS = np.array([1, 10, 100, 1_000, 10_000])
NAMES = ("feedback", "tracking", "stationary", "algorithm1", "algorithm1_short", "algorithm1_adaptive")


def line(figure: Figure, gid: str, panel: int = 0) -> np.ndarray:
    """Returns the heights of a line by its name."""
    found = next(line for line in figure.axes[panel].lines if line.get_gid() == gid)
    return np.asarray(found.get_ydata(), float)


def has_line(figure: Figure, gid: str) -> bool:
    return any(line.get_gid() == gid for line in figure.axes[0].lines)


def words(figure: Figure) -> set[str]:
    return {text.get_text() for axes in figure.axes for text in axes.texts} | {
        text.get_text() for text in figure.texts
    }


def falling(exponent: float, scale: float = 1.0, seeds: int = 5, begin: int = 1):
    """Returns a curve that falls as a power of the steps, complete from row `begin` on."""
    noise = np.exp(np.random.default_rng(0).normal(0, 0.3, (seeds, STEPS.size)))
    values = scale * STEPS.astype(float) ** exponent * noise
    values[0, :begin] = np.nan
    return curve_of(STEPS, values)


@pytest.fixture(scope="module")
def found():
    return rc.compare(
        "river_swim", ["feedback", "algorithm1"], rho=[2, np.inf], num_steps=1000, seeds=3, workers=1
    )


@pytest.fixture(scope="module")
def run():
    return rc.explore(rc.envs.river_swim(), 2.0, 2000)


# --- curves -----------------------------------------------------------------------------------------


def test_a_curve_of_runs_is_that_of_their_traces():
    mdp = rc.envs.river_swim()
    runs = [rc.explore(mdp, 2, 300, explorer=e, seed=k) for e in ("feedback", "tracking") for k in range(3)]
    curves = curves_of_runs(runs, "least_count")
    assert list(curves) == ["feedback", "tracking"]
    expected = np.mean([run.trace["least_count"] for run in runs[3:]], axis=0)
    np.testing.assert_allclose(curves["tracking"].mean, expected, rtol=1e-15)
    with pytest.raises(InvalidArgumentError, match="one grid of steps"):
        curves_of_runs([runs[0], rc.explore(mdp, 2, 301)], "regret")
    with pytest.raises(InvalidArgumentError, match="got none"):
        curves_of_runs([], "regret")


def test_a_value_beyond_float64_is_drawn_off_the_paper_not_hidden():
    curve = curve_of([1, 2], [[np.inf, 1.0], [1.0, 3.0]])
    assert curve.mean.tolist() == [np.inf, 2.0]
    assert curve.num_incomplete.tolist() == [0, 0]


# --- names at line ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [[0.5], [0.5, 0.5, 0.5], [0.0, 0.01, 0.02, 0.9], [0.97, 0.99, 1.0], []])
def test_names_stay_in_order_apart_and_on_the_axes(wanted):
    places = spread(np.array(wanted), 0.06)
    assert (np.diff(places) >= 0.06 - 1e-12).all()
    assert ((places >= 0) & (places <= 1)).all()


def test_names_that_have_room_do_not_move():
    np.testing.assert_allclose(spread(np.array([0.1, 0.3, 0.8]), 0.06), [0.1, 0.3, 0.8], atol=1e-15)


def test_names_in_each_others_way_move_by_the_same_amount_up_and_down():
    np.testing.assert_allclose(spread(np.array([0.5, 0.5]), 0.1), [0.45, 0.55], atol=1e-15)


def test_every_explorer_has_a_colour_of_its_own():
    names = [*explorer_names(), "mine", "yours"]
    assert len(set(colours_of(names).values())) == len(names)
    assert {*CLASSES, *VARIANTS} == set(COLOURS) == set(NAMES)
    assert set(explorer_names()) == set(COLOURS) | set(CITED)


def test_the_names_of_all_explorers_fit_beside_their_lines():
    curves = {name: falling(-0.2 - 0.1 * k) for k, name in enumerate(explorer_names())}
    figure = regret_figure(curves, kappa_min=1.0, title="All of them")
    assert {display_name(name) for name in curves} <= words(figure)
    assert is_legible(figure)


def test_steps_are_written_out_up_to_a_hundred_thousand():
    assert [count_text(10.0**k) for k in (2, 4, 5, 6, 9)] == [
        "100",
        "10,000",
        "100,000",
        "$10^{6}$",
        "$10^{9}$",
    ]
    assert count_text(5e6) == r"$5\cdot 10^{6}$"


# --- regret -----------------------------------------------------------------------------------------


def test_the_regret_figure_shows_means_bands_and_both_guides():
    curves = {"feedback": falling(-1.5), "algorithm1": falling(-0.4)}
    figure = regret_figure(curves, kappa_min=3.0, theorem_for="algorithm1", title="Regret")
    np.testing.assert_array_equal(line(figure, "feedback"), curves["feedback"].mean)
    bands = figure.axes[0].collections
    corners = {tuple(point) for path in bands[0].get_paths() for point in path.vertices}
    assert (10.0, curves["feedback"].low[1]) in corners
    assert (10.0, curves["feedback"].high[1]) in corners
    guide = line(figure, "limit")
    assert guide[-1] == pytest.approx(3.0 / 10_000, rel=1e-15)
    theorem = line(figure, "theorem")
    slope = np.log(theorem[-1] / theorem[0]) / np.log(10_000 / 1_000)
    assert slope == pytest.approx(-1 / 3, rel=1e-12)  # a straight line in logarithms
    assert (theorem > curves["algorithm1"].high[-2:]).all()
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "steps taken"
    assert {"feedback", "Algorithm 1"} <= words(figure)
    assert is_legible(figure)


@pytest.mark.parametrize("exponents", [(-0.5,) * 6, (-0.5, -0.51, -0.52, -1, -1.5, -2)])
@pytest.mark.parametrize("part", tiered(["regret", "bregman"]))
def test_six_explorers_that_end_together_are_still_told_apart(exponents, part):
    curves = {name: falling(exponent) for name, exponent in zip(NAMES, exponents, strict=True)}
    figure = regret_figure(curves, kappa_min=1.0, theorem_for="algorithm1", part=part, title="A " * 60)
    assert is_legible(figure)
    assert is_legible(worst_ratio_figure(curves, best=0.01, title="A " * 60))


def test_guides_are_left_out_where_there_are_none():
    figure = regret_figure({"feedback": falling(-1)}, theorem_for=None)
    assert not has_line(figure, "limit")
    assert not has_line(figure, "theorem")


@pytest.mark.parametrize("seeds", [1, 4])
def test_curves_that_never_begin_give_an_empty_picture(seeds):
    curves = {name: curve_of(STEPS, np.full((seeds, 5), np.nan)) for name in ("feedback", "algorithm1")}
    assert is_legible(regret_figure(curves, kappa_min=2.0, theorem_for="algorithm1"))
    assert is_legible(worst_ratio_figure(curves, best=2.0))


def test_a_wrong_part_and_no_curves_are_refused():
    with pytest.raises(InvalidArgumentError, match="'regret' or 'bregman'"):
        regret_figure({"feedback": falling(-1)}, part="gap")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="at least one curve"):
        regret_figure({})
    with pytest.raises(InvalidArgumentError, match="at least one curve"):
        worst_ratio_figure({})


def test_a_comparison_is_drawn_with_its_own_numbers(found):
    figure = comparison_regret_figure(found, "river_swim", 2, part="bregman")
    np.testing.assert_array_equal(
        line(figure, "algorithm1"), found.curve("river_swim", 2, "algorithm1", "bregman").mean
    )
    kappa = found.fact("river_swim", 2, "kappa_min")
    assert line(figure, "limit")[-1] == pytest.approx(kappa / 1000, rel=1e-15)
    assert has_line(figure, "theorem")
    at_infinity = comparison_regret_figure(found, "river_swim", np.inf)
    assert not has_line(at_infinity, "limit"), "there is no kappa_min at rho = inf"
    worst = comparison_worst_ratio_figure(found, "river_swim", np.inf)
    assert line(worst, "best")[0] == found.fact("river_swim", np.inf, "best_worst_ratio")
    assert all(map(is_legible, (figure, at_infinity, worst)))


# --- worst ratio ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1.001, 30.0, 1e5])
def test_the_ratio_axis_has_a_few_round_ticks_that_hold_every_line(scale):
    curves = {"feedback": curve_of(STEPS, scale * np.array([[4.0, 3, 2, 1.5, 1.3]]))}
    figure = worst_ratio_figure(curves, best=1.2 * scale)
    low, high = figure.axes[0].get_ylim()
    ticks = figure.axes[0].get_yticks()
    assert 2 <= len(ticks) <= 12
    assert low < 1.2 * scale
    assert high > 4 * scale
    assert is_legible(figure)


# --- one run ----------------------------------------------------------------------------------------


def test_the_figure_of_a_run_has_its_trace_beside_what_is_possible(run):
    figure = run_figure(run)
    for panel, name in enumerate(("divergence", "worst_ratio", "suboptimality")):
        np.testing.assert_array_equal(line(figure, name, panel), run.trace[name])
    assert line(figure, "best", 0)[0] == run.best.divergence
    assert line(figure, "best", 1)[0] == run.best.worst_ratio
    band = next(c for c in figure.axes[2].collections if c.get_gid() == "noise")
    corners = np.concatenate([path.vertices for path in band.get_paths()])
    last = corners[corners[:, 0] == 2000][:, 1]
    np.testing.assert_allclose(
        [last.min(), last.max()], np.array([-1, 1]) * run.trace.fluctuation[-1], rtol=1e-15
    )
    assert is_legible(figure)


@pytest.mark.parametrize(
    ("rho", "num_steps", "explorer"),
    tiered([(np.inf, 2000, "algorithm1"), (0.0, 2000, "tracking"), (2.0, 30, "feedback"), (2.0, 1, "stationary"),
     (8.0, 90, "feedback")]),
)  # fmt: skip
def test_the_figure_of_any_run_can_be_read(rho, num_steps, explorer):
    run = rc.explore(rc.envs.river_swim(), rho, num_steps, explorer=explorer)
    figure = run_figure(run)
    assert is_legible(figure)
    assert any(run.coverage_text in text for text in words(figure)) != run.is_complete


def test_a_run_that_saw_all_at_its_last_step_has_a_figure():
    mdp = rc.MDP([[[0.0, 1.0]], [[1.0, 0.0]]])
    assert is_legible(run_figure(rc.explore(mdp, 2.0, 2)))


# --- snapshots --------------------------------------------------------------------------------------


@pytest.mark.parametrize("explorer", ["feedback", "tracking", "algorithm1"])
def test_a_snapshot_is_the_beginning_of_the_longer_run(explorer):
    mdp = rc.envs.river_swim()
    whole = rc.explore(mdp, 2.0, 3000, explorer=explorer, seed=5, trace_points=1)
    for shot in snapshots(mdp, 2.0, decades(3000), explorer=explorer, seed=5):
        row = np.flatnonzero(whole.trace["steps"] == shot.num_steps)[0]
        for name in ("visited", "least_pair", "least_count", "divergence", "suboptimality"):
            np.testing.assert_equal(shot.trace[name][-1], whole.trace[name][row])


def test_a_snapshot_figure_has_a_map_for_each_time():
    mdp = rc.envs.four_rooms()
    runs = snapshots(mdp, 2.0, [100, 1000])
    figure = snapshot_figure(runs, "Coverage grows")
    assert [axes.get_title() for axes in figure.axes[:2]] == ["after 100 steps", "after 1,000 steps"]
    assert is_legible(figure)
    ratio = visit_ratio(runs[0])
    np.testing.assert_array_equal(np.isinf(ratio), runs[0].counts == 0)
    seen = runs[0].counts > 0
    np.testing.assert_allclose(ratio[seen], 100 / mdp.num_pairs / runs[0].counts[seen], rtol=1e-12)


def test_a_ratio_map_of_episodes_shows_the_worst_step():
    run = rc.explore(rc.envs.river_swim(), 2.0, 4000, horizon=6, restrict=False)
    assert run.is_complete
    assert visit_ratio(run).shape == (6, 2)
    assert visit_ratio(run).max() == pytest.approx(run.worst_ratio, rel=1e-12)


def test_decades_are_at_most_a_page_and_end_with_the_last_step():
    assert decades(50) == [50]
    assert decades(100) == [100]
    assert decades(10**9) == [10**4, 10**5, 10**6, 10**7, 10**8, 10**9]
    with pytest.raises(InvalidArgumentError, match="increasing numbers"):
        snapshots(rc.envs.wheel(), 2.0, [100, 10])
    with pytest.raises(InvalidArgumentError, match="got none"):
        snapshot_figure([])


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    for number in range(2):
        save_figure(run_figure(run), tmp_path / f"{number}.svg")
    assert (tmp_path / "0.svg").read_bytes() == (tmp_path / "1.svg").read_bytes()
