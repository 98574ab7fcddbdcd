"""`rhocover audit` and `rhocover top-up` say about data what the Python API says."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from lake_commands import (
    COLLECT,
    LAKE,
    contents,
    random_steps,
    read,
    stopped_at_its_first_report,
    write_steps,
)
from rhocover.datasets import read_tally
from rhocover.files import load_tensors
from tiers import tiered

# --- audit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "arguments"),
    tiered(
        [
            ("", {}),
            ("--rho inf --delta 0.2", {"rho": np.inf, "delta": 0.2}),
            ("--mu model_error --rho 1.5", {"mu": "model_error", "rho": 1.5}),
            ("--num-states 20 --num-actions 6", {"num_states": 20, "num_actions": 6}),
            ("--num-states 20 --met-only", {"num_states": 20, "met_only": True}),
            ("--certificate", {"certificate": True}),
            ("--no-certificate", {"certificate": False}),
            ("--no-best", {"best": False}),
            ("--mu mu.npy", {"mu": np.arange(1.0, 65).reshape(16, 4)}),
            ("--mu mu.csv --best", {"mu": np.arange(1.0, 65).reshape(16, 4), "best": True}),
            ("--env FrozenLake-v1 --rho inf", {"model": gym.make(LAKE), "rho": np.inf}),
        ]
    ),
)
@pytest.mark.parametrize("ending", tiered(["csv", "npz", "parquet"]))
def test_json_holds_the_audit_of_the_python_api(rhocover, line, arguments, ending):
    rows = random_steps()
    columns = dict(zip(("s", "a", "s_next", "terminated", "truncated"), rows.T, strict=True))
    columns |= {name: columns[name].astype(bool) for name in ("terminated", "truncated")}
    np.savez("steps.npz", **columns)
    write_steps(rows=rows)
    if ending == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), "steps.parquet")
    np.save("mu.npy", arguments.get("mu", np.ones(1)))
    if "mu.csv" in line:
        np.savetxt("mu.csv", arguments["mu"], delimiter=",")
    result = rhocover(f"audit steps.{ending} --json {line}")
    assert (result.code, result.err) == (0, "")
    document = read(result.out)
    assert document["audit"] == json.loads(json.dumps(rc.audit(f"steps.{ending}", **arguments).summary()))
    assert document["requirements"] == {"worst_ratio": None, "complete": False, "unmet": None}


@pytest.mark.thorough
def test_a_collection_is_audited_by_its_folder_and_its_export_by_its_folder_and_its_id(rhocover, monkeypatch):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(Path("kept").absolute()))
    assert rhocover("export lake --minari lake/good-v0").code == 0
    documents = [
        read(rhocover(f"audit {data} --json").out)["audit"]
        for data in ("lake", "kept/lake/good-v0", "lake/good-v0")
    ]
    assert documents[0]["num_steps"] == 1500
    for exported in documents[1:]:
        assert {k: v for k, v in exported.items() if v != documents[0][k]}.keys() <= {"source"}


def test_states_and_actions_are_taken_from_the_datasheet_unless_they_are_typed(rhocover):
    line = "collect Pendulum-v1 --rho 2 --model learned --states quantiles:2 --actions 3 --steps 600 --out p --json"
    asked = read(rhocover(line).out)["collection"]["coverage"]
    result = rhocover("audit p")
    assert "encoded as in the datasheet" in result.out
    found = read(rhocover("audit p --json").out)["audit"]
    for name in ("num_states", "num_pairs", "num_actions", "divergence", "worst_ratio", "thin"):
        assert found[name] == asked[name], name
    typed = read(rhocover("audit p --states bins:3 --actions 5 --json").out)["audit"]
    expected = rc.audit("p", states=rc.Bins(3), actions=5)
    assert typed == json.loads(json.dumps(expected.summary()))
    assert "encoded as in the datasheet" not in rhocover("audit p --states bins:3 --actions 5").out


@pytest.mark.thorough
def test_a_requirement_that_is_not_met_exits_with_4_after_the_result(rhocover):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    found = rc.audit("lake")
    least = np.ceil(found.worst_ratio)
    for more in ("", "--json", f"--env {LAKE}"):
        assert rhocover(f"audit lake {more} --require-worst-ratio {least:g} --require-complete").code == 0
        result = rhocover(
            f"audit lake {more} --require-worst-ratio 2 --out kept{more[:5]} --report r{more[:5]}.html"
        )
        assert result.code == 4
        assert result.err.splitlines()[-1].startswith(
            f"error: --require-worst-ratio 2: the worst ratio is {found.worst_ratio:.4g}. Covers all 44"
        )
        assert Path(f"kept{more[:5]}", "audit.json").exists()
        assert Path(f"r{more[:5]}.html").exists()
    assert read(rhocover("audit lake --require-worst-ratio 2 --json").out)["requirements"][
        "unmet"
    ].startswith("--require-worst")


def test_states_that_were_declared_and_never_met_close_the_gate(rhocover):
    rows = [[s, a, (s + 1) % 3, 0, 0] for a in (0, 1) for s in (0, 1, 2)]
    write_steps(rows=np.array(rows))
    for demand in ("--require-worst-ratio 1000", "--require-complete"):
        assert rhocover(f"audit steps.csv {demand}").code == 0
        result = rhocover(f"audit steps.csv --num-states 6 {demand}")
        assert result.code == 4
        assert "Covers 6 of 12 pairs (3 of 6 states were met)" in result.err
        assert "--met-only evaluates the data on those that were met" in " ".join(result.out.split())
        assert rhocover(f"audit steps.csv --num-states 6 --met-only {demand}").code == 0
        document = read(rhocover(f"audit steps.csv --num-states 6 --json {demand}").out)
        assert document["requirements"]["unmet"].startswith(demand)
        assert document["audit"]["worst_ratio"] == "inf"


def test_a_certificate_can_be_left_out_and_one_that_proves_nothing_is_called_that(rhocover):
    write_steps()
    assert "The certificate proves nothing yet: " in rhocover("audit steps.csv").out
    left_out = rhocover("audit steps.csv --no-certificate")
    assert "Certificate: none, because no certificate was requested." in left_out.out
    refused = rhocover("audit steps.csv --no-best --certificate")
    assert refused.code == 2
    assert "--certificate compares with the best, which --no-best does not plan" in refused.err


def test_incomplete_data_is_refused_where_it_has_to_be_complete(rhocover):
    write_steps(rows=np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]]))
    result = rhocover("audit steps.csv --require-complete")
    assert result.code == 4
    assert "--require-complete: 2 of 4 pairs never visited. Covers 2 of 4 pairs" in result.err
    assert re.search(r"^ worst ratio +inf ", result.out, re.MULTILINE)
    assert re.search(r"^ worst ratio, visited pairs +\d", result.out, re.MULTILINE)
    assert rhocover("audit steps.csv --require-worst-ratio 1e9").code == 4


def test_out_holds_the_document_and_the_tables(rhocover):
    write_steps()
    result = rhocover("audit steps.csv --json --out deep/results")
    assert result.err == "wrote 2 files to deep/results\n"
    assert Path("deep/results/audit.json").read_text() == result.out
    tensors, _ = load_tensors(Path("deep/results/audit.safetensors"), "audit")
    assert (tensors["counts"] == rc.audit("steps.csv").counts).all()
    again = rhocover("audit steps.csv --out deep/results")
    assert (again.code, "would be overwritten. Pass --force" in again.err) == (2, True)
    assert rhocover("audit steps.csv --out deep/results --force").code == 0


def test_as_many_thin_pairs_are_shown_as_wanted(rhocover):
    write_steps()
    names = [pair.name for pair in rc.audit("steps.csv").thin]
    for number in (0, 1, 7, 99):
        rows = re.findall(
            r"^ (\(\d+, \d\)) +\d+ ", rhocover(f"audit steps.csv --thin {number}").out, re.MULTILINE
        )
        assert rows == names[:number]


# --- top-up -----------------------------------------------------------------------------------------


def test_json_holds_the_policy_that_improves_the_union_most(rhocover):
    write_steps()
    found = rc.top_up(read_tally("steps.csv"), num_steps=2000, rho=2.0)
    result = rhocover("top-up steps.csv --steps 2000 --json --policy policy.csv")
    assert (result.code, result.err) == (0, "the policy is in policy.csv\n")
    assert read(result.out)["top_up"] == json.loads(json.dumps(found.summary()))
    with open("policy.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["state", "0", "1", "2", "3"]
    assert [row[0] for row in rows] == [str(key) for key in found.before.tally.keys]
    assert np.array([row[1:] for row in rows], float).tolist() == found.policy.tolist()
    assert rhocover("top-up steps.csv --steps 2000 --policy p/policy.safetensors").code == 0
    tensors, document = load_tensors(Path("p/policy.safetensors"), "policy")
    assert (tensors["policy"] == found.policy).all()
    assert document["states"] == [row[0] for row in rows]
    exact = rc.top_up(read_tally("steps.csv"), gym.make(LAKE), num_steps=2000, rho=2.0)
    summary = read(rhocover(f"top-up steps.csv --steps 2000 --env {LAKE} --json").out)["top_up"]
    assert summary == json.loads(json.dumps(exact.summary()))
    assert summary["before"]["best_is_exact"]
    again = rhocover("top-up steps.csv --steps 2000 --policy policy.csv")
    assert (again.code, "would be overwritten" in again.err) == (2, True)


@pytest.mark.thorough
def test_with_an_environment_the_steps_are_taken_and_stored(rhocover):
    write_steps()
    found = rc.top_up(read_tally("steps.csv"), gym.make(LAKE), 1000, np.inf, out="expected", seed=2)
    line = f"top-up steps.csv --steps 1000 --rho inf --env {LAKE} --seed 2 --out more"
    result = rhocover(f"{line} --json --report more.html")
    assert result.code == 0, result.err
    document, expected = read(result.out)["top_up"], json.loads(json.dumps(found.summary()))
    expected["collection"] |= {"out": "more", "repeat": document["collection"]["repeat"]}
    assert document == expected
    assert document["collection"]["repeat"].endswith("--out DIR")
    assert document["after"]["num_steps"] == 4000
    assert found.verdict in Path("more.html").read_text()
    refused = rhocover(line)
    assert (refused.code, "already contains a collection" in refused.err) == (2, True)
    assert rhocover(f"{line} --force --model nonsense").code == 2
    assert Path("more/datasheet.json").exists()
    shown = rhocover(f"{line} --force")
    assert shown.code == 0
    rows = {row[:15].strip(): row[15:].split() for row in shown.out.splitlines()}
    ratios = (
        found.before.worst_ratio,
        found.predicted.worst_ratio,
        found.after.worst_ratio,
        found.fresh_worst_ratio,
    )
    assert rows["worst ratio"] == [f"{ratio:.4f}" for ratio in ratios]
    assert rhocover("audit more --rho inf").code == 0


def test_an_addition_promises_better_coverage_than_there_is(rhocover):
    """More steps than there are, best spent: random data has room above the best of what it shows."""
    write_steps()
    summary = read(rhocover("top-up steps.csv --steps 5000 --rho 2 --json").out)["top_up"]
    assert summary["promise_gap"] <= 1e-6  # the tolerance of the plan
    assert summary["promised_worst_ratio"] < summary["before"]["worst_ratio"]
    assert summary["promised_divergence"] < summary["before"]["divergence"]


@pytest.mark.thorough
def test_an_interrupted_addition_goes_on_to_the_same_bytes(rhocover):
    write_steps()
    line = f"top-up steps.csv --steps 6000 --env {LAKE}"
    stopped = stopped_at_its_first_report(f"{line} --out part", "top_up")
    said = re.search(r"Continue with: rhocover (.*)\ninterrupted\n$", stopped.stderr)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert said, stopped.stderr
    assert rhocover(said[1]).code == 0
    assert rhocover(f"{line} --out whole").code == 0
    assert contents(Path("part")) == contents(Path("whole"))
