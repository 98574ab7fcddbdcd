"""`rhocover reproduce` shows what the Python API returns, keeps it where asked, and fails in one line."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from pathlib import Path

import pytest

from rhocover.cli import app, reproduce
from rhocover.experiments import reproducing
from rhocover.experiments.reproducing import NAMES
from test_cli import names_in

SMALL = "--steps 1000 --seeds 2 --workers 1"


@pytest.mark.thorough
def test_json_holds_the_numbers_of_the_python_api(rhocover):
    found = reproducing.reproduce("tarbouriech2020-table1", seeds=2, num_steps=1000, workers=1)
    result = rhocover(f"reproduce tarbouriech2020-table1 {SMALL} --json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out, parse_constant=pytest.fail)["reproduction"] == found.summary()


def test_the_table_is_that_of_the_result(rhocover):
    result = rhocover("reproduce reference-values")
    assert (result.code, result.err) == (0, "")
    assert result.out == f"{reproducing.reproduce('reference-values')}\n"


def test_out_holds_the_table_and_the_numbers(rhocover):
    result = rhocover("reproduce reference-values --out results")
    assert (result.code, result.err) == (0, "wrote 2 files to results\n")
    assert names_in(Path("results")) == {"reference-values.txt", "reference-values.json"}
    assert Path("results/reference-values.txt").read_text("utf-8") == result.out
    document = json.loads(Path("results/reference-values.json").read_text("utf-8"))
    assert document["reproduction"]["name"] == "reference-values"
    assert rhocover("reproduce reference-values --out results --force").code == 0


def test_an_existing_file_is_refused_before_anything_runs(rhocover, monkeypatch):
    Path("kept").mkdir()
    Path("kept/reference-values.json").write_text("mine")
    monkeypatch.setattr(reproducing, "reproduce", lambda *_, **__: pytest.fail("it ran"))
    result = rhocover("reproduce reference-values --out kept")
    assert result.code == 2
    assert "would be overwritten" in result.err
    assert Path("kept/reference-values.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "NAME is missing, such as reference-values. Known: tarbouriech2020-table1"),
        ("reference-value", "Did you mean 'reference-values'"),
        ("reference-value --out results", "Did you mean 'reference-values'"),
        ("../secret --out results", "unknown reproduction"),
        ("reference-values --seeds 2", "is not for reference-values, which simulates nothing. Leave it out."),
        ("tarbouriech2020-table1 --steps 10", "`--steps` must be at least 1000, got 10"),
        ("tarbouriech2020-table1 --seeds none", "expected a whole number, got 'none'"),
        ("tarbouriech2020-table1 --workers 0", "`--workers` must be at least 1"),
    ],
)
def test_bad_input_is_one_line_that_names_it_and_exit_2(rhocover, line, words):
    result = rhocover(f"reproduce {line}")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line
    assert words in result.err
    assert names_in(Path()) == set()


def test_a_statement_that_does_not_hold_is_shown_and_exits_with_1(rhocover, monkeypatch):
    found = reproducing.reproduce("reference-values")
    wrong = dataclasses.replace(found.rows[0], published=0.2)
    broken = dataclasses.replace(found, rows=(wrong, *found.rows[1:]))
    monkeypatch.setattr(reproducing, "reproduce", lambda *_, **__: broken)
    result = rhocover("reproduce reference-values")
    assert result.code == 1
    assert result.out.count(" NO\n") == 1
    assert result.err == (
        f"error: 1 of {len(found.rows)} statements do not hold; the first is D*, rho = 1 on RiverSwim(6).\n"
    )


@pytest.mark.thorough
def test_the_examples_in_the_help_run(rhocover):
    examples = re.findall(r"\* `rhocover ([^`]*)`", inspect.getdoc(reproduce.reproduce) or "")
    assert len(examples) == 3
    for line in examples:
        result = rhocover(line)
        assert (result.code, result.err.replace("wrote 2 files to results\n", "")) == (0, "")


def test_the_help_names_everything_and_the_words_are_those_of_the_function(rhocover):
    result = rhocover("reproduce --help")
    assert result.code == 0
    assert "`" not in result.out
    help_of_name = reproduce.Name.__metadata__[0].help
    assert all(name in help_of_name for name in NAMES)
    command, function = (
        inspect.signature(f).parameters for f in (reproduce.reproduce, reproducing.reproduce)
    )
    shared = set(function) - {"name", "report"}
    assert shared <= set(command)
    assert all(command[name].default == function[name].default for name in shared)
    assert "rhocover reproduce" in (app._rhocover.__doc__ or "")
