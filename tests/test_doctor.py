"""`rhocover doctor` says what is there, and notices whatever is broken: each piece is broken here, one by one."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from rhocover import envs, files
from rhocover.diagnosis import FAILED, NOTE, OK, packages
from rhocover.diagnosis.diagnose import diagnose, run_trial, run_trials
from rhocover.diagnosis.packages import loading_failure
from rhocover.experiments.reproducing import reference_values
from rhocover.exploring.runs import checkpoint
from rhocover.linalg.multifrontal import SparseBackend
from rhocover.report import figures
from tiers import tiered

DIAGNOSING = importlib.import_module("rhocover.diagnosis.diagnose")  # by name: a function is called like it

# --- all is well ----------------------------------------------------------------------------------------


def test_all_is_well_here_and_every_part_is_told():
    found = diagnose()
    assert [f"{f.name}: {f.text}" for f in found.failures] == []
    assert found.is_well
    assert {"rhocover", "ordering", "BLAS", "compiler", "compiled code"} <= {f.name for f in found.machine}
    assert [f.name for f in found.trials] == list(DIAGNOSING.TRIALS)
    assert all(f.status == OK and f.text for f in found.trials)


def test_the_document_says_the_same_as_the_table(rhocover):
    """One JSON document on stdout; the self-test is left out here to save its seconds."""
    result = rhocover("doctor --no-self-test --json")
    document = json.loads(result.out)
    assert (result.code, document["is_well"], document["self_test"]) == (0, True, [])
    shown = rhocover("doctor --no-self-test").out
    assert all(found["name"] in shown for part in ("machine", "packages") for found in document[part])
    assert shown.rstrip().endswith("All checks passed.")


# --- what is broken is noticed --------------------------------------------------------------------------


def wrong_order(monkeypatch):
    real = reference_values.plan
    monkeypatch.setattr(reference_values, "plan", lambda mdp, rho, *a, **k: real(mdp, 1.01 * rho, *a, **k))


def boasting_certificate(monkeypatch):
    real = DIAGNOSING.plan
    monkeypatch.setattr(
        DIAGNOSING, "plan", lambda *a, **k: dataclasses.replace(p := real(*a, **k), divergence=p.divergence + 0.01)
        if "method" not in k else real(*a, **k)
    )  # fmt: skip


def wide_certificate(monkeypatch):
    real = DIAGNOSING.plan
    monkeypatch.setattr(DIAGNOSING, "plan", lambda *a, **k: dataclasses.replace(real(*a, **k), gap=1e-7))


def inexact_sparse_solver(monkeypatch):
    real = SparseBackend.solve
    monkeypatch.setattr(SparseBackend, "solve", lambda self, right: real(self, right) * (1 + 1e-5))


def no_sparse_solver(monkeypatch):
    monkeypatch.setattr(SparseBackend, "try_analyse", classmethod(lambda *arguments: None))


def wrong_linear_program(monkeypatch):
    real = DIAGNOSING.best_response
    monkeypatch.setattr(
        DIAGNOSING, "best_response", lambda members, reward, method: real(members, reward * (1 + 1e-6 * (method == "lp")), method=method)
    )  # fmt: skip


def loops_that_differ(monkeypatch):
    real = DIAGNOSING.plain_loops
    monkeypatch.setattr(
        DIAGNOSING, "plain_loops", lambda: _with(real(), find=lambda cumulative, low, high, u: low)
    )


def _with(names, **changes):
    names.update(changes)
    return names


def no_checkpoint(monkeypatch):
    monkeypatch.setattr(checkpoint.Folder, "save", lambda self, standing: None)


def other_luck_after_resuming(monkeypatch):
    real = DIAGNOSING.resume
    monkeypatch.setattr(
        DIAGNOSING,
        "resume",
        lambda out: dataclasses.replace(run := real(out), visits=run.visits[::-1].copy()),
    )


def another_model_from_the_file(monkeypatch):
    monkeypatch.setattr(DIAGNOSING.MDP, "load", classmethod(lambda cls, path: envs.double_chain()))


def damage_not_noticed(monkeypatch):
    monkeypatch.setattr(files, "_seal", lambda header, tensors: header.get("sha256", ""))


def steps_that_are_not_counted(monkeypatch):
    real = DIAGNOSING.explore
    monkeypatch.setattr(
        DIAGNOSING, "explore", lambda env, rho, num_steps, **k: real(env, rho, num_steps - 1, **k)
    )


def no_pictures(monkeypatch):
    def fail(*arguments):
        raise RuntimeError("no font")

    monkeypatch.setattr(figures, "occupancy_figure", fail)


SABOTAGE = {
    "known optima": [(wrong_order, "expected")],
    "certificates": [(boasting_certificate, "second method"), (wide_certificate, "expected at most 1e-8")],
    "dense and sparse solver": [(inexact_sparse_solver, "differ by"), (no_sparse_solver, "does not accept")],
    "policy iteration and HiGHS": [(wrong_linear_program, "linear program")],
    "compiled and plain simulator": [(loops_that_differ, "differ")],
    "stopped and resumed": [(no_checkpoint, "no checkpoint"), (other_luck_after_resuming, "other pairs")],
    "files": [(another_model_from_the_file, "differs from the one"), (damage_not_noticed, "damaged")],
    "Gymnasium": [(steps_that_are_not_counted, "499 visits")],
    "pictures": [(no_pictures, "no font")],
}


def test_every_trial_is_broken_below():
    assert set(SABOTAGE) == set(DIAGNOSING.TRIALS)


@pytest.mark.parametrize(
    ("name", "sabotage", "word"),
    tiered([(name, how, word) for name, cases in SABOTAGE.items() for how, word in cases]),
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_trial_fails_when_its_piece_is_broken_and_says_what_to_do(name, sabotage, word, monkeypatch):
    sabotage(monkeypatch)
    found = run_trial(name, DIAGNOSING.TRIALS[name])
    assert found.status == FAILED
    assert word in found.text
    assert "pip install" in found.way_out


def test_a_failure_ends_the_command_with_1_and_one_line_and_the_others_still_run(rhocover, monkeypatch):
    ran = []
    some = {"first": lambda: 1 / 0, "second": lambda: ran.append(1) or "fine"}
    monkeypatch.setattr(DIAGNOSING, "TRIALS", some)
    result = rhocover("doctor")
    assert (result.code, ran) == (1, [1])
    assert "first" in result.out
    assert "FAILED" in result.out
    assert "ZeroDivisionError" in result.out
    assert result.err.splitlines()[-1].startswith("error: 1 of ")
    assert json.loads(rhocover("doctor --json").out)["is_well"] is False


def test_progress_is_reported_after_each_trial():
    seen = []
    run_trials({"a": lambda: "", "b": lambda: ""}, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


# --- packages -------------------------------------------------------------------------------------------


def pretend(monkeypatch, **versions):
    """Makes the metadata say that packages have other versions; None for one that is not there."""
    real = metadata.version

    def version(name):
        if name not in versions:
            return real(name)
        if versions[name] is None:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)


def finding(name: str):
    return next(found for found in packages.package_findings() if found.name == name)


def test_a_missing_or_an_old_package_fails_with_the_line_that_installs_it(monkeypatch):
    pretend(monkeypatch, highspy=None, numpy="1.26.4")
    assert (finding("highspy").status, finding("numpy").status) == (FAILED, FAILED)
    assert finding("highspy").way_out.startswith("pip install 'highspy>=")
    assert "1.26.4 is installed, required: >=2" in finding("numpy").text


def test_a_missing_extra_is_a_note_with_its_pip_line_and_an_old_one_fails(monkeypatch):
    pretend(monkeypatch, pymetis=None, h5py="1.0")
    assert (finding("pymetis [fast]").status, finding("pymetis [fast]").way_out) == (
        NOTE,
        "pip install 'rhocover[fast]'",
    )
    assert finding("h5py [minari]").status == FAILED


def test_developers_tools_are_not_listed():
    assert not [
        found for found in packages.package_findings() if "[test]" in found.name or "[bench]" in found.name
    ]


def test_without_metadata_that_is_said(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    (found,) = packages.package_findings()
    assert (found.name, found.status) == ("rhocover", NOTE)


@pytest.mark.parametrize("line", metadata.requires("rhocover") or ["numpy>=2"])
def test_requirements_are_read_as_pip_reads_them(line):
    name, bounds, extra = packages.read_requirement(line)
    theirs = Requirement(line)
    assert name == theirs.name
    assert SpecifierSet(bounds) == theirs.specifier
    assert (extra == "") == (theirs.marker is None)
    assert theirs.marker is None or theirs.marker.evaluate({"extra": extra})


@pytest.mark.parametrize("bounds", ["", ">=1.2", ">=1.2,<2", "==1.2.0", "!=1.2", "<=2.0.1", ">=2025.1"])
@pytest.mark.parametrize(
    "version", ["1", "1.2", "1.2.0", "1.10", "2.0", "2.0.1", "2.0.2", "2025.2.2", "3.11"]
)
def test_versions_are_compared_as_pip_compares_them(version, bounds):
    assert packages.fits(version, bounds) == SpecifierSet(bounds).contains(version)


def test_a_release_candidate_counts_by_its_numbers_and_unknown_bounds_are_left_to_pip():
    assert packages.fits("2.1.0rc1", ">=2.0")
    assert packages.fits("1.0", "~=7.0")


# --- folders --------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_to_fails_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(DIAGNOSING, "is_writable", lambda folder: False)
    found = {f.name: f for f in DIAGNOSING.backend_findings()}
    assert found["compiled code"].status == found["temporary files"].status == FAILED
    assert "NUMBA_CACHE_DIR" in found["compiled code"].way_out
    assert "TMPDIR" in found["temporary files"].way_out


def test_writable_is_tried_not_guessed(tmp_path, monkeypatch):
    assert DIAGNOSING.is_writable(tmp_path)
    assert not DIAGNOSING.is_writable(tmp_path / "missing")

    def fail(**options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    assert not DIAGNOSING.is_writable(tmp_path)


def test_a_cold_cache_is_said_before_it_takes_time(rhocover, monkeypatch, tmp_path):
    monkeypatch.setattr(DIAGNOSING, "cache_folder", lambda: tmp_path / "none yet")
    monkeypatch.setattr(DIAGNOSING, "TRIALS", {})
    result = rhocover("doctor")
    assert result.code == 0
    assert "compiling for the first time" in result.err
    assert "up to a minute" in result.out


def test_compiled_code_that_is_not_kept_is_a_note_with_the_way_out(monkeypatch):
    monkeypatch.setattr(DIAGNOSING, "cache_folder", lambda: None)
    found = {f.name: f for f in DIAGNOSING.backend_findings()}["compiled code"]
    assert found.status == NOTE
    assert "compiles again" in found.text
    assert "NUMBA_CACHE_DIR" in found.way_out
    assert not DIAGNOSING.is_warm()


@pytest.mark.thorough
def test_no_compiler_at_all_is_a_note():
    code = (
        "from rhocover.diagnosis.diagnose import *; print(is_warm(), compiled_folder(cache_folder()).status)"
    )
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", NOTE]


# --- where nothing can be loaded ------------------------------------------------------------------------


@pytest.mark.thorough
def test_without_a_package_the_command_line_says_which_in_one_line():
    """Blocked for the import system and for the metadata, as where it was never installed."""
    code = (
        "import sys; from importlib import metadata; real = metadata.version\n"
        "def version(name):\n"
        "    if name == 'typer': raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.version, sys.modules['typer'] = version, None\n"
        "from rhocover.cli import main; main(['doctor'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: typer: not installed, required: >=")
    assert "pip install 'typer>=" in result.stderr


def test_what_else_hinders_loading_is_said_with_the_way_out():
    assert "pip install --force-reinstall" in loading_failure(ImportError("undefined symbol: dgemm"))


def test_plain_loops_share_nothing_that_is_compiled():
    names = DIAGNOSING.plain_loops()
    assert not any(hasattr(value, "py_func") for value in names.values())
    assert names["find"](np.array([0.2, 1.0]), 0, 1, 0.5) == 1


def test_the_trials_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    DIAGNOSING.files()
    DIAGNOSING.resumed()
    assert list(Path(tmp_path).iterdir()) == []
