"""What the page for maintainers says of the building is so."""

from __future__ import annotations

import re
from typing import Any

import pytest
from extensions import ROOT, extension

from test_project import ROOMS

dataflow = extension("dataflow")
SOURCE = ROOT / "src" / "rhocover"
PAGE = (ROOT / "docs" / "inside.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([\w.]+)` \| (.+?) \| (.*?) ?\|$", PAGE, re.MULTILINE)


def test_the_rooms_are_those_that_the_layers_are_tested_by() -> None:
    assert tuple(room for room, _, _ in ROWS) == ROOMS


@pytest.mark.parametrize(("room", "begin"), [(room, begin) for room, _, begin in ROWS])
def test_a_reader_is_sent_to_files_that_exist(room: str, begin: str) -> None:
    for name in re.findall(r"`([\w/]+\.py)`", begin):
        assert (SOURCE / name).is_file() or (SOURCE / room / name).is_file(), name


def test_every_file_that_the_page_names_exists() -> None:
    """A name without a folder is in the folder of the last one that had a folder, or a file of tests."""
    everywhere = {path.name for path in (*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))}
    prose = re.sub(r"^\|.*$", "", PAGE, flags=re.MULTILINE)
    for name in re.findall(r"`([\w/]+\.py)`", prose):
        known = [ROOT / name, SOURCE / name]
        assert any(path.is_file() for path in known) or ("/" not in name and name in everywhere), name


def test_every_box_of_the_picture_is_on_it_and_leads_to_a_file_that_exists() -> None:
    drawn = dataflow.dataflow()
    for box in dataflow.BOXES.values():
        assert f">{box.title}</text>" in drawn
        if re.fullmatch(r"[\w/]+(\.py|/)", box.place):
            assert (SOURCE / box.place).exists(), box.place


def test_every_arrow_of_the_picture_begins_and_ends_at_a_box() -> None:
    ends = [point for arrow in dataflow.ARROWS for point in (arrow[0], arrow[-1])]
    assert all(any(is_on_border(point, box) for box in dataflow.BOXES.values()) for point in ends)


def is_on_border(point: tuple[int, int], box: Any) -> bool:
    x, y = point[0] - box.x, point[1] - box.y
    on_side = x in (0, dataflow.WIDE) and 0 <= y <= dataflow.HIGH
    return on_side or (y in (0, dataflow.HIGH) and 0 <= x <= dataflow.WIDE)
