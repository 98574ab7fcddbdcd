"""The site is built without a warning, needs no network, fits a phone, and holds every public name.

It is built without running the notebooks, whose cells have a test of their own.
"""

from __future__ import annotations

import html
import importlib
import inspect
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from extensions import DOCS, PAGES, name_of

import rhocover
from chromium import browse, needs_browser, rendered
from patience import PATIENCE

LOADING = {
    "script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"),
    "video": ("src", "poster"), "audio": ("src",), "object": ("data",), "embed": ("src",), "image": ("href",),
    "use": ("href",), "link": ("href",),
}  # fmt: skip
MODULES = ("envs", "weights", "errors", "learning", "baselines")
INTERNAL = {"errors": {"missing_extra", "shortened", "unknown_name"}}  # helpers that make them

pytestmark = pytest.mark.thorough  # the site is built, which `make docs` does, too


class Page(HTMLParser):
    """What a page loads by itself, where its links lead, what can be linked to in it, which pictures it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.pictures: list[tuple[str, str]] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attributes}
        self.loads += [held[name] for name in LOADING.get(tag, ()) if name in held]
        self.loads += re.findall(r"url\(['\"]?([^'\")]+)", held.get("style", ""))
        self.links += [held["href"]] if tag == "a" and "href" in held else []
        self.ids |= {held["id"]} if "id" in held else set()
        if tag == "img":
            self.pictures.append((held.get("src", ""), held.get("alt", "")))
        if tag == "svg" and held.get("role") == "img":
            self.pictures.append(("svg", held.get("aria-label", "")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the site, built as `make docs` does it but for the notebooks."""
    folder = tmp_path_factory.mktemp("site")
    line = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        str(folder / "trees"),
    ]
    line += ["-D", "nb_execution_mode=off", str(DOCS), str(folder / "html")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_built(pages: dict[str, Page]) -> None:
    assert {name_of(path.with_suffix(".html")) for path in PAGES} <= set(pages)


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[str, Page]) -> None:
    """No script, style, font or picture has an address with a host."""
    loaded = {(name, link) for name, page in pages.items() for link in page.loads}
    for style in site.rglob("*.css"):
        text = style.read_text("utf-8")
        found = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text)
        loaded |= {(style.name, link or other) for link, other in found}
    assert loaded
    elsewhere = {
        (name, link) for name, link in loaded if urlsplit(link).netloc and not link.startswith("data:")
    }
    assert elsewhere == set()
    scripts = "".join(path.read_text("utf-8", errors="replace") for path in site.rglob("*.js"))
    assert not re.search(r"https?://(cdn|unpkg|fonts|cdnjs)\b", scripts)


def test_every_link_within_the_site_leads_somewhere(site: Path, pages: dict[str, Page]) -> None:
    wrong = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            key = target.resolve().relative_to(site.resolve()).as_posix()
            known = key in pages and (not parts.fragment or unquote(parts.fragment) in pages[key].ids)
            if not known and not (key not in pages and target.is_file()):
                wrong.append((name, link))
    assert wrong == []


def test_every_public_name_is_in_the_reference(pages: dict[str, Page]) -> None:
    ids = {found for name, page in pages.items() if name.startswith("reference/") for found in page.ids}
    wanted = {f"rhocover.{name}" for name in rhocover._HOME}
    for module in MODULES:
        wanted |= {f"rhocover.{module}.{name}" for name in public_names(module)}
    assert wanted - ids == set()


def public_names(module: str) -> set[str]:
    """Returns what a module exports; without `__all__`, what it defines."""
    found = importlib.import_module(f"rhocover.{module}")
    if hasattr(found, "__all__"):
        return set(found.__all__)
    own = {
        name
        for name, thing in vars(found).items()
        if getattr(thing, "__module__", None) == found.__name__ and not name.startswith("_")
    }
    assert own
    assert all(inspect.isfunction(vars(found)[name]) or inspect.isclass(vars(found)[name]) for name in own)
    return own - INTERNAL.get(module, set())


