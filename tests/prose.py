"""Runs what a page shows: its Python blocks in one namespace, and its `$ rhocover` lines, in order.

    python tests/prose.py PAGE.md [--extras | --no-extras]

Output that is shown is compared, `...` standing for anything. A block that needs an extra says so with a line
`# pip install 'rhocover[minari]'` or `$ pip install 'rhocover[minari]'`: `--extras` runs only those blocks, and
`--no-extras` all others. This file uses the standard library alone, so that it also runs where nothing but
rhocover is installed.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

EXTRAS = re.compile(r"^[#$] pip install 'rhocover\[([\w,]+)\]'", re.MULTILINE)


def fenced_blocks(text: str) -> list[tuple[int, str, str]]:
    """Returns (line of the first row, language, body) of every fenced block; `python sb3` needs torch."""
    blocks = re.finditer(r"^```([\w-]*(?: sb3)?)[^\n]*\n(.*?)^```\s*$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, b.start(2)) + 1, b[1], b[2]) for b in blocks]


def run_python(body: str, line: int, names: dict[str, object]) -> None:
    """Runs a block as a script, or as a doctest if it shows a prompt."""
    if ">>>" in body:
        check_examples(doctest.DocTestParser().get_doctest(body, names, "README.md", "README.md", line - 1))
        return
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile("\n" * (line - 1) + body, "README.md", "exec"), names)


def check_examples(test: doctest.DocTest) -> None:
    report = io.StringIO()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags, verbose=False)
    failed, _ = runner.run(test, out=report.write, clear_globs=False)
    assert not failed, report.getvalue()


def commands(body: str) -> list[tuple[str, str]]:
    """Returns (command, output shown below it) for each `$ ` line of a console block."""
    body = body.replace("\\\n", " ")
    parts = re.split(r"^\$ (.*)\n?", body, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def run_command(command: str, shown: str, line: int) -> None:
    """Runs a `rhocover` command; output that is shown must be its output, `...` standing for anything."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    result = subprocess.run(command, shell=True, env=env, capture_output=True, text=True)
    assert result.returncode == 0, f"README.md:{line}: {command}\n{result.stdout}{result.stderr}"
    same = doctest.OutputChecker().check_output(
        shown, result.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert same or not shown.strip(), (
        f"README.md:{line}: {command}\nshows\n{shown}\nbut prints\n{result.stdout}"
    )


def extras_of(body: str) -> set[str]:
    """Returns the extras that a block says it needs."""
    return {name for names in EXTRAS.findall(body) for name in names.split(",")}


def run_blocks(text: str, is_wanted: Callable[[str], bool] = lambda body: True) -> int:
    """Runs the Python blocks in one namespace and the `$ rhocover` lines, in order; returns how many."""
    names: dict[str, object] = {"__name__": "readme"}
    count = 0
    for line, language, body in fenced_blocks(text):
        if not is_wanted(body):
            continue
        if language in ("python", "pycon"):
            run_python(body, line, names)
            count += 1
        elif language in ("console", "sh"):
            ours = [pair for pair in commands(body) if pair[0].startswith("rhocover")]
            for command, shown in ours:
                run_command(command, shown, line)
            count += len(ours)
    return count


WANTED: dict[str, Callable[[str], bool]] = {
    "": lambda body: True,
    "--extras": lambda body: bool(extras_of(body)),
    "--no-extras": lambda body: not extras_of(body),
}

if __name__ == "__main__":
    page, which = (*sys.argv[1:], "")[:2]
    print(run_blocks(Path(page).read_text("utf-8"), WANTED[which]), "blocks and commands ran")
