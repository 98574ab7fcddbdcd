"""Every link of the pages leads somewhere: files and headings exist, addresses are well-formed.

Nothing is fetched. Headings are addressed as GitHub and MyST both do: in lower case, dashes for spaces.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from extensions import DOCS, PAGES, ROOT, name_of

SOURCES = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"(?<!\\)\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")


def prose(text: str) -> str:
    """Returns a page without its blocks of code and its code in backticks."""
    text = re.sub(r"^(```+|~~~+).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]+`", "code", text)


def links(path: Path) -> list[str]:
    return LINK.findall(prose(path.read_text("utf-8")))


@functools.cache
def anchors(path: Path) -> set[str]:
    """Returns what can follow `#` in a link to a page: headings, and targets `(name)=`."""
    text = re.sub(r"^(```+|~~~+).*?^\1\s*$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,4} (.+?)\s*$", text, re.MULTILINE)
    return {slug(heading) for heading in headings} | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def slug(heading: str) -> str:
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_links_within_the_project_lead_to_files_and_headings_that_exist(path: Path) -> None:
    wrong = []
    for link in links(path):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_links_to_elsewhere_are_well_formed(path: Path) -> None:
    for link in links(path):
        if "://" in link:
            parts = urlsplit(link)
            assert parts.scheme == "https"
            assert re.fullmatch(r"([\w-]+\.)+[a-z]{2,}", parts.netloc), link


def test_the_test_sees_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One heading, `code` too\n[a](page.md#one-heading-code-too) [b](no.md) `[c](d)`\n```\n[e](f)\n```\n"
    )
    assert links(page) == ["page.md#one-heading-code-too", "no.md"]
    assert anchors(page) == {"one-heading-code-too"}
    with pytest.raises(AssertionError):
        test_links_within_the_project_lead_to_files_and_headings_that_exist(page)


def test_every_page_is_in_the_table_of_contents() -> None:
    """And the table names no page that does not exist."""
    listed: set[str] = set()
    for path in (DOCS / "index.md", DOCS / "reference" / "index.md"):
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
        ):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            names = [re.sub(r".*<(.+)>$", r"\1", entry) for entry in entries]
            listed |= {(path.parent / f"{name}.md").relative_to(DOCS).as_posix() for name in names}
    assert listed | {"index.md"} == {name_of(path) for path in PAGES}
