"""Pictures show the numbers they were given, on paper of the expected size, and leave nothing open."""

from __future__ import annotations

import struct
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from rhocover import MDP, Layout, envs, plan
from rhocover.environments.encoding import Bins, QuantileBins, read_state_code
from rhocover.errors import InvalidArgumentError
from rhocover.report.figures import (
    frontier_figure,
    maps,
    occupancy_figure,
    place,
    ratio_figure,
    save_figure,
    summary_figure,
)
from rhocover.report.figures.drawing import cells_of
from rhocover.report.figures.maps import occupancy_scale, ratio_scale
from rhocover.report.pages import Picture
from rhocover.report.pages.plan import page_of_plans
from tiers import tiered

DRAWN = ["river_swim", "noisy_river_swim", "wheel", "forked_river_swim", "four_rooms", "deep_sea", "garnet"]
MAPPED = DRAWN[:-1]  # garnet lies nowhere
LONG_TITLE = "A title that says which policy was run, on which model, for how many steps, and with which seed"
RHO = np.array([0.0, 1.0, 2.0, 8.0, np.inf])


def shares(mdp: MDP, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).random(mdp.num_pairs) + 0.1
    return values / values.sum()


def painted(figure: Figure, panel: int = 0) -> PolyCollection:
    """Returns the collection that carries the values of a panel."""
    return next(c for c in figure.axes[panel].collections if c.get_gid() == "values")


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


