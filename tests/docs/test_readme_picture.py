"""The picture of README.md is the one that the planner makes, and can be read on a phone, on light and dark pages."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
from extensions import ROOT, extension

TEXT = extension("readme_picture").FILE.read_text("utf-8")
COLOUR = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})")
PHONE = 360  # CSS pixels across
REMAKE = "run: .venv/bin/python docs/_ext/readme_picture.py"


def colours(text: str) -> np.ndarray:
    return np.array([[int(part, 16) for part in found] for found in COLOUR.findall(text)])


def test_the_picture_in_the_repository_is_the_one_that_is_made_now() -> None:
    """But for one step of a colour: a share at the edge of two may fall to either side on another processor."""
    made = extension("readme_picture").picture()
    assert COLOUR.sub("#", made) == COLOUR.sub("#", TEXT), REMAKE
    assert np.abs(colours(made) - colours(TEXT)).max() <= 1, REMAKE


def test_readme_shows_it_and_says_in_words_what_it_shows() -> None:
    shown = re.search(
        r'<img src="docs/_static/coverage.svg"[^>]*alt="([^"]+)"', (ROOT / "README.md").read_text("utf-8")
    )
    assert shown is not None
    assert shown[1] == ElementTree.fromstring(TEXT).get("aria-label")


def test_letters_are_at_least_eleven_pixels_high_on_a_phone_and_lines_fit() -> None:
    _, _, width, _ = map(float, ElementTree.fromstring(TEXT).get("viewBox", "").split())
    sizes = [float(size) for size in re.findall(r"font-size:(\d+)px", TEXT)]
    assert min(sizes) * PHONE / width >= 11
    for x, text in re.findall(r'<text(?: class="(?:title|head)")? x="(\d+)" y="\d+">([^<]+)<', TEXT):
        assert float(x) + 0.62 * 15 * len(text) <= width, text  # wide letters, at the size of a title


def test_it_has_a_background_of_its_own_so_that_light_and_dark_pages_show_the_same() -> None:
    root = ElementTree.fromstring(TEXT)
    _, _, width, height = root.get("viewBox", "").split()
    first = next(child for child in root if child.tag.endswith("rect"))
    assert (first.get("width"), first.get("height"), first.get("fill")) == (width, height, "#ffffff")
    assert "currentColor" not in TEXT
