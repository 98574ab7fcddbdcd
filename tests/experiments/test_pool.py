"""Work shared out among processes: the same bits with 1, 2 and 8, and when one of them is killed."""

import multiprocessing
import os
import signal
import time
import warnings
from contextlib import closing
from pathlib import Path

import pytest

import rhocover as rc
from rhocover.errors import RhocoverError, WorkerWarning
from rhocover.experiments.pool import MOST_DEATHS, run_items
from rhocover.files import load_tensors

pytestmark = pytest.mark.thorough  # every test starts processes

ASKED = {
    "envs": ["river_swim", "wheel"], "explorers": ["feedback", "algorithm1"], "rho": [2, float("inf")],
    "num_steps": 300, "seeds": 4,
}  # fmt: skip


def everything(found: rc.Comparison) -> list[bytes]:
    """Every number of a comparison, as bytes."""
    groups = (found.columns, found.ends, found.facts)
    return [found.steps.tobytes(), *(group[name].tobytes() for group in groups for name in sorted(group))]


def kill_one_worker() -> int:
    """Kills a worker process as the system does when memory runs out; returns which."""
    child = multiprocessing.active_children()[0]
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    return child.pid


def identity(item: int) -> tuple[int, int]:
    time.sleep(0.05)
    return item, os.getpid()


def die_of(item: tuple[str, int]) -> int:
    """Dies if the item says so: always, or when it comes for the first time."""
    folder, k = item
    mark = Path(folder, str(k))
    if k == 0 or (k == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def test_one_two_and_eight_processes_give_the_same_bits():
    one = rc.compare(**ASKED, workers=1)
    for workers in (2, 8):
        assert everything(rc.compare(**ASKED, workers=workers)) == everything(one)
    other = rc.compare(**ASKED | {"seeds": [1, 2, 3, 4]}, workers=1)
    assert everything(other) != everything(one)


def test_what_is_reproduced_does_not_depend_on_the_number_of_processes():
    found = [rc.reproduce("paper-special-cases", num_steps=1000, seeds=2, workers=k) for k in (1, 2, 8)]
    assert len({str(reproduction) for reproduction in found}) == 1


def test_killed_workers_are_replaced_and_the_result_is_unchanged(tmp_path):
    killed = []

    def report(done, total):
        if done in (1, 9, 20):
            killed.append(kill_one_worker())

    with pytest.warns(WorkerWarning, match="New workers continue: .* of 32 runs are left") as caught:
        found = rc.compare(**ASKED, workers=2, out=tmp_path / "out", report=report)
    assert len(set(killed)) == len(caught) == 3
    assert everything(found) == everything(rc.compare(**ASKED, workers=1))
    assert load_tensors(tmp_path / "out" / "comparison.safetensors", "comparison")[0]["done"].all()
    assert not multiprocessing.active_children()


def test_every_item_is_answered_once_even_if_it_killed_a_process(tmp_path):
    items = [(str(tmp_path), k) for k in range(1, 8)]
    with pytest.warns(WorkerWarning), closing(run_items(die_of, items, 2, caller="f")) as answers:
        assert sorted(answers) == [(k - 1, k) for k in range(1, 8)]
    assert (tmp_path / "1").exists()  # it did


def test_an_item_that_always_kills_ends_in_a_message_and_loses_no_answer(tmp_path):
    items, answered = [(str(tmp_path), k) for k in (0, 2, 3, 4, 5)], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RhocoverError, match=f"killed {MOST_DEATHS} times in a row.*workers=1"):  # noqa: PT012
            for _, answer in run_items(die_of, items, 2, caller="f"):
                answered.append(answer)
    assert all(issubclass(w.category, WorkerWarning) for w in caught)
    assert len(set(answered)) == len(answered)
    assert not multiprocessing.active_children()


def test_no_more_processes_than_asked_for_answer():
    found = dict(run_items(identity, list(range(12)), 2, caller="f"))
    assert [found[k][0] for k in range(12)] == list(range(12))
    assert os.getpid() not in {pid for _, pid in found.values()}
    assert len({pid for _, pid in found.values()}) <= 2


class DiesAtTheStart:
    """A function that kills the first so many processes that receive it, before they have begun."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most

    def __setstate__(self, state: dict) -> None:
        self.__dict__ |= state
        died = len(list(self.folder.iterdir()))
        if died < self.most:
            (self.folder / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, item: int) -> int:
        return item


def test_a_worker_that_is_killed_while_it_starts_is_replaced(tmp_path):
    """The mutant takes it for a script without its main guard."""
    with pytest.warns(WorkerWarning, match="New workers continue: 1 of 1 runs are left"):
        assert list(run_items(DiesAtTheStart(tmp_path, 1), [7], 2, caller="f")) == [(0, 7)]
    assert len(list(tmp_path.iterdir())) == 1  # it was


def test_workers_that_are_killed_each_time_they_start_end_in_a_message(tmp_path):
    with (
        pytest.warns(WorkerWarning),
        pytest.raises(RhocoverError, match=f"killed {MOST_DEATHS} times in a row"),
    ):
        list(run_items(DiesAtTheStart(tmp_path, 100), [7], 2, caller="f"))
    assert len(list(tmp_path.iterdir())) == MOST_DEATHS
