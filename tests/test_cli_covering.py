"""`rhocover plan --cover --at-most --at-least` says what the Python API says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rhocover as rc
from rhocover.cli import app

RIVER = rc.envs.river_swim()
RIGHT = np.array([[0.0, 1.0]] * 6)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("right.npy", RIGHT)
    np.savetxt("right.csv", RIGHT, delimiter=",")
    np.save("rooms.npy", np.array([0, 0, 1, 1, 2, 2]))
    np.savetxt("weights.csv", [1.0, 2.0, 3.0])
    np.save("C.npy", np.array([np.repeat(np.array([0, 0, 1, 1, 2, 2]) == g, 2) for g in range(3)], float))


def run(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        app.main(["plan", "river_swim", *line.split()])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("--cover states", {"cover": "states"}),
        ("--cover rooms.npy", {"cover": [0, 0, 1, 1, 2, 2]}),
        ("--cover rooms.npy --mu weights.csv", {"cover": [0, 0, 1, 1, 2, 2], "mu": [1, 2, 3]}),
        ("--cover C.npy", {"cover": [0, 0, 1, 1, 2, 2]}),
        ("--cover visits --horizon 8 --start 0", {"cover": "visits", "horizon": 8, "start": 0}),
        ("--at-most right.npy:0.4", {"subject_to": rc.at_most(RIGHT, 0.4)}),
        ("--at-least right.csv:0.9", {"subject_to": rc.at_least(RIGHT, 0.9)}),
        ("--cover states --at-most right.npy:0.7 --at-least right.npy:0.6",
         {"cover": "states", "subject_to": [rc.at_most(RIGHT, 0.7), rc.at_least(RIGHT, 0.6)]}),
    ],
)  # fmt: skip
def test_options_mean_the_arguments(capsys: pytest.CaptureFixture[str], line: str, arguments: dict) -> None:
    code, out, _ = run(capsys, f"{line} --json")
    assert code == 0
    (shown,) = json.loads(out)["plans"]
    found = rc.plan(RIVER, 2.0, **arguments)
    assert shown["divergence"] == found.divergence
    assert [one["value"] for one in shown.get("conditions", [])] == [one.value for one in found.conditions]
    if found.cover != "pairs":
        assert shown["shares"] == found.shares.tolist()


def test_the_table_has_the_conditions_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--cover states --at-most right.npy:0.7")
    assert code == 0
    assert "uniform weights of states" in out
    assert "right: 0.7, at most 0.7; one more unit lowers" in " ".join(out.split())


def test_files_of_a_plan_of_groups_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    code, *_ = run(capsys, "--cover states --out out --report page.html")
    assert code == 0
    assert rc.Plan.load("out/plan-rho-2.safetensors").cover == "states"
    assert Path("out/ratio-rho-2.png").stat().st_size > 1000
    assert "Least covered states" in Path("page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--cover state", "unknown groups 'state'"),
        ("--cover missing.npy", "`--cover`: there is no file"),
        ("--cover visits", "Pass --horizon 20 or --cover pairs"),
        ("--cover states --eta 0.01", "--at-least indicator.npy:0.01"),
        ("--cover states --mu model_error", "one weight for each of 6 states"),
        ("--at-most right.npy", "`--at-most` must be FILE.npy:LIMIT"),
        ("--at-most right.npy:much", "`--at-most` must be FILE.npy:LIMIT"),
        ("--at-most rooms.npy:nan", "--at-most"),
        ("--at-most missing.npy:1", "there is no file 'missing.npy'"),
        ("--at-least right.npy:1.5", "no policy has right at least 1.5: the largest possible value is 1"),
        ("--at-least C.npy:1", "`--at-least` must have shape"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_options(
    capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    code, out, err = run(capsys, line)
    assert code != 0
    assert out == ""
    assert message in " ".join(err.split())