def is_legible(figure: Figure) -> bool:
    """Whether every text that is drawn lies on the paper and no two of them overlap."""
    canvas = FigureCanvasAgg(figure)
    boxes = [word.get_window_extent(canvas.get_renderer()) for word in drawn_words(canvas)]
    width, height = figure.get_size_inches() * figure.dpi
    are_inside = all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= width and b.y1 <= height for b in boxes)
    return are_inside and not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def drawn_words(canvas: FigureCanvasAgg) -> list[Text]:
    """Returns the texts that reach the paper; ticks off the axis have labels that do not."""
    words, draw = [], Text.draw

    def note(self: Text, renderer: object) -> None:
        words.append(self)
        draw(self, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", note)
        canvas.draw()
    return [word for word in words if word.get_text() and word.get_visible()]


# --- maps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiered(DRAWN))
def test_a_map_is_a_picture_of_the_expected_size_with_every_word_on_it(name, tmp_path):
    mdp = envs.make(name)
    for draw, values in ((occupancy_figure, shares(mdp)), (ratio_figure, 1 / shares(mdp) / mdp.num_pairs)):
        figure = draw(mdp, values, f"A map of {name}")
        assert is_legible(figure)
        save_figure(figure, tmp_path / "map.png", dpi=100, overwrite=True)
        size = png_size((tmp_path / "map.png").read_bytes())
        np.testing.assert_allclose(size, 100 * figure.get_size_inches(), atol=1)  # whole pixels
        assert 300 < size[0] < 1200
        assert 250 < size[1] < 900


@pytest.mark.parametrize("name", tiered(MAPPED))
def test_every_pair_is_painted_with_its_own_number(name):
    mdp = envs.make(name)
    values = shares(mdp)
    np.testing.assert_array_equal(painted(occupancy_figure(mdp, values)).get_array(), values)
    np.testing.assert_array_equal(painted(occupancy_figure(mdp, mdp.table(values))).get_array(), values)
    np.testing.assert_array_equal(painted(ratio_figure(mdp, values)).get_array(), values)


def test_different_numbers_have_different_colours_and_equal_ones_the_same():
    mdp = envs.river_swim()
    values = np.repeat([0.0, 0.02, 0.05, 0.2], 3)
    collection = painted(occupancy_figure(mdp, values))
    collection.update_scalarmappable()
    colours = collection.get_facecolor()
    assert len(np.unique(colours, axis=0)) == 4
    np.testing.assert_array_equal(colours[0], colours[2])


def test_the_polygons_of_a_state_tile_its_cell_in_the_directions_of_its_actions():
    mdp = envs.grid_world(num_rows=3)
    polygons = cells_of(mdp).polygons(mdp.pair_state, mdp.pair_action)
    middle = polygons.mean(axis=1) - mdp.layout.positions[mdp.pair_state]
    np.testing.assert_allclose(middle, mdp.layout.directions[mdp.pair_action] / 3, atol=1e-15)  # centroid
    assert area(polygons).sum() == pytest.approx(mdp.num_states, rel=1e-12)


@pytest.mark.parametrize("name", MAPPED)
def test_cells_are_divided_into_equal_parts(name):
    mdp = envs.make(name)
    polygons = cells_of(mdp).polygons(mdp.pair_state, mdp.pair_action)
    np.testing.assert_allclose(area(polygons), 1 / mdp.num_actions, rtol=1e-12)  # sums of a few corners


def area(polygons: np.ndarray) -> np.ndarray:
    x, y = polygons[..., 0], polygons[..., 1]
    return np.abs((x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1)) / 2


def test_left_is_painted_left_of_right():
    mdp = envs.river_swim()
    polygons = cells_of(mdp).polygons(mdp.pair_state, mdp.pair_action)
    middle = polygons.mean(axis=1)[:, 0] - mdp.pair_state
    np.testing.assert_allclose(middle[mdp.pair_action == 0], -0.25)
    np.testing.assert_allclose(middle[mdp.pair_action == 1], 0.25)


def test_a_model_without_a_layout_has_no_map():
    mdp = envs.garnet(num_states=7)
    with pytest.raises(InvalidArgumentError, match="has no layout, so no map can be drawn"):
        cells_of(mdp)
    for draw in (occupancy_figure, ratio_figure):
        axes = draw(mdp, shares(mdp)).axes
        assert not any(isinstance(part, PolyCollection) for panel in axes for part in panel.collections)


@pytest.mark.parametrize(("draw", "sign"), tiered([(occupancy_figure, 1), (ratio_figure, -1)]))
def test_pairs_that_lie_nowhere_are_listed_by_name_the_thinnest_first(draw, sign):
    mdp = envs.garnet()
    values = shares(mdp)
    figure = draw(mdp, values, "Garnet")
    order = np.argsort(sign * values, kind="stable")[:20]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(map(mdp.pair_name, order))
    x, y = painted(figure).get_offsets().T
    np.testing.assert_array_equal(x, values[order])
    np.testing.assert_array_equal(y, np.arange(20))
    assert any("20 of 200 pairs" in text.get_text() for text in figure.texts)
    assert is_legible(figure)


@pytest.mark.parametrize(("draw", "unseen"), [(occupancy_figure, 0.0), (ratio_figure, np.inf)])
def test_a_pair_without_a_visit_is_listed_as_that_and_has_no_place_on_the_axis(draw, unseen):
    mdp = envs.garnet(num_states=3, num_actions=2, num_successors=2)
    figure = draw(mdp, np.array([0.1, unseen, 0.2, 0.3, 0.2, 0.2]))
    assert [text.get_text() for text in figure.axes[0].texts] == ["no visit"]
    assert len(painted(figure).get_offsets()) == 5
    assert figure.axes[0].get_yticklabels()[0].get_text() == mdp.pair_name(1)


def test_lists_side_by_side_have_one_order_and_one_scale():
    mdp = envs.garnet(num_states=5)
    panels = {"first": shares(mdp, 0), "second": shares(mdp, 1)}
    figure = summary_figure(mdp, panels, "Two")
    order = np.argsort(panels["first"], kind="stable")
    for axes, values in zip(figure.axes, panels.values(), strict=True):
        np.testing.assert_array_equal(axes.collections[1].get_offsets()[:, 0], values[order])
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert [axes.get_title() for axes in figure.axes] == ["first", "second"]
    assert is_legible(figure)


def test_absent_pairs_stay_blank():
    mdp = envs.river_swim(num_states=4)
    kept = np.ones(8, bool)
    kept[3] = False
    smaller, _ = mdp.subset(kept)
    figure = occupancy_figure(smaller, shares(smaller))
    assert len(painted(figure).get_paths()) == 7
    hatched = [c for c in figure.axes[0].collections if c.get_hatch()]
    assert len(hatched[0].get_paths()) == 1


def test_ratios_are_coloured_symmetrically_around_one():
    scale = ratio_scale([np.array([0.5, 1.0, 3.0])])
    assert scale.norm(1.0) == pytest.approx(0.5, abs=1e-12)  # two logarithms
    assert scale.norm(0.4) == pytest.approx(1 - scale.norm(2.5), abs=1e-12)
    assert 0 < scale.norm(1 / 3) < scale.norm(3.0) < 1
    np.testing.assert_allclose(np.sort(1 / scale.ticks), scale.ticks)


@pytest.mark.parametrize("largest", [1.0, 1.0001, 1.3, 2.4, 3.9, 7.0, 60.0, 1e4, 1e30])
def test_a_ratio_scale_has_a_few_ticks_that_include_one(largest):
    scale = ratio_scale([np.array([1 / largest, largest])])
    assert 1.0 in scale.ticks
    assert 3 <= len(scale.ticks) <= 11
    assert len(set(scale.tick_labels)) == len(scale.tick_labels)
    assert scale.norm.vmin <= scale.ticks.min() <= scale.ticks.max() <= scale.norm.vmax


@pytest.mark.parametrize("largest", [1.0, 0.31, 0.02, 3e-5, 4e-9])
def test_an_occupancy_is_read_in_visits_per_round_number_of_steps(largest):
    scale = occupancy_scale([np.array([0.0, largest])])
    readings = np.array([float(label) for label in scale.tick_labels])
    steps = readings[-1] / scale.ticks[-1]
    assert np.log10(steps) == pytest.approx(round(np.log10(steps)), abs=1e-2)  # labels have three digits
    assert 1 <= readings[-1] <= 1000
    assert scale.norm.vmax == largest


def test_equal_factors_of_visits_are_equally_far_apart_in_colour():
    scale = occupancy_scale([np.array([0.4, 0.04, 0.004, 0.0004])])
    steps = np.diff(scale.norm(np.array([0.0004, 0.004, 0.04, 0.4])))
    np.testing.assert_allclose(steps, 1 / 3, atol=1e-12)
    assert scale.label.endswith("log scale")
    assert 3 <= len(scale.ticks) <= 6


def test_equal_shares_have_one_colour():
    scale = occupancy_scale([np.full(9, 1 / 9) * (1 + 1e-12 * np.arange(9))])
    assert np.ptp(scale.norm(np.full(9, 1 / 9) * (1 + 1e-12 * np.arange(9)))) < 1e-9
    assert scale.norm.vmax >= 2 * scale.norm.vmin


def test_no_visit_is_white_and_hardly_any_is_not():
    """1e-30 of the visits is off a scale of a million to one: it has the darkest colour, not that of nothing."""
    mdp = envs.river_swim(num_states=2)
    figure = occupancy_figure(mdp, [0.0, 1e-30, 0.5, 0.5])
    collection = painted(figure)
    collection.update_scalarmappable()
    colours = collection.get_facecolor()
    np.testing.assert_array_equal(colours[0], [1, 1, 1, 1])
    np.testing.assert_allclose(colours[1], collection.cmap(0.0))
    assert any("white: none" in text.get_text() for axes in figure.axes for text in axes.texts)


# --- grids of bins ----------------------------------------------------------------------------------


def grid(code, num_actions: int = 2) -> MDP:
    """Returns a model over all keys of a code, each of which leads to the next."""
    S = code.num_keys
    P = np.zeros((S, num_actions, S))
    P[np.arange(S), :, (np.arange(S) + 1) % S] = 1
    return MDP(P, layout=code.layout(list(code.every_key)))


POINTS = np.random.default_rng(0).normal(size=(500, 2)) ** 3
BOX = gym.spaces.Box(np.array([-1.2, -0.07]), np.array([0.6, 0.07]), dtype=np.float64)
CODES = {
    "even": read_state_code(Bins((12, 11), names=("position", "velocity")), BOX),
    "open": read_state_code(Bins((6, 4), low=(0, -2), high=(3, 2)), gym.spaces.Box(-np.inf, np.inf, (2,))),
    "quantiles": QuantileBins((6, 5)).fit(POINTS),
    "numbers": read_state_code(None, gym.spaces.MultiDiscrete([4, 9], start=[1, -3])),
    "few": read_state_code(None, gym.spaces.MultiDiscrete([2, 2])),
}


@pytest.mark.parametrize("name", tiered(CODES))
def test_a_value_is_written_where_it_is_counted(name):
    """A tick lies in, or at the lower end of, the cell whose bin holds its value."""
    code = CODES[name]
    mdp = grid(code)
    figure = occupancy_figure(mdp, shares(mdp), name)
    axes, is_whole = figure.axes[0], name in ("numbers", "few")
    places = mdp.layout.positions
    for x, across in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        for y, upwards in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True):
            value = [float(label.get_text()) for label in (across, upwards)]
            point = np.array(value, int) if is_whole else np.array(value) + 1e-3 * np.array([1, 0.1])
            cell = places[code.key(point)]
            assert -0.5 <= x - cell[0] < 0.5 + 1e-9
            assert -0.5 <= cell[1] - y <= 0.5 + 1e-9
    assert len(axes.get_xticks()) >= 2
    assert len(axes.get_yticks()) >= 2
    assert is_legible(figure)


