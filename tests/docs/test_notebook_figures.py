"""Figures of notebook pages: one for light pages and one for dark ones, with an alternative text."""

from __future__ import annotations

import re

import pytest
from extensions import extension
from matplotlib.figure import Figure

import rhocover as rc
from rhocover.report.figures import summary_figure

figures = extension("notebook_figures")
MDP = rc.envs.river_swim(num_states=3)


def plot() -> Figure:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([1, 2], [3, 4], color="black", label="of $d$")
    axes.set(xlabel="steps", ylabel=r"divergence $D_\rho$")
    axes.legend()
    return figure


def test_a_figure_is_two_images_with_the_same_alternative_text() -> None:
    shown = figures.as_html(plot())
    assert re.findall(r'<img class="([\w-]+)"', shown) == ["only-light", "only-dark"]
    assert re.findall(r'alt="([^"]*)"', shown) == ["Axes: steps, divergence D_rho. Lines: of d."] * 2
    light, dark = re.findall(r"base64,([^\"]+)", shown)
    assert light != dark


def test_the_text_of_a_map_names_its_title_and_its_panels() -> None:
    plans = {f"rho = {rho}": rc.plan(MDP, rho).ratio for rho in (1, 2)}
    shown = figures.describe(summary_figure(MDP, plans, "river: target / visited", quantity="ratio"))
    assert shown.startswith("river: target / visited. Panels: rho = 1, rho = 2.")


def test_on_a_dark_page_black_is_light_white_is_clear_and_data_keep_their_hue() -> None:
    figure = plot()
    axes = figure.axes[0]
    (coloured,) = axes.plot([1, 2], [1, 2], color=(0.8, 0.2, 0.0))
    before = [line.get_color() for line in axes.lines], axes.get_facecolor(), axes.xaxis.label.get_color()
    with figures.darkened(figure):
        assert axes.xaxis.label.get_color()[:3] == pytest.approx((figures.BRIGHTEST,) * 3)
        assert axes.lines[0].get_color()[:3] == pytest.approx((figures.BRIGHTEST,) * 3)
        assert axes.get_facecolor()[3] == 0
        red, green, blue, _ = coloured.get_color()
        assert red > green > blue
    assert before == (
        [line.get_color() for line in axes.lines], axes.get_facecolor(), axes.xaxis.label.get_color()
    )  # fmt: skip


def test_a_figure_without_words_still_has_a_text() -> None:
    assert figures.describe(Figure()) == "Figure."
