"""Each recipe of the cookbook can be copied alone: twenty short ones, with everything that they use.

`test_project.py` runs them and compares what they print; the one that needs torch is run by `tests/sb3`.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys

import pytest
from extensions import DOCS

import prose

TEXT = (DOCS / "cookbook.md").read_text("utf-8")
OPENING, *SECTIONS = re.split(r"^(?=###? )", TEXT, flags=re.MULTILINE)
RECIPES = {part.split("\n", 1)[0].removeprefix("### "): part for part in SECTIONS if part.startswith("### ")}
EXTRAS = {"h5py": "minari", "stable_baselines3": "sb3", "to_pandas": "pandas"}  # what is used: what brings it
MOST_LINES = 16  # of code: what one takes in at a glance


def code(text: str) -> str:
    """Returns the Python of a text: its blocks, and the examples of those with prompts."""
    found = [body for _, language, body in prose.fenced_blocks(text) if language.startswith("py")]
    parser = doctest.DocTestParser()
    return "".join("".join(e.source for e in parser.get_examples(b)) if ">>>" in b else b for b in found)


def test_there_are_twenty_questions() -> None:
    assert len(RECIPES) == 20


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_uses_only_names_that_it_or_the_opening_makes(title: str) -> None:
    line = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F401", "-"]
    told = subprocess.run(line, input=code(OPENING) + code(RECIPES[title]), capture_output=True, text=True)
    assert "F821" not in told.stdout, told.stdout
    assert not told.stderr, told.stderr


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_is_short_says_what_it_does_and_shows_what_comes_out(title: str) -> None:
    words = re.sub(r"^```.*?^```\s*$", "", RECIPES[title], flags=re.MULTILINE | re.DOTALL).split("\n", 1)[1]
    assert 10 < len(words.split()) < 80
    assert sum(1 for line in code(RECIPES[title]).splitlines() if line.strip()) <= MOST_LINES
    assert re.search(r"^(>>> |\$ rhocover |print\()", RECIPES[title], re.MULTILINE)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_names_the_extra_that_it_needs(title: str) -> None:
    named = set(re.findall(r"pip install 'rhocover\[(\w+)\]'", RECIPES[title]))
    assert named == {extra for word, extra in EXTRAS.items() if word in code(RECIPES[title])}
