"""Every test of this folder has a home of its own: nothing reaches the user's data sets."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from lake_walks import lake, random_steps

from rhocover.collecting import log, stepping


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch) -> Path:
    """Returns an empty folder that is home, Minari's root and the working directory during a test."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for name in ("home", "minari", "here"):
        (folder / name).mkdir()
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder / "minari"))
    monkeypatch.chdir(folder / "here")
    return folder


@pytest.fixture(autouse=True)
def pages(request, monkeypatch) -> None:
    """Writes a word in the place of the page, which takes longer than a small collection.

    Tests that look at pages say so by asking for `real_pages`.
    """
    if "real_pages" not in request.fixturenames:
        module = importlib.import_module(
            "rhocover.collecting.collect"
        )  # by name: a function is called like it
        monkeypatch.setattr(module, "page_of_collection", lambda found: "a page")
        monkeypatch.setattr(module, "write_page", lambda page, path, overwrite: path.write_text(page))


@pytest.fixture
def real_pages() -> None:
    """Has the pages written."""


@pytest.fixture
def small_parts(monkeypatch) -> None:
    """Logs have parts of 64 steps and environments are seeded every 90, so that there are many of both."""
    monkeypatch.setattr(log, "ROUND", 64)
    monkeypatch.setattr(stepping, "BETWEEN", 90)


@pytest.fixture(scope="module")
def walked():
    """Returns 2000 random steps on the lake, with every pair among them."""
    return random_steps(lake(), 2000)
