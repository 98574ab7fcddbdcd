"""The comparison of planners: forms that are the same program, judgements that tell right from wrong."""

from __future__ import annotations

import multiprocessing
import os
import time
from functools import partial

import numpy as np
import pytest

import rhocover as rc
from benchmarks.peers.growth import slope
from benchmarks.peers.solvers import INF, Solved, forms, judged, solve
from benchmarks.peers.workers import Clock, Worker
from patience import PATIENCE

RIVER = rc.envs.river_swim()
MU = np.linspace(0.5, 1.0, RIVER.num_pairs)


@pytest.mark.parametrize("rho", [0.5, 1, 2, 4, INF])
@pytest.mark.parametrize("solver", ["CLARABEL", "HiGHS"])
def test_every_form_is_the_program_that_plan_solves(rho, solver):
    best = rc.plan(RIVER, rho, MU)
    for form in forms(solver, rho):
        found = solve(RIVER, MU, rho, solver, form, 20.0)
        judgement = judged(RIVER, best.coverage, found, best.divergence)
        assert not judgement["failure"], (form, judgement)


@pytest.mark.parametrize("rho", [0.5, 1, 2])
def test_the_form_first_written_is_right_where_numbers_are_harmless(rho):
    best = rc.plan(RIVER, rho, MU)
    found = solve(RIVER, MU, rho, "naive", "naive", 20.0)
    assert not judged(RIVER, best.coverage, found, best.divergence)["failure"]


def test_highs_takes_no_program_but_the_linear_one():
    assert [rho for rho in (0.5, 1, 2, 4, 8, 32, INF) if forms("HiGHS", rho)] == [INF]


def test_an_answer_that_misses_the_flow_or_the_optimum_fails_whatever_its_status():
    best = rc.plan(RIVER, 2, MU)
    d = best.occupancy.ravel()
    judge = partial(judged, RIVER, best.coverage, best=best.divergence)
    assert judge(Solved(0.1, 0.1, "optimal", 3 * d))["failure"] == ""  # scaled is as good
    assert judge(Solved(0.1, 0.1, "optimal", d + 1e-4 * np.arange(d.size)))["failure"].startswith("off by")
    uniform = rc.Occupancies.average(RIVER).from_policy(np.full((6, 2), 0.5))
    assert judge(Solved(0.1, 0.1, "optimal", uniform))["failure"].startswith("off by")
    assert judge(Solved(0.1, 0.1, "no luck"))["failure"] == "no luck"


def sleeper(_: str):
    return lambda seconds: time.sleep(seconds) or os.getpid()


@pytest.mark.thorough
def test_a_worker_is_ended_when_its_time_is_up_and_the_next_job_is_done_all_the_same():
    with Worker(sleeper, "given") as worker:
        first = worker.do(PATIENCE, 0.0)
        assert worker.do(0.1, 10.0 * PATIENCE) == "no answer in 0.1 s"
        running = {process.pid for process in multiprocessing.active_children()}
        assert first not in running  # hours before the job would have been done
        assert worker.do(PATIENCE, 0.0) != first


@pytest.mark.parametrize(("wall", "processor", "read"), [(9.0, 0.5, 0.5), (1.0, 1.9, 1.0)])
def test_the_clock_reads_no_more_than_what_was_done(monkeypatch, wall, processor, read):
    """Asleep or set aside the processor did less than went by; with threads it did more."""
    clock = Clock()
    began = clock._began
    monkeypatch.setattr(time, "perf_counter", lambda: began[0] + wall)
    monkeypatch.setattr(time, "process_time", lambda: began[1] + processor)
    assert clock.wall == pytest.approx(wall)
    assert clock.seconds == pytest.approx(read)


def test_exponents_of_powers_are_exact_and_noise_shows_in_their_error():
    sizes = [100.0, 1_000.0, 10_000.0, 100_000.0]
    exact = slope(sizes, [3e-6 * size**1.25 for size in sizes])
    assert exact["exponent"] == pytest.approx(1.25, abs=1e-12)
    assert exact["error"] == pytest.approx(0.0, abs=1e-12)
    noisy = slope(
        sizes, [3e-6 * size**1.25 * factor for size, factor in zip(sizes, (1, 2, 1, 2), strict=True)]
    )
    assert noisy["error"] > 0.05
    assert slope(sizes[:1], [1.0])["exponent"] is None