def test_the_axes_of_bins_have_their_names():
    code = CODES["even"]
    mdp = grid(code)
    axes = occupancy_figure(mdp, shares(mdp)).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("position", "velocity")
    line = read_state_code(Bins(5, low=0, high=1, names=["speed"]), gym.spaces.Box(0, 1, (1,)))
    assert occupancy_figure(grid(line), shares(grid(line))).axes[0].get_xlabel() == "speed"


def test_maps_of_bins_side_by_side_are_named_at_the_outside():
    mdp = grid(CODES["even"])
    figure = summary_figure(mdp, {str(k): shares(mdp, k) for k in range(3)}, "Three")
    assert [axes.get_ylabel() for axes in figure.axes[:3]] == ["velocity", "", ""]
    assert [axes.get_xlabel() for axes in figure.axes[:3]] == ["position"] * 3
    assert is_legible(figure)


def test_a_part_of_a_grid_keeps_its_values():
    """Of 12 by 11 bins those in the middle: limits are theirs, and no tick lies outside of them."""
    code = CODES["even"]
    whole = grid(code)
    some = whole.layout.subset([k for k in code.every_key if 4 <= k // 11 < 8 and 3 <= k % 11 < 7])
    S = len(some.positions)
    mdp = MDP(np.full((S, 1, S), 1 / S), layout=some)
    axes, all_axes = (occupancy_figure(model, shares(model)).axes[0] for model in (mdp, whole))
    written = dict(zip(map(float, all_axes.get_xticks()), all_axes.get_xticklabels(), strict=True))
    assert axes.get_xlim() == (3.5, 7.5)
    for x, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        assert label.get_text() == written[float(x)].get_text()


def test_a_file_keeps_what_the_sides_of_a_grid_measure(tmp_path):
    for number, code in enumerate(CODES.values()):
        mdp = grid(code)
        mdp.save(tmp_path / f"{number}.safetensors")
        assert MDP.load(tmp_path / f"{number}.safetensors").layout.rulers == mdp.layout.rulers


def test_a_pair_never_visited_is_black_and_one_without_weight_is_blank():
    mdp = envs.river_swim(num_states=2)
    figure = ratio_figure(mdp, [[np.inf, 1.0], [0.5, 0.0]])
    collection = painted(figure)
    collection.update_scalarmappable()
    assert len(collection.get_paths()) == 3
    np.testing.assert_array_equal(collection.get_facecolor()[0], [0, 0, 0, 1])
    assert any("black" in text.get_text() for axes in figure.axes for text in axes.texts)


def test_beyond_the_limit_a_state_has_one_colour(monkeypatch):
    monkeypatch.setattr(maps, "SPLIT_LIMIT", 50)
    mdp = envs.four_rooms()
    values = shares(mdp)
    image = occupancy_figure(mdp, values).axes[0].images[0].get_array()
    assert image.shape == (11, 11)
    assert image.mask.sum() == 121 - 104
    np.testing.assert_allclose(image[0, 0], values[mdp.pair_state == 0].sum(), rtol=1e-15)
    worst = ratio_figure(mdp, values).axes[0].images[0].get_array()
    assert worst[0, 0] == values[mdp.pair_state == 0].max()


def test_beyond_the_limit_a_state_with_an_unvisited_pair_is_black(monkeypatch):
    monkeypatch.setattr(maps, "SPLIT_LIMIT", 50)
    mdp = envs.four_rooms()
    ratio = np.where(mdp.pair_state == 0, np.inf, 1.0)
    image = ratio_figure(mdp, ratio).axes[0].images[0]
    colours = image.cmap(image.norm(image.get_array()))
    np.testing.assert_array_equal(colours[0, 0], [0, 0, 0, 1])
    assert colours[0, 1, :3].min() > 0.9, "a ratio of 1 is nearly white"


def test_beyond_the_limit_cells_off_the_lattice_are_still_drawn(monkeypatch):
    monkeypatch.setattr(maps, "SPLIT_LIMIT", 3)
    mdp = envs.wheel()
    values = shares(mdp)
    expected = np.bincount(mdp.pair_state, values)
    np.testing.assert_allclose(painted(occupancy_figure(mdp, values)).get_array(), expected, rtol=1e-15)


def test_a_hundred_by_a_hundred_cells_are_drawn_as_pixels(tmp_path):
    mdp = envs.grid_world(num_rows=100)
    figure = occupancy_figure(mdp, shares(mdp), "Ten thousand states")
    assert painted(figure).get_rasterized()
    save_figure(figure, tmp_path / "grid.svg")
    assert (tmp_path / "grid.svg").stat().st_size < 2_000_000  # 40,000 vector polygons take 10 MB


def test_a_model_of_one_state_can_be_drawn():
    alone = MDP([[[1.0]]])
    assert is_legible(occupancy_figure(alone, [1.0], "Alone"))
    assert is_legible(ratio_figure(alone, [[1.0]], "Alone"))


def test_a_layout_whose_cells_leave_no_room_for_labels_has_none():
    layout = Layout(np.array([[0.0, 0.0], [0.5, 1.0]]))
    mdp = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], layout=layout, state_labels=["above", "below"])
    figure = occupancy_figure(mdp, [0.5, 0.5])
    assert not figure.axes[0].texts


