"""A report page says what its result says, obeys no text in it, asks nobody for anything, and can be read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from read_pages import EVIL, KINDS, Seen, evil_model, walked
from test_figures import is_legible

import rhocover as rc
from rhocover.datasets.audit import audit
from rhocover.errors import InvalidArgumentError
from rhocover.experiments.comparison import MeanEstimate
from rhocover.report.figures import occupancy_figure
from rhocover.report.pages import (
    Code,
    Fold,
    KeyNumber,
    Page,
    Picture,
    Share,
    Table,
    Terms,
    Verdict,
    ratio_words,
    section,
    share_words,
    small_words,
)
from rhocover.report.pages.audit import page_of_audit
from rhocover.report.pages.comparison import is_ahead, leaders, page_of_comparison
from rhocover.report.pages.plan import page_of_plans
from rhocover.report.pages.rendering import (
    LONGEST,
    SCRIPT,
    STYLE,
    page_html,
    picture_html,
    svg_html,
    write_page,
)
from rhocover.report.pages.run import page_of_run
from rhocover.report.pages.visits import SHOWN, PairShares, discovery_figure, least_section, shares_figure
from tiers import tiered


def tables(page: Page) -> list[Table]:
    return [part for each in page.sections for part in each.parts if isinstance(part, Table)]


def number(page: Page, name: str) -> str:
    return next(key.value for key in page.numbers if key.name.startswith(name))


# --- what a page says -------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_page_of_plans_has_the_numbers_of_the_plans(river, pages):
    best = rc.plan(river, np.inf)
    page = pages["plans"]
    assert number(page, "worst ratio at rho = ∞") == ratio_words(best.worst_ratio) == "1.92"
    assert page.verdict.tone == "good"
    assert "52% of its share" in page.verdict.text  # 1/1.9213
    assert "32% of its share" in page.verdict.text  # 1/3.1188 at rho = 0
    rows = tables(page)[-1].rows
    assert [row[0] for row in rows] == ["0", "2", "∞"]
    assert rows[1][1] == "0.293001"  # D_2 of the reference values
    assert [part.heading for part in page.sections][-2:] == ["Settings", "What the words mean"]


def test_a_plan_that_missed_its_tolerance_says_so(river):
    plan = rc.plan(river, 2.0, method="frank_wolfe", max_steps=2, throw=False)
    verdict = page_of_plans([plan]).verdict
    assert verdict.tone == "poor"
    assert "missed the tolerance" in verdict.text


def test_weights_that_are_an_occupancy_are_called_a_match():
    assert page_of_plans([rc.plan(rc.envs.double_chain(), 2.0)]).verdict.word == "Exact match"


def test_the_page_of_a_run_has_the_numbers_of_the_run(run, pages):
    page = pages["run"]
    assert number(page, "worst ratio") == ratio_words(run.worst_ratio)
    assert number(page, "steps") == "3,000"
    pair, count = run.least_visited
    assert tables(page)[0].rows[0][:2] == (pair, f"{count:,}")  # equal weights: least visited, least covered
    assert pair in page.verdict.text
    assert share_words(1 / run.worst_ratio) in page.verdict.text


@pytest.mark.parametrize(
    ("gap", "word"), tiered([(0.01, "Covered"), (0.1, "Nearly there"), (0.11, "Room for improvement")])
)
def test_the_verdict_of_a_run_follows_its_certified_gap(run, monkeypatch, gap, word):
    monkeypatch.setattr(type(run), "gap", gap)
    assert page_of_run(run).verdict.word == word


def test_a_run_that_never_saw_a_pair_has_no_number_for_its_distance(pages):
    page = pages["incomplete"]
    assert page.verdict.tone == "poor"
    assert "never visited" in page.verdict.text
    assert not any(key.name == "certified gap" for key in page.numbers)
    missing = int(re.match(r"\d+", page.verdict.text)[0])
    assert number(page, "pairs visited") == f"{416 - missing} of 416"


def test_a_learned_model_has_three_gaps_and_a_known_one_has_none(pages):
    [gaps] = [table for table in tables(pages["learned"]) if table.headings[0] == "gap to the best"]
    assert len(gaps.rows) == 3
    assert not any(table.headings[0] == "gap to the best" for table in tables(pages["run"]))


def test_a_comparison_calls_a_lead_within_chance_no_lead(comparison, pages):
    first, second = leaders([row for row in comparison.table() if row.rho == 2])
    assert first.explorer == "feedback"
    assert not is_ahead(second, first)
    sure, near, alone = (
        replace(second, regret=MeanEstimate(*pair)) for pair in ((1.0, 0.1), (0.1, 0.05), (1.0, np.nan))
    )
    assert is_ahead(first, sure)
    assert not is_ahead(first, near)  # 0.1 is less than 2 standard errors of 0.05 ahead
    assert not is_ahead(first, alone)  # one seed
    assert pages["comparison"].verdict.text.startswith("feedback has the least regret on all 2 problems.")


def test_explorers_that_cannot_be_ranked_are_not():
    found = rc.compare("four_rooms", ["feedback", "tracking"], num_steps=50, seeds=2, workers=1)
    page = page_of_comparison(found)
    assert page.verdict.tone == "poor"
    assert tables(page)[0].rows[0][1:] == ("-", "-", "0 of 2")


def test_the_page_of_an_audit_has_the_counts_of_the_data(river):
    states, actions, after, done = walked(river, 2000)
    page = page_of_audit(audit((states, actions, after, done), model=river))
    counts = np.bincount(states * 2 + actions, minlength=12)
    least = int(counts.argmin())
    name, visits = tables(page)[0].rows[0][:2]
    assert (name, visits) == (river.pair_name(least), str(counts[least]))
    assert number(page, "steps") == "2,000"
    assert number(page, "worst ratio") == ratio_words(2000 / 12 / counts.min())


@pytest.mark.parametrize("arguments", tiered([{"horizon": 6}, {"discount": 0.9}]))
@pytest.mark.parametrize("rho", tiered([0.0, 20.0, np.inf]))
def test_there_is_a_page_for_every_kind_of_visits(river, arguments, rho):
    plan = page_html(page_of_plans([rc.plan(river, rho, **arguments)]))
    run = rc.explore(river, rho, 3000, **arguments)
    assert run.is_complete
    text = page_html(page_of_run(run))
    assert ("at step" in plan) == ("at step" in text) == ("horizon" in arguments)


def test_the_least_covered_pairs_are_in_order_and_shares_are_inverse_factors():
    rng = np.random.default_rng(0)
    target, share = rng.dirichlet(np.ones(40)).reshape(20, 2), rng.dirichlet(np.ones(40)).reshape(20, 2)
    target[3, 0] = share[5, 1] = 0.0
    visits = PairShares(rc.envs.river_swim(num_states=20), target, share)
    table, fold = least_section(visits).parts
    assert isinstance(table, Table)
    assert isinstance(fold, Fold)
    assert isinstance(fold.parts[0], Table)
    rows = [*table.rows, *fold.parts[0].rows]
    assert len(table.rows) == SHOWN
    assert len(rows) == 39  # a pair without a weight is not missed
    assert rows[0] == ("(5, right)", "0", Share(0.0, "0%"), "∞")
    with np.errstate(divide="ignore"):
        expected = sorted(target[target > 0] / share[target > 0], reverse=True)
    for row, ratio in zip(rows[1:], expected[1:], strict=True):
        assert isinstance(row[2], Share)
        assert row[2].part == pytest.approx(1 / ratio, rel=1e-5)  # pairs that close may change places
        assert row[3] == ratio_words(1 / row[2].part)


def test_numbers_are_written_for_people():
    assert [ratio_words(x) for x in (1.0, 2.2128, 14.757, 1785.3, 3.1e8, np.inf, np.nan)] == [
        "1.00", "2.21", "14.8", "1,785", "3.1e+08", "∞", "-",
    ]  # fmt: skip
    assert [share_words(x) for x in (0.0, 0.45192, 0.0031, 1e-6, 2.08)] == [
        "0%",
        "45%",
        "0.31%",
        "< 0.01%",
        "208%",
    ]
    assert [small_words(x) for x in (0.0, 3e-13, 0.000639, 0.293, -1e-9, np.inf)] == [
        "0", "< 10⁻⁶", "0.00064", "0.293", "> -10⁻⁶", "∞",
    ]  # fmt: skip


# --- pages as values --------------------------------------------------------------------------------


def test_a_page_needs_a_title_and_a_verdict_and_few_numbers():
    with pytest.raises(InvalidArgumentError, match="must not be empty"):
        Page("kind", "title", Verdict(" "))
    with pytest.raises(InvalidArgumentError, match="at most 6 entries, got 7"):
        Page("kind", "title", Verdict("good"), (KeyNumber("1", "a", "b"),) * 7)
    with pytest.raises(InvalidArgumentError, match="2 cells like `headings`, got 1"):
        Table("caption", ("a", "b"), (("1",),))
    with pytest.raises(InvalidArgumentError, match="at least one plan"):
        page_of_plans([])


def test_sections_are_put_before_settings_and_glossary(pages):
    longer = pages["run"].with_sections(section("More", "text", None, ""))
    headings = [part.heading for part in longer.sections]
    assert headings[-3:] == ["More", "Settings", "What the words mean"]
    assert longer.sections[-3].parts == ("text",)


# --- no text is obeyed ------------------------------------------------------------------------------


def test_every_text_is_shown_and_none_obeyed():
    evil = Page(
        EVIL, EVIL, Verdict(EVIL, EVIL), (KeyNumber(EVIL, EVIL, EVIL),),
        (
            section(
                EVIL, EVIL, Table(EVIL, (EVIL, EVIL), ((EVIL, Share(0.5, EVIL)),)), Code(EVIL), Terms(((EVIL, EVIL),)),
                Fold(EVIL, (EVIL,)), Picture(Figure(), EVIL, EVIL),
            ),
        ),
    )  # fmt: skip
    text = page_html(evil)
    seen = Seen(text)
    assert [tag for tag, _ in seen.tags].count("script") == 1
    assert not seen.all("img")
    assert len(seen.all("style")) == 1
    shown = Counter("".join(seen.text).split(EVIL))
    assert sum(shown.values()) - 1 >= 18  # as often as it was given


@pytest.mark.parametrize("kind", KINDS)
def test_the_only_script_is_the_pages_own(texts, kind):
    seen = Seen(texts[kind])
    assert texts[kind].count("<script") == 1
    assert f"<script>{SCRIPT}</script>" in texts[kind]
    assert not [key for _, attributes in seen.tags for key in attributes if key.startswith("on")]
    assert all(link["href"].startswith("#") for link in seen.all("a"))


def test_letters_that_the_font_of_pictures_lacks_are_no_trouble(river):
    mdp = rc.MDP(river.dense(), action_labels=["左", "右"], name="川")
    text = page_html(page_of_plans([rc.plan(mdp, 2.0)]))
    assert "(0, 左)" in text


def test_a_picture_brings_no_script_no_comment_and_no_style():
    mdp = evil_model()
    drawing = svg_html(occupancy_figure(mdp, rc.plan(mdp, 2.0).occupancy), "name", EVIL)
    assert "<script" not in drawing
    assert "<!--" not in drawing
    assert "<style" not in drawing
    assert "&lt;script&gt;" in drawing


# --- the file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_of_the_network(texts, kind):
    seen = Seen(texts[kind])
    assert not re.search(r"https?:|@import|url\((?!#)", texts[kind])
    for reference in seen.values("href") + seen.values("src") + seen.values("xlink:href"):
        assert reference.startswith(("#", "data:"))
    [policy] = [meta["content"] for meta in seen.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none';")


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_is_given_once_and_every_reference_finds_it(texts, kind):
    seen = Seen(texts[kind])
    names = seen.values("id")
    assert len(names) == len(set(names))
    used = [link[1:] for link in seen.values("href") if link.startswith("#")]
    used += seen.values("aria-labelledby")
    used += re.findall(r"url\(#([^)]+)\)", texts[kind])
    assert used
    assert set(used) <= set(names)


def test_colours_are_no_names():
    figure = Figure()
    figure.add_axes((0, 0, 1, 1)).bar([1, 2], [1, 2], color="#abcdef", hatch="//")
    drawing = svg_html(figure, "name", "bars")
    assert "#abcdef" in drawing
    assert "url(#name-" in drawing


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_who_does_not_see_it_is_told(texts, kind):
    seen = Seen(texts[kind])
    assert seen.all("html") == [{"lang": "en"}]
    assert len(seen.all("h1")) == 1
    order = [tag for tag, _ in seen.tags if re.fullmatch(r"h\d", tag)]
    assert order[0] == "h1"
    assert set(order[1:]) == {"h2"}
    assert len(seen.all("table")) == len(seen.all("caption"))
    assert all(cell.get("scope") in ("col", "row") for cell in seen.all("th"))
    assert all(drawing.get("role") == "img" and drawing["aria-labelledby"] for drawing in seen.all("svg"))
    assert len(seen.all("svg")) <= len(seen.all("title")) - 1  # one of them is the document's
    assert all(picture["alt"] for picture in seen.all("img"))
    assert all(int(value) <= 0 for value in seen.values("tabindex"))  # none comes before its turn
    assert seen.all("a")[0] == {"class": "skip", "href": "#verdict"}


def luminance(colour: str) -> float:
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


COLOURS = [dict(re.findall(r"--(\w+): (#\w{6});", rule)) for rule in re.findall(r":root \{(.*?)\}", STYLE)]


def test_there_is_a_set_of_colours_for_light_for_dark_and_for_paper():
    assert [len(colours) for colours in COLOURS] == [10, 10, 10]
    assert COLOURS[0].keys() == COLOURS[1].keys() == COLOURS[2].keys()


@pytest.mark.parametrize("colours", COLOURS, ids=["light", "dark", "paper"])
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_text_stands_out_from_its_ground(colours, ground):
    for name in ("ink", "soft", "link", "good", "fair", "poor"):
        high, low = sorted((luminance(colours[name]), luminance(colours[ground])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, name  # WCAG 2.2, 1.4.3


PROGRAM = """
import hashlib, numpy as np, rhocover as rc
from rhocover.report.pages.comparison import page_of_comparison
from rhocover.report.pages.rendering import page_html
from rhocover.report.pages.run import page_of_run
found = rc.compare("river_swim", ["feedback", "tracking"], rho=[2, np.inf], num_steps=200, seeds=2, workers=1)
pages = page_of_run(rc.explore(rc.envs.wheel(), 2.0, 500)), page_of_comparison(found)
print([hashlib.sha256(page_html(page).encode()).hexdigest() for page in pages])
"""


@pytest.mark.thorough
def test_the_same_result_gives_the_same_bytes_in_another_process():
    lines = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert lines[0] == lines[1]
    assert len(lines[0]) > 128


def test_a_page_can_be_drawn_twice(pages):
    assert page_html(pages["run"]) == page_html(pages["run"])


@pytest.mark.thorough
def test_large_models_have_small_pages():
    mdp = rc.envs.grid_world(num_rows=30, num_columns=30)
    text = page_html(page_of_run(rc.explore(mdp, 2.0, 3000)))
    assert "data:image/png;base64" in text
    assert len(text) < 2_000_000
    figure = occupancy_figure(mdp, np.full(mdp.num_pairs, 1 / mdp.num_pairs))
    drawn = picture_html(Picture(figure, "caption", "what it shows"), "name")
    assert len(svg_html(figure, "name", "")) > LONGEST > len(drawn)
    assert 'alt="what it shows"' in drawn


@pytest.mark.parametrize("num_states", [6, 120])
def test_states_that_lie_nowhere_have_a_curve_instead_of_a_map(num_states):
    mdp = rc.envs.garnet(num_states=num_states)
    page = page_of_run(rc.explore(mdp, 2.0, 2 * num_states))
    [picture] = page.sections[0].parts
    assert isinstance(picture, Picture)
    assert picture.caption.startswith("All pairs, sorted")
    assert "were never visited" in picture.caption
    assert is_legible(picture.figure)


CELLS = rc.Bins((3, 2), low=(0, 0), high=(3, 2), names=("speed", "height"))


def cell_rows():
    """Returns rows over four of the six bins: there and back along the lower row, and up and down once."""
    points = np.array(
        [[0.5, 0.5], [1.5, 0.5], [0.5, 0.5], [1.5, 0.5], [1.5, 1.5], [0.5, 1.5], [0.5, 0.5]] * 9
    )
    return points[:-1], np.zeros(len(points) - 1, int), points[1:], np.zeros(len(points) - 1, bool)


def test_the_page_of_binned_data_has_maps_with_named_axes():
    found = audit(cell_rows(), states=CELLS)
    page = page_of_audit(found)
    maps = [part for part in page.sections[0].parts if isinstance(part, Picture)]
    assert [axes.get_xlabel() for axes in maps[0].figure.axes[:3]] == ["", "speed", "speed"]  # two below one
    assert is_legible(maps[0].figure)
    assert maps[0].figure.axes[0].get_ylabel() == "height"
    assert "logarithmic scale" in maps[0].caption
    assert "Black ones were never visited." in maps[1].caption
    assert "Grey" not in maps[1].caption
    assert [axes.get_title() for axes in maps[1].figure.axes[:2]] == ["in the data", "best of observed model"]
    met = page_of_audit(audit(cell_rows(), states=CELLS, met_only=True)).sections[0].parts[1]
    assert isinstance(met, Picture)
    assert met.caption.endswith("Grey bins were never visited and have no target.")
    assert met.figure.axes[1].get_title() == "best plan"


def test_the_best_of_what_was_seen_says_nothing_of_pairs_that_were_not():
    least = page_of_audit(audit(cell_rows(), states=CELLS)).sections[1].parts[0]
    assert isinstance(least, Table)
    assert [row[-1] for row in least.rows[:2]] == ["-", "-"]
    assert all(row[-1] not in ("-", "∞") for row in least.rows[2:])


@pytest.mark.parametrize("low", [1e-9, 1e-3, 0.5, 1.0])
@pytest.mark.parametrize("unseen", [0, 3])
def test_curves_of_shares_can_be_read(low, unseen):
    ratio = np.r_[np.full(unseen, np.inf), np.geomspace(1 / low, 0.5, 5000)]
    figure = shares_figure(ratio, np.geomspace(2, 0.9, ratio.size))
    heights = figure.axes[0].lines[1].get_ydata()
    assert heights[0] == pytest.approx(min(low, 0.5) / 2 if unseen else low, rel=1e-12)  # below all others
    assert len(heights) <= 2000
    assert is_legible(figure)
    words = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert words.count("none") == bool(unseen)
    if unseen:  # a line of its own: no share is written there, nor below
        assert words[0] == "none"
        assert figure.axes[0].get_yticks()[0] == pytest.approx(heights[0])
        assert figure.axes[0].get_yticks()[1] > 1.5 * heights[0]
    assert is_legible(discovery_figure(np.array([1, 10, 100]), np.array([1, 5, 5]), 5 + unseen))


def test_a_page_is_written_whole_and_never_over_another(pages, tmp_path):
    path = tmp_path / "new" / "page.html"
    write_page(pages["plan"], path)
    with pytest.raises(InvalidArgumentError, match="exists already"):
        write_page(pages["run"], path)
    assert path.read_text("utf-8") == page_html(pages["plan"])
    write_page(pages["run"], path, overwrite=True)
    assert path.read_text("utf-8") == page_html(pages["run"])