def test_names_in_running_text_lead_to_the_reference(site: Path, pages: dict[str, Page]) -> None:
    """`rc.plan`, `rhocover plan` and, in docstrings, the name of a class; a test is shown as its sentence."""
    links = set(pages["index.html"].links)
    assert {"reference/planning.html#rhocover.plan", "reference/commands.html#rhocover-plan"} <= links
    assert "errors.html#rhocover.errors.NotConvergedError" in pages["reference/planning.html"].links
    statements = (site / "theorems.html").read_text("utf-8")
    assert "at one the value is minus the mass times relative entropy plus entropy</span>" in statements


def test_docstrings_show_no_markup_of_their_own(site: Path) -> None:
    """A backtick or a pair of stars in running text is markup that was not understood."""
    for path in (site / "reference").glob("*.html"):
        text = path.read_text("utf-8")
        body = re.search(r'<article role="main".*?</article>', text, re.DOTALL)
        assert body is not None
        plain = re.sub(r"<(pre|code|dt|script)\b.*?</\1>", "", body[0], flags=re.DOTALL)
        plain = re.sub(r"<[^>]+>", "", plain)
        assert not re.search(r"`|\*\*\w|::\s*$", plain, re.MULTILINE), path.name
        assert "TypeAliasForwardRef" not in text


def test_every_picture_has_an_alternative_text(pages: dict[str, Page]) -> None:
    """A sentence or a name, not the path of the file; those of notebooks are tested in `test_notebook_figures`."""
    found = {(name, *picture) for name, page in pages.items() for picture in page.pictures}
    assert {name for name, *_ in found} >= {"index.html", "inside.html", "benchmarks.html"}
    assert {part for part in found if not part[2].strip() or part[2] == part[1]} == set()


PHONE = 390  # pixels: the width of a usual phone
WIDTHS = (
    "addEventListener('load', () => { document.title = JSON.stringify([...document.querySelectorAll('iframe')]"
    ".map(frame => [frame.name, frame.contentDocument.documentElement.scrollWidth])); });"
)


@needs_browser
def test_no_page_is_wider_than_a_phone(site: Path, tmp_path: Path) -> None:
    """Tables, formulas, code and figures scroll in boxes of their own; a page that does not is noticed."""
    wide = site / "wide.html"
    wide.write_text("<html><head></head><body><div style='width: 900px'>wide</div></body></html>", "utf-8")
    shown = tmp_path / "phones.html"
    frames = "".join(
        map(phone, [path for path in sorted(site.rglob("*.html")) if path.name != "search.html"])
    )
    shown.write_text(
        f"<!doctype html><head><title></title><script>{WIDTHS}</script></head><body>{frames}", "utf-8"
    )
    wide.unlink()
    out, _ = browse("--dump-dom", shown.as_uri())
    title = re.search(r"<title>(.*?)</title>", out, re.DOTALL)
    assert title is not None
    widths = {
        Path(name).relative_to(site).as_posix(): width for name, width in json.loads(html.unescape(title[1]))
    }
    assert widths.pop("wide.html") > PHONE
    assert len(widths) > 30
    assert {name: width for name, width in widths.items() if width > PHONE} == {}


def phone(path: Path) -> str:
    """Returns a frame as wide as a phone that shows a page; its links and styles are found beside its file."""
    text = path.read_text("utf-8").replace("<head>", f'<head><base href="{path.as_uri()}">', 1)
    return f'<iframe name="{path}" style="width: {PHONE}px; height: 800px" srcdoc="{html.escape(text)}"></iframe>'


@needs_browser
@pytest.mark.parametrize("name", ["index.html", "reference/planning.html", "inside.html", "limit.html"])
def test_a_browser_without_a_network_has_nothing_to_complain_about(site: Path, name: str) -> None:
    shown, console = rendered(site / name)
    assert "</article>" in shown
    assert console == []
