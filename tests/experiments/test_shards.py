"""A comparison in shards, with more seeds, or through an executor has the bits of one that a process made at once."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from test_compare import Stubborn
from test_compare_envs import corridor

import rhocover as rc
from prose import fenced_blocks, run_command
from rhocover.errors import InvalidArgumentError, RhocoverError
from rhocover.experiments import FinishedShard, question
from rhocover.experiments.env_comparison import load_comparison
from rhocover.experiments.finished_runs import FILE
from rhocover.files import load_tensors, save_tensors
from rhocover.folders import hold_folder
from tiers import tiered

RIVER = {"river": rc.envs.river_swim(num_states=4)}
LAKES = {"envs": corridor, "explorers": ["feedback", "uniform_random"], "num_steps": 60, "seeds": 3,
         "states": rc.Bins(20), "held_out": rc.Bins(40)}  # fmt: skip
ASKED = {
    "envs": RIVER,
    "explorers": ["tracking", "stationary"],
    "num_steps": 30,
    "seeds": 3,
    "trace_points": 1,
}


def compare(out: Path | None, **more: Any) -> Any:
    workers = {} if "executor" in more else {"workers": 1}
    return rc.compare(**ASKED | workers | more, out=out)


def content(folder: Path) -> bytes:
    return (folder / FILE).read_bytes()


@pytest.fixture
def made(monkeypatch):
    """Returns the list of the runs that are made, by (explorer, seed)."""
    original, made = question.run_one, []

    def run(asked, place):
        made.append((list(asked.explorers)[place[2]], asked.seeds[place[3]]))
        return original(asked, place)

    monkeypatch.setattr(question, "run_one", run)
    return made


# Shards.


@pytest.mark.thorough
def test_sixty_four_shards_in_any_order_are_the_file_of_one_process(tmp_path, made):
    more = {"seeds": 40}
    compare(tmp_path / "one", **more)
    del made[:]
    order = random.Random(3).sample(range(1, 65), 64)
    shards = [compare(tmp_path / "many", shard=f"{k}/64", **more) for k in order]
    assert len(made) == len(set(made)) == 80
    assert sum(shard.num_runs for shard in shards) == 80 == shards[-1].num_done
    del made[:]
    compare(tmp_path / "many", **more)
    assert not made
    assert content(tmp_path / "many") == content(tmp_path / "one")


@pytest.mark.parametrize("more", tiered([{"rho": [0.0, 2.0]}, LAKES]))
def test_shards_of_any_number_and_the_rest_are_the_file_of_one_process(tmp_path, more):
    """Shards of 2 and of 3 overlap; what they lack, the call without a shard runs."""
    compare(tmp_path / "one", **more)
    for shard in ("2/3", "1/2", "1/3"):
        compare(tmp_path / "many", shard=shard, **more)
    compare(tmp_path / "many", **more)
    assert content(tmp_path / "many") == content(tmp_path / "one")


def test_a_shard_runs_every_nth_run_and_says_how_far_the_whole_is(tmp_path, made):
    found = compare(tmp_path, shard="2/4")
    assert made == [("stationary", 0), ("stationary", 2)]
    assert found == FinishedShard(2, 4, num_runs=2, num_done=2, num_total=6, out=str(tmp_path))
    assert str(found) == (
        f"Shard 2 of 4 is done: 2 runs. {str(tmp_path)!r} has 2 of 6 runs of the comparison. When the other "
        "shards are done, repeat the call without `shard` to put them together."
    )
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.safetensors")] == [
        f"shards/0002-of-0004/{FILE}"
    ]
    compare(tmp_path, shard="2/4")
    assert len(made) == 2


def test_a_shard_without_runs_writes_nothing_and_says_so(tmp_path):
    found = compare(tmp_path / "out", shard="7/64")
    assert str(found).startswith("Shard 7 of 64 has no runs. ")
    assert not (tmp_path / "out").exists()


def test_what_another_shard_or_the_whole_has_finished_is_not_run_again(tmp_path, made):
    compare(tmp_path, seeds=2)
    compare(tmp_path, seeds=4, shard="1/2")
    assert made[4:] == [("tracking", 2), ("tracking", 3)]
    compare(tmp_path, seeds=4, shard="1/1")
    assert made[6:] == [("stationary", 2), ("stationary", 3)]


def test_an_interrupted_shard_goes_on(tmp_path, monkeypatch):
    original = question.run_one
    with monkeypatch.context() as patch:
        left = iter([1, 0])

        def run(asked, place):
            if not next(left):
                raise KeyboardInterrupt
            return original(asked, place)

        patch.setattr(question, "run_one", run)
        with pytest.raises(KeyboardInterrupt):
            compare(tmp_path, shard="1/2")
    found = compare(tmp_path, shard="2/2")
    assert (found.num_done, found.num_total) == (4, 6)
    told = []
    compare(tmp_path, shard="1/2", report=lambda *done: told.append(done))
    assert told == [(2, 3), (3, 3)]


def test_shards_and_the_whole_may_run_at_the_same_time(tmp_path):
    compare(tmp_path / "one")
    inner = iter(["2/2", "2/3", None])

    def between(done: int, total: int) -> None:
        compare(tmp_path / "many", shard=next(inner))

    assert compare(tmp_path / "many", shard="1/2", report=between).num_done == 6
    assert content(tmp_path / "many") == content(tmp_path / "one")


def test_a_shard_that_is_in_use_is_refused_and_others_are_not(tmp_path):
    compare(tmp_path, shard="1/3")
    with hold_folder(tmp_path / "shards/0001-of-0003"):
        with pytest.raises(InvalidArgumentError, match="0001-of-0003' is in use by another process"):
            compare(tmp_path, shard="1/3", seeds=4)
        assert compare(tmp_path, shard="2/3").num_done == 4
        compare(tmp_path)


def test_a_run_that_two_shards_have_with_different_numbers_is_refused_by_name(tmp_path):
    for shard in ("1/2", "1/3"):
        compare(tmp_path, shard=shard)
    path = tmp_path / "shards/0001-of-0003" / FILE
    tensors, document = load_tensors(path, question.KIND)
    tensors["divergence"][0, 0, 0, 0, -1] += 1e-15
    save_tensors(path, question.KIND, tensors, document, overwrite=True)
    with pytest.raises(InvalidArgumentError) as error:
        compare(tmp_path)
    said = str(error.value)
    assert "the run of tracking on river at rho = 2, seed 0 is in two files with different numbers" in said
    assert repr(str(path)) in said
    assert repr(str(tmp_path / "shards/0001-of-0002" / FILE)) in said
    assert not (tmp_path / FILE).exists()
    path.unlink()
    compare(tmp_path)


@pytest.mark.parametrize("shard", ["1/2", "2/2", "1/5", None])
def test_shards_of_another_question_are_refused_and_nothing_is_written(tmp_path, shard):
    compare(tmp_path, shard="1/2")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidArgumentError, match="0001-of-0002' holds a comparison with other `num_steps`"):
        compare(tmp_path, shard=shard, num_steps=31)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["notes.txt", "shards"])
def test_a_folder_with_something_else_in_it_is_refused(tmp_path, name):
    """A folder that is called shards counts only if nothing but shards is in it."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").touch()
    for shard in (None, "1/2", "60/64"):
        with pytest.raises(InvalidArgumentError, match=f"`out` must be a new or empty folder.*{name}"):
            compare(tmp_path, shard=shard)


