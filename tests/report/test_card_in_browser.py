"""A real browser shows cards legibly in light and dark themes, on a phone, and lets them change nothing else."""

from __future__ import annotations

import pytest
from shown_results import card
from test_page_in_browser import CONTRAST, REQUESTS

from chromium import measured, needs_browser, rendered
from tiers import tiered

pytestmark = [pytest.mark.thorough, needs_browser]  # every test starts a browser

NAMES = ("Run", "Comparison", "Audit", "MDP", "hostile names", "an audit of bins")
JUPYTER = {  # the colours of JupyterLab's themes
    "light": "--jp-content-font-color1: rgba(0,0,0,.87); --jp-content-font-color2: rgba(0,0,0,.54); --jp-border-color2: #e0e0e0; "
    "background: #ffffff",
    "dark": "--jp-content-font-color1: #ffffff; --jp-content-font-color2: rgba(255,255,255,.7); --jp-border-color2: #616161; "
    "background: #111111",
}
OVERFLOW = "page.documentElement.scrollWidth - page.documentElement.clientWidth"
NARROWEST = (
    "Math.min(...[...page.querySelectorAll('tbody th')].map(cell => cell.getBoundingClientRect().width))"
)
COLOUR = "page.defaultView.getComputedStyle(page.querySelector('#mine')).color"


@pytest.fixture
def written(tmp_path):
    """Returns a function that writes a page around a card, as a notebook does."""

    def write(name: str, theme: str = "") -> object:
        is_light = {"light": "true", "dark": "false"}.get(theme, "")
        body = f'<body data-jp-theme-light="{is_light}" style="{JUPYTER.get(theme, "")}">'
        head = '<!doctype html><html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"></head>'
        path = tmp_path / "card.html"
        path.write_text(
            f'{head}{body}<table id="mine"><tr><td>mine</td></tr></table>{card(name)}</body></html>', "utf-8"
        )
        return path

    return write


@pytest.mark.parametrize("theme", ["light", "dark", ""])
@pytest.mark.parametrize("name", tiered(NAMES))
def test_every_text_has_contrast(written, name, theme):
    assert measured(written(name, theme), CONTRAST, 900, dark=theme == "dark") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_card_fits_a_phone_and_its_names_are_not_broken_into_letters(written, name):
    path = written(name)
    assert measured(path, OVERFLOW, 390) == 0
    assert measured(path, NARROWEST, 390) > 50


def test_a_card_asks_nobody_for_anything_and_runs_nothing(written):
    path = written("hostile names")
    _, console = rendered(path)
    assert console == []
    assert measured(path, REQUESTS, 900) == []


def test_a_card_changes_nothing_beside_it(written):
    assert measured(written("Run"), COLOUR, 900) == "rgb(0, 0, 0)"
