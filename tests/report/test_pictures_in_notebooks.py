"""A notebook shows a picture where a cell ends with it, without pyplot and without a magic word."""

from __future__ import annotations

import struct

import pytest
from matplotlib.figure import Figure

import rhocover as rc
from rhocover.report.figures import frontier_figure, occupancy_figure
from rhocover.report.figures.over_time import run_figure, worst_ratio_figure

MDP = rc.envs.river_swim(num_states=3)


def pictures() -> list[Figure]:
    run = rc.explore(MDP, rho=2.0, num_steps=100, seed=0)
    found = rc.compare(MDP, ["feedback"], num_steps=100, seeds=2, workers=1)
    curves = found.curves(found.envs[0], found.orders[0], "worst_ratio")
    plans = [rc.plan(MDP, rho) for rho in (1.0, 2.0)]
    numbers = [[getattr(best, name) for best in plans] for name in ("rho", "divergence", "worst_ratio")]
    maps = occupancy_figure(MDP, plans[0].occupancy)
    return [maps, frontier_figure(*numbers), run_figure(run), worst_ratio_figure(curves)]


@pytest.mark.parametrize("number", range(4), ids=["map", "frontier", "run", "lines"])
def test_a_notebook_shows_a_picture_in_its_own_proportions(number: int) -> None:
    data, shown = pictures()[number]._repr_png_()  # type: ignore[attr-defined]
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])  # of the header of a PNG
    assert width > shown["width"]  # drawn sharper than it is shown
    assert width * shown["height"] == pytest.approx(height * shown["width"], rel=0.01)  # whole dots
