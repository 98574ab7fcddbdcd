"""Every cell of every page that is a notebook runs, in the order of the page, in an empty folder."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import re
import sys
import warnings
from pathlib import Path

import pytest
from extensions import PAGES, ROOT, cells, extension, name_of

NOTEBOOKS = {name_of(path): path for path in PAGES if cells(path.read_text("utf-8"))}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # files and folders that a reader leaves open
@pytest.mark.thorough
@pytest.mark.parametrize("page", NOTEBOOKS)
def test_every_cell_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = extension("tutorials").missing(page)
    if missing:
        how = "make atari" if "ale_py" in missing else "make docs"
        pytest.skip(f"needs {', '.join(missing)}: {how}")
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


TEXT = "---\nkernelspec: {}\n---\n\n# Title\n\nText\n\n```{code-cell} ipython3\n:tags: [hide-input]\nprint(1)\n```\n\n# More\n"


def built(page: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Returns the source of a page as Sphinx gets it; `a` to `c` need packages, of which numpy is installed."""
    tutorials = extension("tutorials")
    needs = {
        "a.md": ("no_such_package", "numpy"),
        "b.md": ("numpy",),
        "c.md": ("no_such_package", "nor_this"),
    }
    monkeypatch.setattr(tutorials, "NEEDS", needs)
    monkeypatch.setattr(extension("stored_results"), "DOCS", folder)
    source = [TEXT]
    tutorials.say_if_not_executed(None, page, source)
    return source[0]


def test_a_page_whose_packages_are_missing_says_so_below_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {page: built(page, monkeypatch, tmp_path) for page in "abcd"}
    assert pages["b"] == pages["d"] == TEXT
    before, after = pages["a"].split("# Title\n")
    note, rest = after.split("\n\nText")
    assert before + "# Title\n\nText" + rest == TEXT
    assert "not executed here, because `no_such_package` is missing" in note
    assert "It has no results." in note
    assert "`no_such_package` and `nor_this` are missing" in pages["c"]


def test_a_page_that_is_not_executed_shows_stored_results_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"code": "print(1)\n", "text": "1\n", "html": "<b>drawn</b>"}
    stored = {"packages": {"no_such_package": "3.1"}, "cells": [result]}
    (tmp_path / "a.results.json").write_text(json.dumps(stored), "utf-8")
    page = built("a", monkeypatch, tmp_path)
    assert "stored ones, from an execution with no_such_package 3.1" in page
    assert "code-cell" not in page
    assert page.index("print(1)") < page.index("```text\n1\n```") < page.index("<b>drawn</b>")
    (tmp_path / "a.results.json").write_text(
        json.dumps({**stored, "cells": [{**result, "code": "print(2)\n"}]}), "utf-8"
    )
    with pytest.raises(ValueError, match="make atari"):
        built("a", monkeypatch, tmp_path)


@pytest.mark.thorough
def test_a_kernel_gives_text_and_html_of_every_cell(tmp_path: Path) -> None:
    text = "".join(
        f"```{{code-cell}} ipython3\n{code}\n```\n\n"
        for code in (
            "import os, sys\nprint('said'); print('aside', file=sys.stderr)\n2 + 3",
            "from IPython.display import HTML\nHTML('<i>' + os.getcwd() + '</i>')",
        )
    )
    first, second = extension("stored_results").execute(text, tmp_path)
    assert (first["text"], first["html"]) == ("said\n5", "")
    assert (second["text"], second["html"]) == ("", f"<i>{tmp_path}</i>")


def test_stored_results_are_those_of_the_code_on_the_page() -> None:
    stored = extension("stored_results")
    pages = [page for page in NOTEBOOKS if stored.load(page)]
    assert pages == [page for page, needs in extension("tutorials").NEEDS.items() if "ale_py" in needs]
    for page in pages:
        text, found = NOTEBOOKS[page].read_text("utf-8"), stored.load(page)
        assert set(found["packages"]) == set(extension("tutorials").NEEDS[page])
        assert "code-cell" not in stored.insert(text, found["cells"])


def test_no_lock_and_no_extra_has_a_package_under_the_gpl() -> None:
    files = [ROOT / "pyproject.toml", *sorted((ROOT / "requirements").glob("*.txt"))]
    assert not [path.name for path in files if re.search("ale.py", path.read_text("utf-8"), re.IGNORECASE)]
