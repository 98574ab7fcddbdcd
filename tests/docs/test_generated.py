"""What is generated when the site is built comes from what it speaks of."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from extensions import PAGES, extension, name_of

import rhocover as rc

TIMES = chr(0xD7)


def rows(*ratios: float | None, peer: str = "Other") -> list[dict]:
    return [
        {"case": str(k), "peer": peer, "ratio": ratio, "quantity": "seconds"}
        for k, ratio in enumerate(ratios)
    ]


def store(folder: Path, name: str, found: list[dict]) -> None:
    document = {"name": name, "title": name.title(), "question": "?", "result": {"rows": found}}
    (folder / f"{name}.json").write_text(json.dumps(document), "utf-8")


def test_without_results_there_are_no_figures(tmp_path: Path) -> None:
    assert extension("headline").headline(tmp_path) == ""


def test_figures_are_medians_against_the_first_peer_and_tell_of_the_closest_and_where_we_are_behind(
    tmp_path: Path,
) -> None:
    store(
        tmp_path,
        "planner",
        rows(90.0, 100.0, 110.0, peer="Slow & known") + rows(0.5, 3.0, 8.0, None, peer="Near"),
    )
    store(tmp_path, "oracle", rows(2.0))
    shown = extension("headline").headline(tmp_path)
    assert re.findall(r"class='number'>([^<]+)<", shown) == [f"100{TIMES}", f"2{TIMES}"]
    assert "Planner: seconds of Slow &amp; known, relative to ours" in shown
    assert f"Median of 3. Closest of 2: Near, 3{TIMES}. Behind in 1 of 6 rows." in shown
    assert "Behind in 0 of 1 rows." in shown
    store(tmp_path, "oracle", [row | {"verdict": "even"} for row in rows(0.9)])
    assert "Behind in 0 of 1 rows." in extension("headline").headline(tmp_path)


def test_no_more_than_three_figures_are_shown_and_a_peer_without_numbers_has_none(tmp_path: Path) -> None:
    for name in ("planner", "explorers", "simulator", "oracle"):
        store(tmp_path, name, rows(None) if name == "planner" else rows(12.4))
    assert (
        re.findall(r"class='number'>([^<]+)<", extension("headline").headline(tmp_path)) == [f"12{TIMES}"] * 3
    )


def test_the_picture_of_the_first_page_has_a_triangle_for_each_pair_and_says_what_the_worst_gets() -> None:
    import gymnasium as gym

    mdp = rc.MDP.from_gymnasium(gym.make("FrozenLake-v1", map_name="8x8"))
    picture = extension("landing").landing()
    assert picture.count("<polygon") == 4 * mdp.num_pairs
    for rho in (0.0, 2.0, float("inf")):
        worst = rc.plan(mdp, rho=rho).worst_ratio
        assert f"worst pair: 1/{worst:,.0f} of its share" in picture


def test_every_public_name_has_a_group_and_a_first_sentence() -> None:
    shown = extension("names_page").names()
    for name in set(rc.__all__) - {"__version__"}:
        found = re.search(rf"^\| \[?`rc\.{name}`\S* \| (.+) \|$", shown, re.MULTILINE)
        assert found, name
        assert found[1].strip()


def test_a_name_without_a_group_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rc, "__all__", [*rc.__all__, "brand_new"])
    with pytest.raises(LookupError, match="brand_new"):
        extension("names_page").names()


def test_every_mark_on_a_page_has_a_function_and_every_function_a_page() -> None:
    generated = extension("generated")
    marks = {mark for path in PAGES for mark in generated.MARK.findall(path.read_text("utf-8"))}
    assert marks == set(generated.PARTS)
    source = ["before\n<!-- generated: headline -->\nafter"]
    generated.fill_in(None, "index", source)
    assert "generated:" not in source[0]
    assert name_of(PAGES[0])