# --- summaries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiered(["river_swim", "wheel", "four_rooms", "n_room"]))
def test_a_summary_has_one_panel_per_entry_and_one_scale(name):
    mdp = envs.make(name)
    panels = {f"rho = {rho:g}": shares(mdp, seed) for seed, rho in enumerate(RHO)}
    figure = summary_figure(mdp, panels, f"Optimal coverage of {name}")
    assert is_legible(figure)
    assert [axes.get_title() for axes in figure.axes[:5]] == list(panels)
    for number, values in enumerate(panels.values()):
        np.testing.assert_array_equal(painted(figure, number).get_array(), values)
    largest = max(values.max() for values in panels.values())
    assert {painted(figure, number).norm.vmax for number in range(5)} == {largest}


def test_the_title_of_a_single_panel_joins_the_title_of_the_sheet():
    mdp = envs.wheel()
    figure = summary_figure(mdp, {"rho = 2": shares(mdp)}, "Wheel")
    assert [text.get_text() for text in figure.texts] == ["Wheel: rho = 2"]
    assert is_legible(figure)


@pytest.mark.parametrize("draw", tiered([occupancy_figure, ratio_figure]))
def test_a_long_title_is_wrapped(draw):
    mdp = envs.wheel()
    assert is_legible(draw(mdp, shares(mdp), LONG_TITLE))
    assert is_legible(frontier_figure(RHO, np.zeros(5), np.ones(5), LONG_TITLE))


