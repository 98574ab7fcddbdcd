"""The page of the benchmarks is what the measurements say: nothing on it was typed, nothing is left out."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import page, report
from benchmarks.peers import NAMES
from tiers import tiered
from tools.bars import __main__ as bars

MEASURED = [name for name in NAMES if (page.DOCS / page.FOLDER / f"{name}.json").exists()]


def documents() -> list[page.Document]:
    return page.load(page.DOCS)


def test_the_committed_page_is_what_the_committed_measurements_render_to() -> None:
    assert (page.DOCS / page.PAGE).read_text("utf-8") == page.render(documents())


@pytest.mark.parametrize("name", tiered(MEASURED))
def test_a_measurement_that_was_tampered_with_changes_the_page(name: str) -> None:
    """Each row's number of ours and of theirs is on the page, or decides one that is."""
    honest = page.render(documents())
    for key in ("ratio", "theirs"):
        tampered = copy.deepcopy(documents())
        rows = next(document for document in tampered if document["name"] == name)["result"]["rows"]
        changed = [row for row in rows if row[key] is not None]
        for row in changed:
            row[key] *= 1.5
        assert not changed or page.render(tampered) != honest


def test_every_measurement_and_every_picture_that_the_page_names_is_there() -> None:
    text = (page.DOCS / page.PAGE).read_text("utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert all((page.DOCS / picture).is_file() for picture in pictures)
    assert {Path(picture).name for picture in pictures} == {
        path.name for path in (page.DOCS / page.FOLDER).glob("*.svg")
    }


def test_the_page_is_plain_markdown_with_tables_that_hang_together() -> None:
    """GitHub and MyST draw a table only if each line has the columns of its head."""
    for block in re.findall(r"(?:^\|.*\|$\n?)+", page.render(documents()), re.MULTILINE):
        lines = [re.sub(r"\\\|", "", line).count("|") for line in block.strip().splitlines()]
        assert len(set(lines)) == 1, block.splitlines()[0]
        assert re.fullmatch(r"\|( ---:? \|)+", block.splitlines()[1])


def document(rows: list[dict], name: str = "audit") -> page.Document:
    return {
        "name": name, "title": "Audit", "question": "Q?", "result": {"rows": rows},
        "machine": {"processor": "P"}, "versions": {"python": "3"},
    }  # fmt: skip


def row(**given: object) -> dict:
    return {"case": "c", "peer": "them", "ours": 2.0, "theirs": 4.0, "ratio": 2.0} | given


def test_a_losing_row_is_listed_with_its_reason_and_a_winning_one_is_not() -> None:
    losing = row(case="small", ours=4.0, theirs=1.0, ratio=0.25, why="because")
    text = page.behind([document([row(case="large"), losing])])
    assert (
        "| Audit | small | them | seconds | 4.00 s | 1.00 s | 0.250\N{MULTIPLICATION SIGN} | because |"
        in text
    )
    assert "large" not in text
    assert page.behind([document([row()])]) == page.NOWHERE


def test_the_summary_counts_rows_by_peer_and_leaves_failures_out_of_ratios() -> None:
    rows = [
        row(ratio=2.0), row(ratio=6.0), row(ratio=0.5, verdict="even"), row(ratio=0.25),
        row(theirs=None, ratio=None, failure="did not arrive"), row(peer="other", quantity="MB", ratio=3.0),
    ]  # fmt: skip
    lines = page.summary([document(rows)]).splitlines()
    assert lines[0] == "- **Audit.** Q?"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:]]
    times = "\N{MULTIPLICATION SIGN}"
    stands = "2 ahead, 1 even, 1 **behind**, 1 where the peer failed"
    assert cells[0] == ["Audit", "them", "seconds", f"1.25{times}", f"0.250{times}", stands]
    assert cells[1] == ["", "other", "MB", f"3.00{times}", f"3.00{times}", "1 ahead"]


def test_a_peer_that_is_not_installed_is_said_to_be_absent() -> None:
    found = document([row()], "simulator")
    found["result"]["absent"] = {"quantecon": "pip install quantecon"}
    said = list(page._missing([found]))
    assert "Not measured, because it was not installed: quantecon (Audit; `pip install quantecon`)." in said


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1.00"), (12.345, "12.3"), (1234.5, "1,230"), (3_420_000.0, "3,420,000"),
     (0.012345, "0.0123"), (2.2e-16, "2.2e-16"), (-0.5, "-0.500"), (None, "-"), (99.96, "100")],
)  # fmt: skip
def test_numbers_are_written_with_three_digits(value: float | None, text: str) -> None:
    assert report.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.20 µs"), (2.5e-8, "25.0 ns")]
)
def test_durations_are_written_in_the_unit_in_which_they_are_readable(value: float, text: str) -> None:
    assert report.seconds(value) == text


def test_a_ratio_far_below_one_is_written_as_a_fraction() -> None:
    assert report.times(0.04) == "1/25.0"
    assert report.times(0.5) == "0.500\N{MULTIPLICATION SIGN}"


def test_what_was_measured_is_kept_with_machine_and_versions_and_without_nan(tmp_path: Path) -> None:
    class Module:
        TITLE, QUESTION = "T", "Q?"
        drawn: list[dict] = []  # noqa: RUF012

        @staticmethod
        def draw(result: dict, folder: Path) -> None:
            Module.drawn.append(result)

    page.store("audit", Module, {"rows": [], "size": 3}, tmp_path)
    kept = json.loads((tmp_path / page.FOLDER / "audit.json").read_text("utf-8"))
    assert kept["result"] == {"rows": [], "size": 3}
    assert Module.drawn == [kept["result"]]
    assert kept["machine"]["cores"] == report.machine()["cores"]
    assert kept["versions"]["numpy"] == report.versions()["numpy"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        page.store("audit", Module, {"rows": [], "size": float("nan")}, tmp_path)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    for main, arguments in ((bars.main, ["nothing"]), (command.main, ["peers", "nothing"])):
        with pytest.raises(SystemExit, match=r"unknown benchmark 'nothing'\. Known: "):
            main(arguments)
