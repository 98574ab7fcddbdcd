"""A real browser for tests: opens a page and says what became of it.

Debian's chromium, Chromium or Chrome, whichever is found. It starts with an empty profile each time and can
resolve no name, so that a page which asks the network for anything fails to get it and says so.
"""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=2000",
)  # fmt: skip
NOT_CHECKED = "the report page was NOT checked in a browser: there is no Chromium or Chrome on this machine"


@functools.cache
def find_browser() -> str | None:
    """Returns the path of a browser; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


needs_browser = pytest.mark.skipif(find_browser() is None, reason=NOT_CHECKED)


def browse(*arguments: str, dark: bool = False) -> tuple[str, list[str]]:
    """Returns what the browser printed, and the lines that pages wrote to its console."""
    browser = find_browser()
    assert browser is not None, NOT_CHECKED
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    with tempfile.TemporaryDirectory(prefix="rhocover-browser-") as profile:
        line = [browser, *FLAGS, scheme, f"--user-data-dir={profile}", *arguments]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout, [text for text in done.stderr.splitlines() if "CONSOLE" in text]


def rendered(page: Path) -> tuple[str, list[str]]:
    """Returns the document as the browser understood it, and its console."""
    return browse("--dump-dom", page.as_uri())


def screenshot(page: Path, picture: Path, width: int, height: int, *, dark: bool = False) -> None:
    """Writes a picture of the page; a width that no window has is that of a frame in a wider one."""
    with tempfile.TemporaryDirectory(prefix="rhocover-frame-") as folder:
        shown = Path(folder, "frame.html")
        shown.write_text(frame(page, width, height), "utf-8")
        size = f"--window-size={max(width, 500)},{height}"
        browse(f"--screenshot={picture}", size, shown.as_uri(), dark=dark)


def print_to(page: Path, paper: Path) -> None:
    """Prints the page to a PDF file."""
    browse(f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())


def measured(page: Path, expression: str, width: int, *, dark: bool = False) -> Any:
    """Returns the value of a JavaScript expression of `page`, a document shown at this width, as JSON."""
    script = (
        "addEventListener('load', () => { const page = document.querySelector('iframe').contentDocument;"
        f"document.title = JSON.stringify({expression}); }});"
    )
    with tempfile.TemporaryDirectory(prefix="rhocover-frame-") as folder:
        shown = Path(folder, "frame.html")
        shown.write_text(frame(page, width, 2000, script), "utf-8")
        out, _ = browse(
            "--dump-dom", f"--window-size={max(width, 500) + 100},2000", shown.as_uri(), dark=dark
        )
    found = re.search(r"<title>(.*?)</title>", out, re.DOTALL)
    assert found is not None
    assert found[1] != "unmeasured", "the measuring script did not run"
    return json.loads(html.unescape(found[1]))


def frame(page: Path, width: int, height: int, script: str = "") -> str:
    """Returns a page that shows another one in a frame of this size."""
    inner = html.escape(page.read_text("utf-8"))
    return (
        '<!doctype html><html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>unmeasured</title><script>{script}</script></head><body style='margin: 0'>"
        f'<iframe srcdoc="{inner}" style="border: 0; width: {width}px; height: {height}px"></iframe></body></html>'
    )