def test_the_panels_of_a_summary_do_not_overlap():
    mdp = envs.wheel()
    figure = summary_figure(mdp, {str(k): shares(mdp, k) for k in range(6)})
    boxes = [axes.get_position() for axes in figure.axes[:6]]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


# --- the frontier -----------------------------------------------------------------------------------


def test_zero_and_infinity_are_points_of_the_axis():
    np.testing.assert_array_equal(place(np.array([0.0, 1.0, np.inf])), [0, 0.5, 1])
    many = place(np.append(np.geomspace(1e-3, 1e9, 200), np.inf))
    assert (np.diff(many) > 0).all()


def test_the_frontier_shows_both_curves_and_the_minimax_optimum():
    divergence, worst = np.array([0.4, 0.15, 0.29, 0.55, 0.653]), np.exp([1.2, 1.0, 0.8, 0.7, 0.653])
    figure = frontier_figure(RHO, divergence, worst, "Effect of rho")
    upper, lower, at_zero, reference = figure.axes[0].lines
    np.testing.assert_array_equal(lower.get_ydata(), divergence[1:])
    np.testing.assert_array_equal(at_zero.get_xydata(), [[0.0, divergence[0]]])
    np.testing.assert_allclose(np.exp(upper.get_ydata()), worst, rtol=1e-14)  # one exp, one log
    assert np.exp(reference.get_ydata()[0]) == pytest.approx(worst[-1], rel=1e-14)
    assert figure.axes[0].get_ylabel()
    assert figure.axes[1].get_ylabel()
    assert {"0", "1", "∞"} <= {label.get_text() for label in figure.axes[0].get_xticklabels()}
    assert is_legible(figure)


