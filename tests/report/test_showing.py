"""Every result shows itself: as a card in a notebook, as a picture, as a page, and as a data frame."""

from __future__ import annotations

import base64
import io
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from PIL import Image
from read_pages import EVIL, Seen
from shown_results import HARD, RESULTS, RIVER, card, collection, result

import rhocover as rc
from rhocover.datasets import read_tally
from rhocover.errors import InvalidArgumentError, MissingExtraError, UnknownNameError
from rhocover.plugins import VIEWS, load, members
from rhocover.report import cards
from rhocover.report.pages import Page, Section, Verdict
from rhocover.report.pages.audit import page_of_audit
from rhocover.report.pages.rendering import page_html
from rhocover.showing import Shown, View, view_of
from tiers import tiered

SMALL = 120_000  # characters of a card, most of them its picture
MOST_TEXT = 12_000  # of them without the picture
NAMES = [*RESULTS, *HARD]
VOID = {"img", "br", "hr", "meta", "link", "input"}


# --- the classes ------------------------------------------------------------------------------------


def test_every_class_that_shows_itself_has_a_view_and_every_view_a_class():
    assert {kind.__name__ for kind in Shown.__subclasses__()} == set(members(VIEWS)) == set(RESULTS)
    assert all(isinstance(load(VIEWS, name), View) for name in members(VIEWS))


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_of_its_class_and_has_the_whole_layer(name):
    found = result(name)
    assert name in [kind.__name__ for kind in type(found).__mro__]
    for method in ("plot", "report", "to_pandas", "to_polars", "_repr_html_"):
        assert callable(getattr(found, method))


def test_a_subclass_has_the_view_of_the_class_it_extends():
    assert view_of(result("a run in bins")) is view_of(result("Run"))


# --- cards ------------------------------------------------------------------------------------------


