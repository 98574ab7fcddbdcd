"""Threads that plan and draw at the same time leave the process as it was."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import matplotlib
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

import rhocover as rc
from patience import PATIENCE
from rhocover.linalg import normal_equations
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.report import figures
from rhocover.report.figures.drawing import BOX, as_text, drawing, drawn, known
from rhocover.report.pages import rendering as html


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    """Lets BLAS use two threads, however many cores there are; not as a limit, which belongs to a thread."""
    libraries = normal_equations._libraries()
    before = [library.get_num_threads() for library in libraries]
    set_all(libraries, [2] * len(libraries))
    if blas_threads() != {2}:
        pytest.skip("this BLAS has one thread and no more")
    yield
    set_all(libraries, before)


def set_all(libraries: list, numbers: list[int]) -> None:
    for library, number in zip(libraries, numbers, strict=True):
        normal_equations.set_threads(library, number)


def overlapped(enter: Callable[[], object]) -> None:
    """Runs two threads in a context that the first enters first and leaves while the second is still in it."""
    entered, both, left = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with enter():
            entered.set()
            both.wait(PATIENCE)
        left.set()

    def second() -> None:
        entered.wait(PATIENCE)
        with enter():
            both.set()
            left.wait(PATIENCE)

    together(first, second)


def together(*works: Callable[[], None]) -> None:
    running = [threading.Thread(target=work) for work in works]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(PATIENCE)


def test_inside_the_context_blas_has_one_thread_and_afterwards_as_many_as_before():
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()}

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threads()
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == before


def test_blas_has_its_threads_back_after_plans_that_overlapped(two_threads):
    overlapped(one_blas_thread)
    assert blas_threads() == {2}


def test_blas_has_its_threads_back_after_plans_in_three_threads(two_threads):
    mdp = rc.envs.grid_world(num_rows=8, num_columns=8)

    def work() -> None:
        for _ in range(3):
            rc.plan(mdp, 2.0)

    together(work, work, work)
    assert blas_threads() == {2}


def test_blas_stays_at_one_thread_until_the_last_plan_is_done(two_threads):
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_a_plan_that_fails_gives_the_threads_back(two_threads):
    def fail() -> None:
        with one_blas_thread():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert blas_threads() == {2}


def test_two_threads_draw_one_after_the_other_and_the_settings_come_back():
    """Settings are the whole process's: were both inside at once, one would put the other's back."""
    before = dict(matplotlib.rcParams)
    inside, most = [], []

    def draw() -> None:
        for _ in range(50):
            with drawing({"font.size": 5}):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    together(draw, draw, draw)
    assert max(most) == 1
    assert dict(matplotlib.rcParams) == before


def test_every_picture_is_made_and_written_under_the_one_lock(monkeypatch):
    """While another thread draws, none of them begins."""
    mdp = rc.envs.river_swim()
    figure = figures.occupancy_figure(mdp, [[1 / 12] * 2] * 6)
    works = {
        "made": lambda: figures.ratio_figure(mdp, [[1.0] * 2] * 6),
        "written": lambda: drawn(figure, "png"),
        "in a page": lambda: html.svg_html(figure, "x", "y"),
    }
    for name, work in works.items():
        done = threading.Event()
        thread = threading.Thread(target=lambda work=work, done=done: (work(), done.set()))
        with drawing():
            thread.start()
            assert not done.wait(0.2), name  # a wait that is too short can only miss a mistake
        thread.join(PATIENCE)
        assert done.is_set()


def test_letters_that_the_font_lacks_are_boxes_without_a_warning_or_a_filter():
    mdp = rc.MDP(
        rc.envs.river_swim().transitions.toarray().reshape(6, 2, 6),
        state_labels=["状", "b", "c", "d", "e", "f"],
    )
    before = list(warnings.filters)
    figure = figures.occupancy_figure(mdp, [[1 / 12] * 2] * 6, "状態\x1b")
    drawing_of = html.svg_html(figure, "x", "alt\x1b\u202e")
    assert drawn(figure, "png").startswith(b"\x89PNG")
    assert "alt\\x1b\\u202e" in drawing_of
    assert warnings.filters == before
    assert any("状態" in text.get_text() for text in figure.texts)  # the figure itself keeps its words
    assert known("a状η") == f"a{BOX}η"
    assert as_text("$x$\n") == "\\$x\\$\n"