@pytest.mark.parametrize(
    ("shard", "words"),
    [
        ("0/64", "must be numbered from 1 to 64, got '0/64'. Such as shard=\"1/64\"."),
        ("65/64", "must be numbered from 1 to 64, got '65/64'"),
        ("1/0", 'must be numbered from 1 to 1, got \'1/0\'. Such as shard="1/1".'),
        *[(junk, f"must be its number and how many there are, got {junk!r}. Such as shard=\"3/64\".")
          for junk in ("3", "a/b", "", "/", "3/", "-3/64", "3 / 64", "3/64\n", "3/64/2", "٣/64", "1/" + "9" * 5000,
                       3, (3, 64), 0.5, True, b"3/64")],
    ],
)  # fmt: skip
def test_a_shard_that_is_none_is_refused_with_one_that_is(tmp_path, shard, words):
    with pytest.raises(InvalidArgumentError) as error:
        compare(tmp_path / "out", shard=shard)
    assert str(error.value).startswith(f"`shard` {words}")
    assert not (tmp_path / "out").exists()


def test_a_shard_needs_a_folder():
    with pytest.raises(InvalidArgumentError, match=r'`shard` needs `out`.*Such as out="results"'):
        compare(None, shard="1/2")


@pytest.mark.parametrize("load", [rc.Comparison.load, load_comparison])
def test_shards_that_are_not_put_together_are_not_loaded(tmp_path, load):
    compare(tmp_path, shard="1/1")
    with pytest.raises(
        InvalidArgumentError, match=r"holds shards of a comparison\. Call compare with the same"
    ):
        load(tmp_path)
    compare(tmp_path)
    assert len(load(tmp_path).seeds) == 3