def test_the_divergence_at_zero_is_that_of_the_plan_and_no_point_of_the_line():
    """The table beside the figure has the same number: KL(visits || weights), not the limit 0 of D_rho."""
    plans = [plan(envs.river_swim(), rho) for rho in (0.0, 1.0, 2.0)]
    figure = next(part.figure for part in page_of_plans(plans).sections[2].parts if isinstance(part, Picture))
    (point,) = (line for line in figure.axes[0].lines if line.get_gid() == "at zero")
    assert point.get_ydata()[0] == plans[0].divergence
    words = "".join(text.get_text() for text in figure.axes[0].texts)
    assert "KL(visits ‖ weights)" in words


def test_a_strip_numbers_its_states_in_every_arrangement():
    """Where labels do not fit, every second, fifth, ... state has its number; never a coordinate."""
    mdp = envs.river_swim(num_states=40)
    one, many = (
        occupancy_figure(mdp, np.ones((40, 2)) / 80),
        summary_figure(mdp, dict.fromkeys("abc", np.ones((40, 2)) / 80)),
    )
    for axes in (one.axes[0], many.axes[2]):
        shown = {
            label.get_text(): tick
            for label, tick in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)
        }
        assert len(shown) > 3
        assert all(mdp.layout.positions[int(name), 0] == tick for name, tick in shown.items())
    assert is_legible(one)
    assert is_legible(many)


def test_the_right_axis_reads_the_worst_ratio_of_the_left_one():
    figure = frontier_figure(RHO, [0, 1, 2, 3, 4], np.exp([6.0, 5.5, 5.0, 4.5, 4.0]))
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    readings = [float(label.get_text()) for label in right.get_yticklabels()]
    np.testing.assert_allclose(np.log(readings), right.get_yticks(), atol=1e-12)  # labels are round numbers


@pytest.mark.parametrize("worst", tiered([1.0, 1.2, 50.0, 1e9]))
def test_a_frontier_without_its_limit_has_no_reference(worst):
    figure = frontier_figure(RHO[:-1], np.zeros(4), np.full(4, worst), "No limit")
    assert len(figure.axes[0].lines) == 3
    assert is_legible(figure)


