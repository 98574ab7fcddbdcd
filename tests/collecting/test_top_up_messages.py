"""What top_up() refuses, and the sentences and numbers in which it says what it found."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from lake_walks import INF, is_a_sentence, lake, model_steps, random_steps
from toy_environments import Ring, contents

import rhocover as rc
from rhocover.collecting.top_up_result import page_of_top_up
from rhocover.datasets import audit_tally, read_tally
from rhocover.errors import InvalidArgumentError, InvalidDataError, RhocoverError, UnknownNameError
from rhocover.report.pages.rendering import page_html
from tiers import tiered

pytestmark = pytest.mark.usefixtures("small_parts")


# --- what is refused -----------------------------------------------------------------------------------


def few_actions(walked):
    """Returns the steps whose action was 0 or 1, each an episode of its own."""
    kept = walked[1] < 2
    return (*(column[kept] for column in walked[:4]), ~walked[3][kept])


def test_what_is_wrong_is_refused_by_name_before_a_folder_is_made(walked, tmp_path):
    out, cliff = tmp_path / "new", gym.make("CliffWalking-v1")
    empty = tuple(column[:0] for column in walked)
    cases: list[tuple] = [
        ((walked,), {"num_steps": 0}, InvalidArgumentError, "`num_steps` must be at least 1"),
        ((walked,), {}, InvalidArgumentError, "`num_steps` must be at least 1"),
        ((walked,), {"num_steps": 1.5}, RhocoverError, "`num_steps`"),
        ((random_steps(Ring(), 90), Ring()), {"num_steps": 9}, InvalidArgumentError, "no table of its trans"),
        ((walked,), {"num_steps": 9, "out": out}, InvalidArgumentError, "`out` is the folder for new data"),
        ((model_steps(rc.envs.river_swim(), 9), rc.envs.river_swim()), {"num_steps": 9, "out": out}, InvalidArgumentError, "`out` is the folder"),
        ((walked, Ring()), {"num_steps": 9, "out": out}, InvalidDataError, "another environment"),
        ((read_tally(walked), Ring()), {"num_steps": 9, "out": out}, InvalidDataError, "4 actions, but `env` has 3"),
        ((read_tally(few_actions(walked)), lake()), {"num_steps": 9, "out": out}, InvalidDataError,
         r"2 actions, but `env` has 4.*read_tally\(data, num_actions=4\)"),
        ((random_steps(cliff, 400), lake()), {"num_steps": 9, "out": out}, InvalidDataError,
         "another environment"),
        ((walked, cliff), {"num_steps": 9, "out": out}, InvalidDataError, "another environment"),
        ((empty, lake()), {"num_steps": 9, "out": out}, InvalidDataError, "zero rows"),
        ((empty,), {"num_steps": 9}, InvalidDataError, "zero rows"),
        (("nothing.npz", lake()), {"num_steps": 9, "out": out}, InvalidDataError, "there is no file"),
        ((walked, "FrozenLake-v1"), {"num_steps": 9, "out": out}, InvalidArgumentError, "gymnasium.make"),
        ((walked, lake()), {"num_steps": 9, "out": out, "model": "psychic"}, UnknownNameError, "learned"),
        ((walked, lake()), {"num_steps": 9, "out": out, "rho": -1}, InvalidArgumentError, "`rho`"),
        ((walked, lake()), {"num_steps": 9, "out": out, "seed": -1}, InvalidArgumentError, "`seed`"),
        ((walked, lake()), {"num_steps": 9, "out": out, "dataset_id": "../x"}, RhocoverError, "`dataset_id`"),
        ((walked, lake()), {"num_steps": 9, "out": out, "mu": np.ones((3, 4))}, RhocoverError, "`mu`"),
        ((few_actions(walked), gym.make("MountainCar-v0")), {"num_steps": 9, "out": out}, RhocoverError, "states"),
    ]  # fmt: skip
    for args, named, error, words in cases:
        with pytest.raises(error) as caught:
            rc.top_up(*args, **named)
        assert re.search(words, str(caught.value)), str(caught.value)
        assert not out.exists(), words


def test_an_environment_says_how_many_actions_there_are(walked, tmp_path):
    """Data that never took the last two is counted with all four; counts that lack them say the way out."""
    for number, data in enumerate((few_actions(walked), read_tally(few_actions(walked), num_actions=4))):
        found = rc.top_up(data, lake(), 100, out=tmp_path / str(number))
        assert found.before.counts.shape == (11, 4)
        assert found.before.num_missing == 22
        assert found.after.num_steps == found.before.num_steps + 100


def test_an_existing_folder_is_never_overwritten(walked, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("years of work", "utf-8")
    rc.top_up(walked, lake(), 80, out=tmp_path / "new")
    hashes = contents(tmp_path)
    for name in ("full", "new"):
        with pytest.raises(InvalidArgumentError, match="`out`"):
            rc.top_up(walked, lake(), 80, out=tmp_path / name)
    assert contents(tmp_path) == hashes


def test_new_data_never_goes_into_the_folder_of_the_old(tmp_path):
    old = rc.collect(lake(), 2.0, 100, out=tmp_path / "old")
    hashes = contents(tmp_path / "old")
    with pytest.raises(InvalidArgumentError, match="`out`"):
        rc.top_up(old, lake(), 80, out=tmp_path / "old")
    assert contents(tmp_path / "old") == hashes


# --- what it says --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered([0, 1, 2, INF], short=[2]))
def test_the_sentence_says_from_where_to_where(walked, tmp_path, rho):
    """In the figure that rho is about, and beside what a fresh collection would come to."""
    planned = rc.top_up(walked, num_steps=300, rho=rho)
    done = rc.top_up(walked, lake(), 300, rho, out=tmp_path / "new")
    for found, verb, reached in ((planned, "would bring", planned.predicted), (done, "brought", done.after)):
        figure = "worst_ratio" if rho == INF else "divergence"
        old, new = (getattr(part, figure) for part in (found.before, reached))
        assert is_a_sentence(found.verdict)
        assert found.verdict.startswith(f"300 more steps {verb} the {figure.replace('_', ' ')}")
        assert f" from {old:.3g} to {new:.3g}" in found.verdict
        assert f" {getattr(found.before.best, figure):.3g} " in found.verdict.split(";")[1]


def test_the_sentence_counts_pairs_while_some_were_never_tried(walked, tmp_path):
    few = read_tally(tuple(column[:60] for column in walked), num_actions=4)
    for num_steps in (20, 5000):
        found = rc.top_up(few, lake(), num_steps, out=tmp_path / str(num_steps))
        assert not found.before.is_complete
        assert found.after.is_complete == (num_steps == 5000)
        assert is_a_sentence(found.verdict)
        assert f"from {found.before.coverage_text} to {found.after.coverage_text}" in found.verdict
        assert ("divergence" in found.verdict) == found.after.is_complete


RIVER = rc.envs.river_swim()


def lucky_rows(times: int = 50):
    """Returns rows with the same visits to all pairs of the river, which no policy makes in the long run."""
    s, a = np.divmod(np.tile(np.arange(12), times), 2)
    return s, a, np.where(a == 0, np.maximum(s - 1, 0), s), np.zeros(s.size, bool)


LUCKY = (
    "the union is worse than the data, because by chance the data are better than the visits of any policy"
)


def test_data_that_an_addition_makes_worse_is_told_why(walked):
    found = rc.top_up(lucky_rows(), RIVER, num_steps=3000)
    assert found.before.divergence == pytest.approx(0, abs=1e-12)
    assert found.before.divergence < found.predicted.divergence < found.fresh_divergence
    assert is_a_sentence(found.verdict)
    assert LUCKY in found.verdict
    assert html.escape(LUCKY) in page_html(page_of_top_up(found, ""))
    assert LUCKY not in rc.top_up(walked, num_steps=300).verdict


def test_what_was_added_to_lucky_data_is_told_why_it_is_worse():
    """The same words for what was reached; an addition that was merely unlucky is not excused by them."""
    found = rc.top_up(lucky_rows(), RIVER, num_steps=3000)
    worse = replace(found.before, divergence=found.before.divergence + 0.1)
    assert LUCKY in replace(found, after=worse).verdict
    modest = replace(found.before, divergence=found.fresh_divergence + 0.1)
    worse = replace(found.before, divergence=found.fresh_divergence + 0.2)
    assert LUCKY not in replace(found, before=modest, after=worse).verdict


@pytest.mark.parametrize("gap", [0.0, 3e-4, 2.9])
def test_the_certified_gap_of_the_promise_is_told(walked, gap):
    found = rc.top_up(walked, num_steps=300)
    assert f"by more than {max(found.predicted.gap, 1e-6):.2g} nats, certified." in found.verdict
    found = replace(found, predicted=replace(found.predicted, gap=gap))
    said = found.verdict.rpartition("; ")[2]
    if gap > 1:
        assert (
            said
            == "on the observed model another addition may be better by up to 2.9 nats: no more is certified."
        )
    else:
        assert said.endswith(
            f"no other addition is better by more than {max(gap, 1e-6):.2g} nats, certified."
        )
    page = page_html(page_of_top_up(found, ""))
    assert f"{max(gap, 1e-6):.2g} nats" in page
    assert "certified gap, nats" in page
    assert found.summary()["promise_gap"] == gap


@pytest.mark.parametrize("rho", [0, 2, INF])
def test_the_summary_is_ready_for_json_and_says_the_same(walked, tmp_path, rho):
    few = read_tally(tuple(column[:60] for column in walked), num_actions=4)
    for found in (
        rc.top_up(walked, num_steps=100, rho=rho),
        rc.top_up(few, num_steps=100, rho=rho),
        rc.top_up(few, lake(), 100, rho, out=tmp_path / "new"),
    ):
        summary = json.loads(json.dumps(found.summary(), allow_nan=False))
        assert summary["verdict"] == found.verdict
        assert summary["num_steps"] == 100
        assert summary["promise_gap"] == found.predicted.gap
        assert (summary["after"] is None) == (found.after is None)
        assert summary["before"]["num_steps"] == found.before.num_steps
        assert summary["promised_divergence"] == pytest.approx(found.predicted.divergence)


def test_an_audit_has_what_a_promise_needs(walked):
    """The promise is about the tally that the audit holds, and about no other one."""
    tally = read_tally(walked)
    found = rc.top_up(tally, num_steps=50)
    assert found.before.tally is tally or np.array_equal(found.before.counts, audit_tally(tally).counts)


def test_a_perfect_match_is_a_divergence_of_0_and_not_what_rounding_leaves():
    steps = ([0, 1, 1, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [False] * 5)  # two states, 0 stays, 1 moves
    said = rc.top_up(steps, num_steps=10, rho=2.0).verdict
    assert "reaches 0 in the long run" in said


def test_a_single_untried_pair_is_told_in_the_singular():
    steps = ([0, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 0], [False] * 4)
    assert "; 1 other has to be tried first;" in rc.top_up(steps, num_steps=10, rho=2.0).verdict
