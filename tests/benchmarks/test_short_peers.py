"""The comparisons run in their short form: the same code on less work. Nothing here looks at a clock.

What peers and we are held to is what they answer: same law, same counts, same figures. Peers that are not
installed are said to be absent.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import rhocover as rc
from benchmarks import page, report
from benchmarks.peers import audit, explorer_runs, explorers, simulator, simulator_players
from benchmarks.peers.explorer_systems import OURS, SYSTEMS
from tiers import tiered

MODULES = {"simulator": simulator, "audit": audit, "explorers": explorers}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("short")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, dict]:
    """Measures each in its short form, keeps it as the command does, and returns what was kept."""
    for name, module in MODULES.items():
        page.store(name, module, module.measure(short=True), folder)
    return {document["name"]: document["result"] for document in page.load(folder)}


@pytest.mark.thorough
def test_short_measurements_are_kept_drawn_and_rendered(folder: Path, found: dict[str, dict]) -> None:
    assert set(found) == set(MODULES)
    page.write_page(folder)
    text = (folder / page.PAGE).read_text("utf-8")
    for name, module in MODULES.items():
        assert f"## {module.TITLE}" in text
        assert module.section(found[name]).splitlines()[0] in text
    for picture in (folder / page.FOLDER).glob("*.svg"):
        assert f"(benchmarks/{picture.name})" in text


@pytest.mark.thorough
def test_rows_have_what_the_page_reads(found: dict[str, dict]) -> None:
    for result in found.values():
        assert result["rows"]
        for row in result["rows"]:
            assert {"case", "peer", "ours", "theirs", "ratio"} <= set(row)
            if not row.get("failure"):
                assert row["ratio"] == pytest.approx(row["theirs"] / row["ours"], rel=1e-12)


@pytest.mark.thorough
def test_everyone_follows_the_law_of_the_table(found: dict[str, dict]) -> None:
    """15 chi-square tests at 1e-6 each: they fail by chance in 1.5e-5 of all seeds, which are fixed."""
    laws = found["simulator"]["laws"]
    assert len(laws) == 5 * len(simulator.ENVIRONMENTS)
    assert all(law["holds"] for law in laws)
    assert all(law["freedom"] > 0 for law in laws if law["environment"] == "FrozenLake-v1")


def test_a_walk_on_another_model_is_noticed() -> None:
    """The test of the law can fail: a walk on one model is not one on another."""
    mdp, other = (rc.MDP(found.dense(), start=0) for found in (
        rc.envs.river_swim(), rc.envs.river_swim_strong_current()
    ))  # fmt: skip
    _, counts = simulator_players.ours(mdp, 1, 20_000, seed=0)
    statistic, freedom = simulator.pearson(mdp, counts)
    assert scipy.stats.chi2.sf(statistic, freedom) > 1e-6
    wrong, freedom = simulator.pearson(other, counts)
    assert scipy.stats.chi2.sf(wrong, freedom) < 1e-6


@pytest.mark.parametrize("kind", tiered([audit.ARRAYS, audit.NPZ, audit.PARQUET]))
def test_scripts_and_audit_say_the_same(kind: str, tmp_path: Path) -> None:
    """To rounding: both are a few operations on the same whole numbers."""
    data = audit.write_all(tmp_path, 5_000, [audit.ARRAYS, audit.NPZ, audit.PARQUET])[kind]
    scripts = [audit.numpy_script] + [audit.pandas_script] * (report.absent("pandas") is None)
    for script in scripts:
        assert audit.difference(kind, data, script) < 1e-12


@pytest.mark.thorough
def test_absent_peers_are_said_to_be_absent(found: dict[str, dict]) -> None:
    for name, package in (("audit", "pandas"), ("explorers", "rlberry")):
        line = report.absent(package)
        assert found[name].get("absent", {}).get(package) == line


@pytest.mark.thorough
def test_every_cited_system_is_compared(found: dict[str, dict]) -> None:
    walking = {x for x in SYSTEMS if SYSTEMS[x].play != "rlberry"}
    assert {entry["system"] for entry in found["explorers"]["table"]} >= walking
    assert {row["peer"] for row in found["explorers"]["rows"]} >= walking - set(OURS.values())
    cited = {type(SYSTEMS[x].explorer).__name__ for x in SYSTEMS}
    assert cited >= set(rc.baselines.__all__) - {"generative_world"}


def test_taking_down_visits_changes_nothing() -> None:
    """A watched explorer acts as the one that it watches, and what is taken down last is the run's end."""
    system, mdp = SYSTEMS["EntGame"], explorer_runs.ENVIRONMENTS["Wheel(5)"]()
    kept = explorer_runs._episodes("Wheel(5)", system, 400, seed=3)
    start = 0 if mdp.start is None else None
    plain = rc.explore(
        mdp, 2.0, 400, explorer=system.explorer, model="learned", seed=3, horizon=20, start=start
    )
    assert np.array_equal(kept[-1].reshape(plain.counts.shape[1:]), plain.counts.sum(axis=0))
    assert [int(row.sum()) for row in kept] == [
        -(-mark // 20) * 20 for mark in explorer_runs.grid_of_steps(400, explorer_runs.PER_DECADE)
    ]


def test_a_draw_at_the_desk_counts_as_one_step() -> None:
    kept = explorer_runs._desk("Wheel(5)", SYSTEMS["adaptive sampling"], 400, seed=0)
    assert 400 <= kept[-1].sum() <= 400 * (1 + 1 / 16)


def entry(system: str, mean: float | None, error: float = 0.01, incomplete: int = 0) -> dict:
    figures = {"mean": mean, "error": error, "excess": None if mean is None else mean - 1.0}
    return {
        "environment": "E", "system": system, "group": "known", "play": "trajectory", "runs": 20,
        "incomplete": incomplete, explorers.WORST: figures, explorers.DIVERGENCE: figures,
    }  # fmt: skip


def test_a_difference_within_noise_is_even_and_beyond_it_is_not() -> None:
    ours = entry(OURS["known"], 1.10)
    for mean, verdict in ((1.12, "even"), (1.09, "even"), (1.20, "ahead"), (1.05, "behind")):
        rows = explorers.compared(entry("them", mean), [ours])
        assert [report.verdict(row) for row in rows] == [verdict, verdict]
        assert rows[0]["ratio"] == pytest.approx((mean - 1.0) / 0.1)


def test_an_excess_within_noise_is_replaced_by_twice_its_standard_error() -> None:
    ours = entry(OURS["known"], 0.99)
    (row, _) = explorers.compared(entry("them", 1.5), [ours])
    assert row["ours"] == pytest.approx(0.02)
    assert row["ratio"] == pytest.approx(25.0)


def test_a_run_that_left_pairs_unvisited_is_a_failure() -> None:
    rows = explorers.compared(entry("them", None, incomplete=3), [entry(OURS["known"], 1.1)])
    assert [row["failure"] for row in rows] == ["3 of 20 runs left pairs unvisited"] * 2
    assert explorers.compared(entry(OURS["known"], 1.1), []) == []


@pytest.mark.thorough
def test_results_survive_json(found: dict[str, dict]) -> None:
    for result in found.values():
        assert json.loads(json.dumps(result, allow_nan=False)) == result