class Balanced(HTMLParser):
    """Reads HTML, and notes tags that are closed in another order than they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.wrong.append(f"{tag} has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def picture_in(html: str) -> Image.Image:
    (attributes,) = Seen(html).all("img")
    kind, _, data = attributes["src"].partition(",")
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize("name", tiered(NAMES, short=[*RESULTS, "hostile names"]))
def test_a_card_is_small_valid_html_with_one_picture_that_has_a_text(name):
    html = card(name)
    assert html.startswith('<div class="rhocover-card">'), "it could not be drawn"
    assert len(html) < SMALL
    assert len(re.sub(r"base64,[^\"]*", "", html)) < MOST_TEXT
    read = Balanced(html)
    assert (read.open, read.wrong) == ([], [])
    seen = Seen(html)
    assert seen.all("img")[0]["alt"]
    assert not seen.values("id")  # a name could be that of another output
    assert not {"script", "iframe", "link"} & {tag for tag, _ in seen.tags}
    picture = picture_in(html)
    assert min(picture.size) > 100
    assert len(np.unique(np.asarray(picture.convert("L")))) > 10  # something is drawn on it


@pytest.mark.parametrize("name", RESULTS)
def test_a_card_has_the_verdict_and_a_table(name):
    seen = Seen(card(name))
    assert seen.all("table")
    text = " ".join("".join(seen.text).split())
    verdict = getattr(result(name), "verdict", "")
    assert verdict in text


def test_two_cards_of_one_result_are_the_same():
    assert result("Plan")._repr_html_() == card("Plan")


def test_the_style_of_a_card_is_about_cards_alone():
    """Every selector begins with the class; otherwise the style would change the notebook."""
    plain = re.sub(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)\s*\}", r"\1", cards.STYLE)
    selectors = [part.strip() for group in re.findall(r"([^{}]+)\{", plain) for part in group.split(",")]
    theme = re.compile(r'(\[data-jp-theme-light="(true|false)"\] )?\.rhocover-card\b')
    assert len(selectors) > 15
    assert [selector for selector in selectors if not theme.match(selector)] == []
    assert "prefers-color-scheme: dark" in cards.STYLE
    assert "--jp-content-font-color1" in cards.STYLE


@pytest.mark.parametrize("name", tiered(["hostile names", "a hostile model", "a hostile tally"]))
def test_names_are_text_and_nothing_else(name):
    html = card(name)
    assert "<script" not in html
    assert "onerror" not in {key for _, found in Seen(html).tags for key in found}
    assert EVIL[:8] not in html
    assert EVIL in "".join(Seen(html).text)


def test_a_result_that_cannot_be_drawn_shows_its_text(monkeypatch):
    def fails(*_):
        raise MemoryError("no canvas")

    found = rc.MDP(RIVER.dense(), name="<b>river</b>")
    monkeypatch.setattr(cards, "small_png", fails)
    assert found._repr_html_() == "<pre>MDP(&lt;b&gt;river&lt;/b&gt;: 6 states, 2 actions, 12 pairs)</pre>"


def test_a_result_without_even_a_text_shows_its_class():
    class Broken(Shown):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert Broken()._repr_html_() == "<pre>&lt;Broken&gt;</pre>"


def test_an_empty_tally_shows_that_it_is_empty():
    empty = rc.CountVisits(__import__("gymnasium").make("FrozenLake-v1")).visits
    assert empty._repr_html_().startswith("<pre>")


def test_a_card_may_not_hold_what_it_cannot_show():
    from rhocover.report.pages import Code

    with pytest.raises(TypeError, match="Code"):
        cards.card_html(Page("k", "t", Verdict("v"), sections=(Section("", (Code("x"),)),)))


def test_ipython_shows_the_card():
    from IPython.core.formatters import DisplayFormatter

    data, _ = DisplayFormatter().format(result("Plan"))
    assert data["text/html"] == card("Plan")
    assert data["text/plain"] == repr(result("Plan"))


# --- pictures ---------------------------------------------------------------------------------------


def kinds() -> list[tuple[str, str]]:
    return [(name, kind) for name in RESULTS for kind in load(VIEWS, name).pictures]


@pytest.mark.parametrize(("name", "kind"), tiered(kinds(), short=[kinds()[0]]))
def test_every_kind_of_picture_is_drawn(name, kind):
    figure = result(name).plot(kind)
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), format="png", dpi=30)


@pytest.mark.parametrize("name", tiered(NAMES, short=["Plan", "a model without a layout"]))
def test_the_usual_picture_is_drawn_with_a_title_of_ones_own(name):
    figure = result(name).plot(title="A title")
    assert any(
        "A title" in text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text"))
    )


def test_pyplot_knows_nothing_of_the_pictures():
    result("Run").plot()
    assert card("Run")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_a_comparison_draws_the_model_and_order_that_are_asked_for():
    found = rc.compare(["river_swim", "wheel"], "tracking", rho=[1, 2], num_steps=100, seeds=1, workers=1)
    words = [text.get_text() for text in found.plot("worst_ratio", env="wheel", rho=2).texts]
    assert any("wheel" in word and "2" in word for word in words)
    with pytest.raises(UnknownNameError, match="env"):
        found.plot(env="six_arms")


@pytest.mark.parametrize("name", RESULTS)
def test_an_unknown_kind_is_refused_with_the_known_ones(name):
    first = next(iter(load(VIEWS, name).pictures))
    with pytest.raises(UnknownNameError, match=first):
        result(name).plot("hologram")
    first = next(iter(load(VIEWS, name).tables))
    with pytest.raises(UnknownNameError, match=first):
        result(name).to_pandas("hologram")


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("an incomplete run", "regret", "coverage is incomplete"),
        ("a model without a layout", "map", "has no layout"),
        ("a tiny audit", "over_time", "too few batches"),
    ],
)
def test_a_picture_that_there_is_nothing_for_is_refused(name, kind, why):
    found = rc.audit(([0], [0], [0], [False])) if name == "a tiny audit" else result(name)
    with pytest.raises(InvalidArgumentError, match=why) as caught:
        found.plot(kind)
    assert caught.value.argument == "kind"


# --- pages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiered(NAMES, short=["Plan", "MDP"]))
def test_a_report_is_one_page_of_its_own(name, tmp_path):
    path = result(name).report(tmp_path / "page.html")
    text = path.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert Balanced(text).wrong == []
    assert "Content-Security-Policy" in text


def test_a_report_is_the_page_that_the_command_writes(tmp_path):
    found = result("Audit")
    assert found.report(tmp_path / "a.html").read_text("utf-8") == page_html(page_of_audit(found))
    assert collection().report(tmp_path / "c.html").read_text("utf-8") == collection().page.read_text("utf-8")


@pytest.mark.parametrize(
    ("asked", "visits"),
    [
        ({}, "long-run visits"),
        ({"discount": 0.9}, "discounted by 0.9"),
        ({"horizon": 6}, "episodes of 6 steps"),
    ],
)
def test_the_report_of_a_plan_says_which_visits_count(asked, visits, tmp_path):
    path = rc.plan(RIVER, 2.0, restrict=True, **asked).report(tmp_path / "page.html")
    terms = re.findall(r"<dt>visits that count</dt><dd>(.*?)</dd>", path.read_text("utf-8"))
    assert len(terms) == 1
    assert visits in terms[0]


def test_a_report_is_not_written_over_another_unless_asked(tmp_path):
    path = result("Plan").report(str(tmp_path / "page.html"))
    with pytest.raises(InvalidArgumentError, match="exists already"):
        result("Plan").report(path)
    assert result("Plan").report(path, overwrite=True) == path
    with pytest.raises(InvalidArgumentError, match=r"`path` must end in \.html"):
        result("Plan").report(tmp_path / "page.pdf")


# --- data frames ------------------------------------------------------------------------------------


def tables() -> list[tuple[str, str]]:
    found = [(name, rows) for name in RESULTS for rows in load(VIEWS, name).tables]
    return [*found, *((name, "") for name in HARD)]


@pytest.mark.parametrize(("name", "rows"), tiered(tables(), short=tables()[: -len(HARD)]))
def test_pandas_and_polars_get_the_same_table(name, rows):
    first, second = result(name).to_pandas(rows or None), result(name).to_polars(rows or None)
    assert isinstance(first, pd.DataFrame)
    assert isinstance(second, pl.DataFrame)
    assert len(first) > 0
    assert list(first.columns) == second.columns
    for column in first:
        np.testing.assert_array_equal(first[column].to_numpy(), second[column].to_numpy())
        assert second[column].dtype != pl.Object


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named_with_the_line_that_installs_it(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'rhocover\[{package}\]'"):
        getattr(result("Plan"), f"to_{package}")()


@pytest.mark.parametrize(
    "name", ["Plan", "Run", "Audit", "a plan of episodes", "a run of episodes", "an incomplete run"]
)
def test_shares_sum_to_one_and_the_ratio_is_target_over_share(name):
    frame = result(name).to_pandas()
    assert frame["occupancy"].sum() == pytest.approx(1, abs=1e-9)
    assert frame["target"].sum() == pytest.approx(1, abs=1e-9)
    visited = frame[frame["occupancy"] > 0]
    np.testing.assert_allclose(visited["ratio"], visited["target"] / visited["occupancy"], rtol=1e-12)
    missed = frame[(frame["occupancy"] == 0) & (frame["target"] > 0)]
    assert np.isinf(missed["ratio"]).all()


def test_a_row_of_a_plan_is_its_pair():
    plan = result("Plan")
    for row in plan.to_pandas().itertuples():
        assert row.policy == plan.policy[row.state, row.action]
        assert row.occupancy == plan.occupancy[row.state, row.action]
        assert row.action_name == RIVER.action_labels[row.action]


def test_a_row_of_a_plan_of_episodes_is_a_pair_at_a_step():
    plan = result("a plan of episodes")
    frame = plan.to_pandas()
    assert len(frame) == 3 * 12
    for row in frame.itertuples():
        assert row.occupancy == plan.occupancy[row.step, row.state, row.action]


def test_the_transitions_of_a_model_make_the_model_again():
    frame, P = RIVER.to_pandas(), np.zeros((6, 2, 6))
    P[frame["state"], frame["action"], frame["next_state"]] = frame["probability"]
    np.testing.assert_array_equal(P, RIVER.dense())


def test_counts_of_a_table_are_those_of_the_result():
    run, tally = result("Run"), result("Tally")
    assert run.to_pandas()["count"].sum() == run.num_steps
    assert len(run.to_pandas("trace")) == len(run.trace)
    assert tally.to_pandas()["count"].sum() == tally.num_steps
    assert tally.to_pandas("transitions")["count"].sum() + tally.to_pandas()["ends"].sum() == tally.num_steps


def test_a_comparison_has_one_row_for_each_run_and_for_each_of_its_steps():
    found = result("Comparison")
    runs, trace = found.to_pandas(), found.to_pandas("trace")
    assert len(runs) == 1 * 1 * 2 * 2
    assert len(trace) == len(runs) * found.steps.size
    for row in runs.itertuples():
        seed = found.seeds.index(row.seed)
        assert row.worst_ratio == found.values(row.env, row.rho, row.explorer, "worst_ratio")[seed, -1]
    last = trace[trace["steps"] == found.num_steps].reset_index(drop=True)
    np.testing.assert_array_equal(last["regret"], runs["regret"])


def test_a_comparison_on_environments_has_a_row_for_each_thing_that_was_found():
    found = result("EnvComparison")
    runs, new = found.to_pandas(), found.to_pandas("discoveries")
    assert len(runs) == 2 * 2
    assert len(new[new["kind"] == "codes"]) == runs["codes"].sum()
    assert (new.groupby(["env", "explorer", "seed", "kind"])["step"].is_monotonic_increasing).all()


def test_a_frame_may_be_changed_and_the_result_may_not():
    frame = result("Plan").to_pandas()
    frame.loc[0, "policy"] = 7.0
    assert result("Plan").policy.max() <= 1.0


def test_names_that_utf8_cannot_encode_are_escaped():
    mdp = rc.MDP(rc.envs.river_swim(num_states=2).dense(), state_labels=["a\udcff", "b"], name="\udcff")
    assert mdp.to_polars()["state_name"].to_list()[0] == "a\\udcff"
    assert mdp._repr_html_().startswith('<div class="rhocover-card">')


# --- large ------------------------------------------------------------------------------------------


def large_tally() -> rc.MDP:
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, 50_000, 100_000), rng.integers(0, 3, 100_000)
    return read_tally((states, actions, np.roll(states, -1), np.zeros(100_000, bool)))


LARGE = {
    "a map": lambda: rc.envs.grid_world(num_rows=200, num_columns=200),
    "a matrix": lambda: rc.envs.garnet(num_states=20_000),
    "a list": large_tally,
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LARGE)
def test_the_card_of_a_large_result_is_as_small(kind):
    html = LARGE[kind]()._repr_html_()
    assert html.startswith('<div class="rhocover-card">')
    assert len(html) < SMALL