# More seeds.


@pytest.mark.parametrize(("before", "after", "new"), [
    (2, 3, [2]), ([5], [3, 5, 4], [3, 4]), ([5, 3], [3, 5], []),
])  # fmt: skip
def test_more_seeds_run_only_the_new_ones(tmp_path, made, before, after, new):
    compare(tmp_path / "fresh", seeds=after)
    compare(tmp_path / "grown", seeds=before)
    del made[:]
    found = compare(tmp_path / "grown", seeds=after)
    assert made == [(name, seed) for seed in new for name in ASKED["explorers"]]
    assert content(tmp_path / "grown") == content(tmp_path / "fresh")
    assert found.seeds == rc.Comparison.load(tmp_path / "grown").seeds


@pytest.mark.thorough
def test_more_seeds_in_environments_are_those_of_a_fresh_comparison(tmp_path):
    compare(tmp_path / "fresh", **LAKES)
    for seeds in ([2], 3):
        compare(tmp_path / "grown", **LAKES | {"seeds": seeds})
    assert content(tmp_path / "grown") == content(tmp_path / "fresh")


def test_a_shard_keeps_its_runs_when_new_seeds_move_them_to_another(tmp_path, made):
    compare(tmp_path / "fresh", seeds=[4, 0, 1])
    compare(tmp_path / "grown", seeds=[0, 1], shard="1/4")
    compare(tmp_path / "grown", seeds=[4, 0, 1], shard="1/4")
    del made[:]
    compare(tmp_path / "grown", seeds=[4, 0, 1])
    assert ("tracking", 0) not in made
    assert content(tmp_path / "grown") == content(tmp_path / "fresh")


@pytest.mark.parametrize("more", [
    {"seeds": 2}, {"seeds": [0, 1, 3]}, {"seeds": 4, "num_steps": 31}, {"seeds": 4, "explorers": ["tracking"]},
])  # fmt: skip
def test_fewer_seeds_or_another_change_are_refused(tmp_path, more):
    compare(tmp_path)
    before = content(tmp_path)
    with pytest.raises(InvalidArgumentError, match="holds a comparison with other"):
        compare(tmp_path, **more)
    assert content(tmp_path) == before


# Executors.


class Carrier:
    """An executor that sends functions, arguments and results as another machine would; some calls fail."""

    def __init__(self, break_first: int = 0) -> None:
        self.left = break_first

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        future: Future = Future()
        if self.left:
            self.left -= 1
            future.set_exception(OSError("the node is gone"))
            return future
        called, given = pickle.loads(pickle.dumps((function, args)))
        future.set_result(pickle.loads(pickle.dumps(called(*given))))
        return future


@pytest.mark.parametrize("make", tiered(
    [lambda: Carrier(2), lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2)], short=2
), ids=["failing", "threads", "processes"])  # fmt: skip
def test_an_executor_gives_the_bits_of_one_process(tmp_path, make):
    for name, more in {"river": {"model": "learned"}, "lakes": LAKES}.items():
        compare(tmp_path / name / "one", **more)
        executor = make()
        compare(tmp_path / name / "many", executor=executor, **more)
        getattr(executor, "shutdown", int)()
        assert content(tmp_path / name / "many") == content(tmp_path / name / "one")


def test_an_executor_runs_a_shard(tmp_path, made):
    assert compare(tmp_path, executor=Carrier(), shard="2/2").num_done == 3 == len(made)


