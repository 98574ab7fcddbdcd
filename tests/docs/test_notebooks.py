"""Every cell of every page that is a notebook runs, in the order of the page, in an empty folder."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import warnings
from pathlib import Path

import pytest
from extensions import PAGES, cells, extension, name_of

NOTEBOOKS = {name_of(path): path for path in PAGES if cells(path.read_text("utf-8"))}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # files and folders that a reader leaves open
@pytest.mark.thorough
@pytest.mark.parametrize("page", NOTEBOOKS)
def test_every_cell_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = extension("tutorials").missing(page)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: make docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    run(NOTEBOOKS[page].read_text("utf-8"), page)


def run(text: str, page: str) -> int:
    """Runs the cells in one namespace; returns how many. What a cell prints is for readers."""
    names: dict[str, object] = {"__name__": "__main__"}
    found = cells(text)
    for line, options, code in found:
        program = compile("\n" * (line - 1) + code, page, "exec")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if "raises-exception" in options:
                with pytest.raises(Exception, match=r"."):
                    exec(program, names)
            else:
                exec(program, names)
    close_figures()
    names.clear()
    gc.collect()  # what the page left behind goes with the page
    return len(found)


def close_figures() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from matplotlib import pyplot

        pyplot.close("all")


def test_a_cell_that_fails_is_noticed_with_its_line() -> None:
    good = "```{code-cell} ipython3\n:tags: [hide-input]\nx = 1\n```\n\ntext\n\n```{code-cell} ipython3\nassert x == 1\n```\n"
    assert run(good, "page") == 2
    with pytest.raises(AssertionError) as found:
        run(good.replace("x == 1", "x == 2"), "page")
    assert found.traceback[-1].lineno == 8  # counted from 0: the line of the assertion
    with pytest.raises(pytest.fail.Exception):
        run(good.replace("[hide-input]", "[raises-exception]"), "page")


def test_pages_that_need_more_than_the_library_exist() -> None:
    names = {name_of(path) for path in PAGES}
    assert set(extension("tutorials").NEEDS) <= names


def test_a_page_whose_packages_are_missing_says_so_below_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorials = extension("tutorials")
    needs = {"a.md": ("no_such_package", "numpy"), "b.md": ("numpy",), "c.md": ("no_such_package", "nor_this")}
    monkeypatch.setattr(tutorials, "NEEDS", needs)
    text = "---\nkernelspec: {}\n---\n\n# Title\n\nText\n\n# Not a title\n"
    pages = {}
    for page in "abcd":
        source = [text]
        tutorials.say_if_not_executed(None, page, source)
        pages[page] = source[0]
    assert pages["b"] == pages["d"] == text
    title, note = pages["a"].split("\n\nText")[0].split("# Title\n")
    assert title == "---\nkernelspec: {}\n---\n\n"
    assert "not executed here" in note
    assert "`no_such_package` is missing" in note
    assert "`no_such_package` and `nor_this` are missing" in pages["c"]
    assert pages["a"].count("not executed") == 1
