"""README.md is true for somebody who has nothing but pip: its blocks run where only what they name is installed.

The wheel goes into an empty environment with the locked packages that everybody gets, as `make demo` has them, and
there every block runs that names no extra. Then the locked packages of the extras that README.md names are added,
and the blocks run that name one. Packages come from wherever pip is set up to take them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import prose
from tools.release import locks, rehearse
from tools.release.build import ROOT, build

README = ROOT / "README.md"
BLOCKS = prose.fenced_blocks(README.read_text("utf-8"))
EXTRAS = sorted({name for _, _, body in BLOCKS for name in prose.extras_of(body)})


def test_readme_opens_with_the_line_that_installs_it() -> None:
    first = README.read_text("utf-8").split("\n\n")[1]
    assert re.fullmatch(r"```sh\npip install rhocover .*\n```", first)


def test_a_block_names_extras_that_exist_in_its_first_line() -> None:
    assert EXTRAS == []  # all that it shows comes with `pip install rhocover`
    assert set(EXTRAS) <= set(locks.EXTRAS)
    for _, _, body in BLOCKS:
        if prose.extras_of(body):
            assert prose.extras_of(body.splitlines()[0]) == prose.extras_of(body)


def test_extras_are_read_from_comments_and_from_commands() -> None:
    assert prose.extras_of("# pip install 'rhocover[minari,pandas]'\nx = 1\n") == {"minari", "pandas"}
    assert prose.extras_of("$ pip install 'rhocover[fast]'\n$ rhocover doctor\n") == {"fast"}
    assert prose.extras_of("pip install rhocover\n") == set()
    wants = prose.WANTED
    assert wants["--extras"]("# pip install 'rhocover[fast]'")
    assert not wants["--no-extras"]("# pip install 'rhocover[fast]'")
    assert wants["--no-extras"]("x = 1")
    assert not wants["--extras"]("x = 1")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the Python of an environment with the wheel, and with what everybody gets."""
    place = tmp_path_factory.mktemp("readme")
    _, wheel = build(place / "dist")
    found = rehearse.empty_environment(place / "env")
    rehearse.install_locked(found, locks.runtime())
    rehearse.pip(found, "--no-deps", "--no-index", str(wheel))
    return found


def run_readme(python: Path, folder: Path, which: str) -> int:
    """Returns how many blocks and commands of README.md ran in an environment, in a new folder."""
    folder.mkdir()
    printed = rehearse.run(folder, str(python), str(ROOT / "tests" / "prose.py"), str(README), which)
    return int(printed.split()[0])


@pytest.mark.thorough
def test_every_block_of_readme_runs_where_only_what_it_names_is_installed(
    python: Path, tmp_path: Path
) -> None:
    assert run_readme(python, tmp_path / "without", "--no-extras") >= 10
    for extra in EXTRAS:
        rehearse.install_locked(python, locks.extra(extra))
    assert run_readme(python, tmp_path / "with", "--extras") == sum(
        bool(prose.extras_of(b)) for *_, b in BLOCKS
    )