class Fragile(Carrier):
    """An executor in which every call about one run fails."""

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        self.left = int(args[-1] == (0, 0, 1, 2))
        return super().submit(function, *args)


def test_a_run_that_always_fails_in_an_executor_is_named_and_the_others_are_kept(tmp_path, made):
    with pytest.raises(RhocoverError, match=r"the run of stationary on river .* seed 2 failed.* 4 times"):
        compare(tmp_path, executor=Fragile())
    assert len(made) == 5
    compare(tmp_path)
    assert made[5:] == [("stationary", 2)]


@pytest.mark.parametrize(("more", "words"), [
    ({"executor": 3}, r"`executor` must have a method submit\(function, \*args\)"),
    ({"executor": Carrier(), "workers": 2}, "`workers` must be None with an `executor`"),
    ({"executor": Carrier(), "workers": 1}, "`workers` must be None with an `executor`"),
    ({"executor": Carrier(), "explorers": {"mine": Stubborn()}}, "`explorers`: 'mine' is not part of this"),
])  # fmt: skip
def test_an_executor_that_cannot_run_this_is_refused(more, words):
    with pytest.raises(InvalidArgumentError, match=words):
        compare(None, **more)


# The command.

LINE = "compare wheel --explorer tracking --explorer stationary --steps 30 --seeds 2 --workers 1 --out runs"


def test_the_command_runs_shards_and_puts_them_together(rhocover, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = rhocover(f"{LINE} --shard 1/2")
    assert " ".join(first.out.split()) == (
        "Shard 1 of 2 is done: 2 runs. 'runs' has 2 of 4 runs of the comparison. When the other shards are done, "
        "repeat the command without `--shard` to put them together."
    )
    refused = rhocover("compare --redraw runs")
    assert (refused.code, "Type the same command without --shard" in refused.err) == (2, True)
    second = json.loads(rhocover(f"{LINE} --shard 2/2 --json").out)
    assert {name: second[name] for name in ("number", "num_done", "num_total")} == {
        "number": 2, "num_done": 4, "num_total": 4,
    }  # fmt: skip
    whole = rhocover(LINE)
    assert whole.code == 0
    assert whole.out == rhocover(LINE.replace("runs", "elsewhere")).out
    assert content(Path("runs")) == content(Path("elsewhere"))


def test_starting_again_removes_the_shards_unless_one_is_in_use(rhocover, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rhocover(f"{LINE} --shard 1/2")
    again = f"{LINE} --force".replace("30", "31")
    shard = Path("runs/shards/0001-of-0002")
    with hold_folder(shard):
        refused = rhocover(again)
        assert (refused.code, "is in use" in refused.err) == (2, True)
    (shard / "mine").touch()
    refused = rhocover(again)
    assert (refused.code, "holds 'mine', which this command did not write" in refused.err) == (2, True)
    (shard / "mine").unlink()
    assert (shard / FILE).exists()
    assert rhocover(again).code == 0
    assert not Path("runs/shards").exists()


@pytest.mark.thorough
def test_the_job_array_in_the_documentation_runs_its_shard(tmp_path, monkeypatch):
    """SLURM gives each task its number; every task of the array is a shard, and every shard a task."""
    page = (Path(__file__).parents[2] / "docs/cluster.md").read_text("utf-8")
    (script,) = [
        body for _, language, body in fenced_blocks(page) if language == "bash" and "#SBATCH" in body
    ]
    (command,) = re.findall(r"^rhocover .+$", script, re.MULTILINE)
    (last,) = re.findall(r"^#SBATCH --array=1-(\d+)$", script, re.MULTILINE)
    assert command.endswith(f'--shard "$SLURM_ARRAY_TASK_ID/{last}"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", last)
    short = command.replace("--steps 10000 --seeds 40", "--steps 100 --seeds 16")
    assert short != command
    run_command(short, f"Shard {last} of {last} is done: 2 runs. 'runs' has 2 of 128 runs...", 1)


@pytest.mark.parametrize("more", ["--force", "--report page.html"])
def test_a_shard_starts_nothing_again_and_has_no_page(rhocover, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    refused = rhocover(f"{LINE} --shard 1/2 {more}")
    assert (refused.code, "does not go with --shard, which runs only a part" in refused.err) == (2, True)
    assert not list(tmp_path.iterdir())
