"""A real browser shows every page whole and legible, asks nobody for anything, and prints it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from read_pages import KINDS, Seen

from chromium import measured, needs_browser, print_to, rendered, screenshot
from rhocover.report.pages.visits import SHOWN

pytestmark = pytest.mark.thorough  # every test starts a browser

CONTRAST = """(() => {
  const parse = c => { const p = c.match(/[\\d.]+/g).map(Number); return p.length > 3 && p[3] === 0 ? null : p; };
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
  const view = page.defaultView, poor = [];
  for (const part of page.body.querySelectorAll('*')) {
    const own = [...part.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || part.closest('svg') || part.tagName === 'SCRIPT') continue;
    let ground = null;
    for (let box = part; box && !ground; box = box.parentElement) ground = parse(view.getComputedStyle(box).backgroundColor);
    const pair = [light(parse(view.getComputedStyle(part).color)), light(ground || [255, 255, 255])].sort((a, b) => b - a);
    const contrast = (pair[0] + .05) / (pair[1] + .05);
    if (contrast < 4.5) poor.push([part.tagName, part.className, contrast]);
  }
  return poor;
})()"""
OVERFLOW = """[360, 320].map(width => {  // the second is WCAG 2.2, 1.4.10
  document.querySelector('iframe').style.width = width + 'px';
  return page.documentElement.scrollWidth - page.documentElement.clientWidth;
})"""
GROUND = "page.defaultView.getComputedStyle(page.body).backgroundColor"
REQUESTS = "page.defaultView.performance.getEntriesByType('resource').map(entry => entry.name)"


@needs_browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_shows_the_page_without_complaint(pages, files, kind):
    document, console = rendered(files[kind])
    assert console == []
    seen = Seen(document)
    assert len(seen.all("h1")) == 1
    assert len(seen.all("h2")) == len(pages[kind].sections) + 1
    assert pages[kind].verdict.text in " ".join("".join(seen.text).split())
    assert [tag for tag, _ in seen.tags].count("script") == 1


@needs_browser
@pytest.mark.parametrize("kind", ["plans", "incomplete", "evil", "comparison"])
def test_a_page_fits_on_a_narrow_screen(files, kind):
    assert measured(files[kind], OVERFLOW, 360) == [0, 0]


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_every_word_stands_out_in_the_browser(files, dark):
    ground, poor = measured(files["learned"], f"[{GROUND}, {CONTRAST}]", 900, dark=dark)
    assert poor == []
    assert ground == ("rgb(18, 22, 27)" if dark else "rgb(255, 255, 255)")


def unguarded(text: str) -> str:
    """Returns a page without the policy that forbids requests."""
    return re.sub(r"<meta http-equiv[^>]*>", "", text)


@needs_browser
@pytest.mark.parametrize("kind", ["learned", "evil"])
def test_no_request_is_tried_even_where_it_would_be_allowed(texts, tmp_path, kind):
    path = tmp_path / "page.html"
    path.write_text(unguarded(texts[kind]), "utf-8")
    assert measured(path, REQUESTS, 900) == []


@needs_browser
def test_the_checks_notice_what_is_wrong(texts, tmp_path):
    path = tmp_path / "wrong.html"
    path.write_text(texts["plan"].replace("</main>", "<img src='http://example.org/x.png'></main>"), "utf-8")
    _, console = rendered(path)
    assert any("Content Security Policy" in line or "violates" in line for line in console)
    path.write_text(unguarded(path.read_text("utf-8")), "utf-8")
    assert measured(path, REQUESTS, 900) == ["http://example.org/x.png"]
    path.write_text(texts["plan"].replace("</main>", "<script>console.error('x')</script></main>"), "utf-8")
    assert rendered(path)[1]
    path.write_text(
        texts["plan"].replace("</main>", "<p style='width: 500px; color: #999'>x</p></main>"), "utf-8"
    )
    excess, poor = measured(path, f"[{OVERFLOW}, {CONTRAST}]", 360)
    assert min(excess) > 100
    assert [tag for tag, *_ in poor] == ["P"]


@needs_browser
def test_the_keyboard_reaches_everything_in_order_and_the_skip_link_shows_itself(files):
    found = measured(
        files["plans"],
        "[...page.querySelectorAll('a, summary, [tabindex=\"0\"]')].map(part => { part.focus();"
        " return [page.activeElement === part, part.getBoundingClientRect().left >= 0]; })",
        900,
    )
    assert len(found) > 8
    assert all(is_focused and is_on_screen for is_focused, is_on_screen in found)


@needs_browser
def test_a_printed_page_has_sheets_and_all_that_is_folded(pages, files, tmp_path):
    paper = tmp_path / "page.pdf"
    print_to(files["learned"], paper)
    printed = paper.read_bytes()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2


@needs_browser
@pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="pdftotext is not there to read the printed page"
)
def test_the_printed_page_holds_the_verdict_and_what_is_folded(pages, files, tmp_path):
    paper = tmp_path / "page.pdf"
    print_to(files["incomplete"], paper)
    out = subprocess.run(["pdftotext", paper, "-"], capture_output=True, text=True, check=True).stdout
    words = " ".join(out.split())
    assert pages["incomplete"].verdict.text in words
    assert words.count("(r") > SHOWN + 50  # names of pairs: those behind the fold, too


@needs_browser
def test_a_screenshot_shows_something(files, tmp_path):
    import matplotlib.image

    for dark in (False, True):
        screenshot(files["plans"], tmp_path / "page.png", 400, 1200, dark=dark)
        picture = matplotlib.image.imread(tmp_path / "page.png")
        assert picture.shape[:2] == (1200, 500)
        assert picture[:, :400].std() > 0.05
        assert (picture[5, 5].mean() < 0.2) == dark
