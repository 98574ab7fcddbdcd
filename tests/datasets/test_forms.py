"""Every form holds the same steps, and every reader counts them exactly; what cannot be read says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_forms import FILES, FORMS

import rhocover as rc
import same_steps as same
from rhocover.datasets import chunks, read_tally, tables
from rhocover.datasets.forms import episodes, hugging_face
from tiers import tiered

KINDS = ("whole", "within", "unmarked", "bare")
BUDGET = {"num_steps": 50, "rho": 2.0}


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def reference(kind: str) -> Any:
    """Returns the columns in memory of which the same can be known."""
    gone = {"whole": (), "within": ("s_next", "truncated"), "unmarked": ("terminated", "truncated"),
            "bare": ("s_next", "terminated", "truncated")}[kind]  # fmt: skip
    return {name: values for name, values in same.columns().items() if name not in gone}


@pytest.fixture(scope="module")
def planned() -> dict[str, rc.TopUp]:
    return {kind: rc.top_up(reference(kind), **BUDGET) for kind in KINDS}


def test_there_are_at_least_25_forms() -> None:
    assert len(FORMS) >= 25


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_the_count_by_hand(kind: str) -> None:
    assert same.counts_of(read_tally(reference(kind))) == same.counted(kind)


@pytest.mark.parametrize("name", tiered(FORMS, short=[name for name in FORMS if name != "IterableDataset"]))
def test_every_form_is_audited_exactly(name: str, tmp_path: Path) -> None:
    kind, make = FORMS[name]
    found = rc.audit(make(tmp_path))
    assert same.counts_of(found.tally) == same.counted(kind)
    expected = rc.audit(reference(kind))
    figures = ("divergence", "worst_ratio", "gap", "num_pairs", "num_missing", "verdict")
    assert [getattr(found, figure) for figure in figures] == [getattr(expected, figure) for figure in figures]
    is_said = any("do not say how episodes end" in remark for remark in found.tally.remarks)
    assert is_said == (kind in ("unmarked", "bare"))
    assert any("left out" in remark for remark in found.tally.remarks) == (kind in ("within", "bare"))


@pytest.mark.parametrize("name", tiered(FORMS, short=["hdf5, h5py"]))
def test_every_form_is_topped_up_alike(name: str, tmp_path: Path, planned: dict[str, rc.TopUp]) -> None:
    kind, make = FORMS[name]
    found, expected = rc.top_up(make(tmp_path), **BUDGET), planned[kind]
    assert same.counts_of(found.before.tally) == same.counted(kind)
    assert np.array_equal(found.policy, expected.policy)
    assert found.predicted.divergence == expected.predicted.divergence


@pytest.mark.parametrize("name", tiered(FORMS, short=["csv without anything", "arrow file, pyarrow"]))
def test_the_pieces_in_which_a_form_is_read_do_not_matter(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, size in (
        (chunks, "SIZE"),
        (tables, "SIZE"),
        (tables, "MOST_CSV_ROWS"),
        (episodes, "ROWS"),
        (hugging_face, "ROWS"),
    ):
        monkeypatch.setattr(module, size, 7)
    kind, make = FORMS[name]
    assert same.counts_of(read_tally(make(tmp_path))) == same.counted(kind)


@pytest.mark.parametrize("name", tiered(FILES, short=["jsonl.gz, json"]))
def test_the_command_line_reads_every_form_of_file(
    name: str, tmp_path: Path, rhocover: Any, planned: Any
) -> None:
    kind, make = FILES[name]
    place = make(tmp_path / "here" if not (tmp_path / "here").mkdir() else tmp_path)
    result = rhocover(f"audit '{place}' --json")
    assert result.code == 0, result.err
    found, expected = json.loads(result.out)["audit"], rc.audit(reference(kind)).summary()
    assert found["source"] != expected["source"]
    for key in (
        "num_steps",
        "num_episodes",
        "num_states_met",
        "divergence",
        "worst_ratio",
        "thin",
        "verdict",
    ):
        assert found[key] == expected[key], key
    result = rhocover(f"top-up '{place}' --steps 50 --rho 2 --json")
    assert result.code == 0, result.err