# --- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "start"), tiered([("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
)
def test_the_same_figure_gives_the_same_bytes(kind, start, tmp_path):
    mdp = envs.river_swim()
    for number in range(2):
        save_figure(occupancy_figure(mdp, shares(mdp), "River"), tmp_path / f"{number}.{kind}")
    first, second = ((tmp_path / f"{number}.{kind}").read_bytes() for number in range(2))
    assert first.startswith(start)
    assert first == second


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    path = tmp_path / "map.png"
    path.write_bytes(b"mine")
    figure = occupancy_figure(envs.wheel(), shares(envs.wheel()))
    with pytest.raises(InvalidArgumentError, match="overwrite=True"):
        save_figure(figure, path)
    assert path.read_bytes() == b"mine"
    save_figure(figure, path, overwrite=True)
    assert path.read_bytes() != b"mine"
    assert [p.name for p in tmp_path.iterdir()] == ["map.png"]


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"\.png, \.svg, \.pdf, got 'map.jpg'"):
        save_figure(Figure(), tmp_path / "map.jpg")


def test_no_figure_stays_open(tmp_path):
    from matplotlib import pyplot

    mdp = envs.wheel()
    save_figure(occupancy_figure(mdp, shares(mdp)), tmp_path / "a.png")
    frontier_figure(RHO, np.zeros(5), np.ones(5))
    mine = pyplot.figure()
    assert pyplot.get_fignums() == [mine.number]
    save_figure(mine, tmp_path / "b.png")
    assert pyplot.get_fignums() == []


@pytest.mark.thorough
def test_drawing_needs_neither_pyplot_nor_a_display():
    code = "import sys, rhocover.report.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_caller_s_settings_are_left_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    occupancy_figure(envs.wheel(), shares(envs.wheel()))
    assert dict(matplotlib.rcParams) == before


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((6, 3)), r"`occupancy` must have shape \(6, 2\)"),
        (np.ones(11), r"`occupancy` must have shape \(6, 2\)"),
        (np.full(12, -1.0), "`occupancy` must be non-negative"),
        (np.full(12, np.nan), "`occupancy` must be finite"),
    ],
)
def test_an_occupancy_must_hold_one_share_per_pair(values, message):
    with pytest.raises(InvalidArgumentError, match=message):
        occupancy_figure(envs.river_swim(), values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((6, 3)), r"`ratio` must have shape"),
        (np.full(12, -1.0), "`ratio` must be non-negative"),
        (np.full(12, np.nan), "use inf"),
    ],
)
def test_a_ratio_must_hold_one_number_per_pair(values, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ratio_figure(envs.river_swim(), values)


def test_a_summary_needs_a_panel_and_a_known_quantity():
    mdp = envs.river_swim()
    with pytest.raises(InvalidArgumentError, match="at least one"):
        summary_figure(mdp, {})
    with pytest.raises(InvalidArgumentError, match="'occupancy' or 'ratio', got 'regret'"):
        summary_figure(mdp, {"": shares(mdp)}, quantity="regret")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("rho", "divergence", "worst", "message"),
    [
        ([1, 1], [0, 0], [1, 1], "increasing"),
        ([1], [0], [1], "at least two"),
        ([-1, 1], [0, 0], [1, 1], "`rho` must be non-negative"),
        ([1, np.nan], [0, 0], [1, 1], "increasing"),
        ([1, 2], [0, 0, 0], [1, 1], r"`divergence` must have shape \(2\)"),
        ([1, 2], [0, np.inf], [1, 1], "`divergence` must be finite"),
        ([1, 2], [0, 0], [1, 0], "`worst_ratio` must be positive"),
    ],
)
def test_a_frontier_needs_matching_finite_curves(rho, divergence, worst, message):
    with pytest.raises(InvalidArgumentError, match=message):
        frontier_figure(rho, divergence, worst)


@pytest.mark.parametrize("layout", [None, Layout([[0, 0], [1, 0]])])
def test_labels_are_words_and_never_mathematics(layout, tmp_path):
    """Broken mathematics between dollars would otherwise stop the drawing."""
    words = [r"$\\frac{$", "cost $5"]
    mdp = MDP(
        [[[0.5, 0.5], [1, 0]], [[1, 0], [0, 1]]], state_labels=words, action_labels=words, layout=layout
    )
    figure = occupancy_figure(mdp, np.full((2, 2), 0.25))
    figure.savefig(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size > 0
