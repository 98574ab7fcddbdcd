"""Whatever is wrong with an argument of exploring, the error is ours, says what to do, and leaves no trace.

Every call is made with a folder to write to: whatever is refused, nothing on the disk has changed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from exploring_models import with_transient_states

import rhocover as rc
from rhocover.errors import (
    InfeasibleFloorError,
    InvalidArgumentError,
    NotCommunicatingError,
    RhocoverError,
    UnknownNameError,
)
from rhocover.exploring import explorer_names
from rhocover.exploring.explorers import Block, initial_state
from rhocover.exploring.worlds import SamplePolicy
from tiers import tiered

RIVER = rc.envs.river_swim()
INF = float("inf")
NAMES = ", ".join(explorer_names())


def contents(folder) -> dict:
    """Returns every file below a folder with its bytes and its time, and every folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def refused(tmp_path):
    """Returns a function that explores, expects an error of ours, and sees that nothing was written."""

    def call(kind=InvalidArgumentError, world=RIVER, rho=2.0, num_steps=1000, **arguments) -> str:
        arguments.setdefault("out", tmp_path / "out")
        before = contents(tmp_path)
        with pytest.raises(kind) as caught:
            rc.explore(world, rho, num_steps, **arguments)
        assert isinstance(caught.value, RhocoverError)
        assert contents(tmp_path) == before
        assert str(caught.value).endswith(".")
        return str(caught.value)

    return call


class Uniform:
    """An explorer of one's own."""

    def init(self, belief):
        return initial_state(belief)

    def policy(self, state):
        return Block(SamplePolicy(np.ones(state.counts.size)), 10)

    def update(self, state, visits):
        return state.after(visits)


class Other(Uniform):
    """Another one."""


class Tens:
    """A schedule of one's own."""

    def length(self, k, num_steps):
        return 10


# --- the world and the numbers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "way"),
    [(RIVER.dense(), "rc.MDP(P)"), ("river_swim", "rc.envs.make('river_swim')"), (None, "rc.MDP(P)"),
     ("FrozenLake-v1", "gymnasium.make('FrozenLake-v1')"), ("a.safetensors", "rc.MDP.load('a.safetensors')")],
)  # fmt: skip
def test_the_world_is_a_model(refused, world, way):
    expected = (
        f"`world` must be an MDP or a Gymnasium environment, got {type(world).__name__}. Make one with {way}."
    )
    assert refused(world=world) == expected


@pytest.mark.parametrize("num_steps", [0, -1, np.int64(-5)])
def test_there_is_at_least_one_step(refused, num_steps):
    assert refused(num_steps=num_steps) == f"`num_steps` must be at least 1, got {num_steps}."


@pytest.mark.parametrize("num_steps", [1e4 + 0.5, 10.5, "100", None, True, [10], INF, Fraction(7)])
def test_steps_are_a_whole_number(refused, num_steps):
    assert refused(num_steps=num_steps) == f"`num_steps` must be a whole number, got {num_steps!r}."


def test_steps_can_be_counted_in_64_bits(refused):
    assert refused(num_steps=10**30) == "`num_steps` must be at most 2**60, got a number of 31 digits."


@pytest.mark.parametrize("num_steps", [1, 9])
@pytest.mark.parametrize(
    "explorer", ["algorithm1", "algorithm1_adaptive", rc.Algorithm1(schedule="doubling")]
)
def test_the_budget_covers_the_first_episode(refused, explorer, num_steps):
    assert refused(num_steps=num_steps, explorer=explorer) == (
        f"`num_steps` must cover the first episode of 10 steps, got {num_steps}. "
        "Pass num_steps=10 or more, or shorten the schedule."
    )
    assert "of 50 steps, got 49" in refused(num_steps=49, explorer="algorithm1_short")


def test_steps_are_shared_by_the_chains_evenly(refused):
    assert refused(num_steps=1001, num_chains=4) == (
        "`num_steps` must be a multiple of num_chains=4, got 1001. The next multiple is 1004."
    )
    assert refused(num_chains=0) == "`num_chains` must be at least 1, got 0."
    assert refused(num_chains=2.5) == "`num_chains` must be a whole number, got 2.5."


@pytest.mark.parametrize(("seed", "reason"), [(-1, "at least 0, got -1"), (1.5, "a whole number, got 1.5"),
                                              ("0", "a whole number, got '0'")])  # fmt: skip
def test_a_seed_is_a_whole_number_that_is_not_negative(refused, seed, reason):
    assert refused(seed=seed) == f"`seed` must be {reason}."


@pytest.mark.parametrize("points", [0, -3, 1.5, None])
def test_a_trace_has_at_least_one_row_a_decade(refused, points):
    assert refused(trace_points=points).startswith("`trace_points` must be ")


@pytest.mark.parametrize("rho", ["2", None, np.nan, 2j, [2]])
def test_rho_is_a_number(refused, rho):
    assert refused(rho=rho).startswith("`rho` must be a number, got ")


def test_rho_is_not_negative(refused):
    assert refused(rho=-1) == "`rho` must be in [0, inf], got -1."
    mu = np.ones((6, 2))
    mu[3, 1] = 0.0
    assert "rho=0 measures KL(d || mu)" in refused(rho=0, mu=mu)


@pytest.mark.parametrize("mu", [np.ones((2, 6)), np.full((6, 2), -1.0), np.zeros((6, 2)), np.full(12, INF)])
def test_weights_are_those_of_plan(refused, mu):
    assert refused(mu=mu).startswith("`mu` must ")


def test_an_unknown_rule_is_refused_with_the_names_of_all(refused):
    message = refused(UnknownNameError, mu="model_eror")
    assert message == (
        "unknown rule for `mu` 'model_eror'. Did you mean 'model_error'? Known: model_error, transition_std, "
        "uniform."
    )


@pytest.mark.parametrize("restarts", [{"discount": 0.9}, {"horizon": 5}])
def test_a_rule_goes_with_runs_without_restarts(refused, restarts):
    assert refused(mu="model_error", model="learned", start=0, **restarts).startswith(
        "`mu` can be a rule only in runs without restarts."
    )


@pytest.mark.parametrize("until", [10, "every_pair", rc.EveryPair])
def test_only_a_stopping_rule_stops_a_run(refused, until):
    assert refused(until=until).startswith(
        "`until` must be one of EveryPair(visits), CertifiedGap(gap), SmallModelError(error), got "
    )


@pytest.mark.parametrize("discount", [0, 1, -0.5, 2])
def test_a_discount_lies_between_zero_and_one(refused, discount):
    assert refused(discount=discount, start=0) == f"`discount` must be in (0, 1), got {discount:g}."


def test_restarts_need_a_start_and_a_criterion_is_one(refused):
    assert refused(horizon=0, start=0) == "`horizon` must be at least 1, got 0."
    assert refused(horizon=7.5, start=0) == "`horizon` must be a whole number, got 7.5."
    assert refused(world=rc.MDP(RIVER.dense()), discount=0.9).startswith(
        "`start` is needed with `discount` or `horizon`"
    )
    assert (
        refused(discount=0.9, horizon=9, start=0)
        == "`horizon` cannot be combined with `discount`. Leave it out."
    )


@pytest.mark.parametrize("start", [6, -1])
def test_a_start_is_a_state(refused, start):
    assert refused(start=start) == f"`start` must be a state in 0..5, got {start}."


@pytest.mark.parametrize("start", [[0.5] * 6, [1.0], np.full(6, np.nan), "0"])
def test_a_start_is_a_distribution(refused, start):
    assert refused(start=start).startswith("`start` must ")


def test_a_start_lies_in_the_end_component_that_is_explored(refused):
    mdp = with_transient_states()
    assert "restrict=True" in refused(NotCommunicatingError, world=mdp)
    assert refused(world=mdp, restrict=True, start=1) == (
        "`start` must lie in the end component that is explored: state 1 does not. "
        "Its states are 2, 3, 4, 5, 6, 7."
    )


@pytest.mark.parametrize(
    "arguments",
    tiered([{"discount": np.float32(0.9), "start": np.int64(0)}, {"horizon": np.int64(7), "start": 0, "restrict": True},
     {"discount": Fraction(9, 10), "start": 0}, {"explorer": rc.Algorithm1(eta=np.float32(0.01))},
     {"explorer": rc.Algorithm1(rc.Power(np.int64(9), Fraction(3, 2)), count_floor=np.float32(0.25))},
     {"seed": np.uint64(2**63)}, {"seed": 10**30}, {"num_chains": np.int8(2)}]),
    ids=str,
)  # fmt: skip
def test_any_real_number_that_is_one_is_read_and_stored(arguments, tmp_path):
    """NumPy's numbers and fractions are no JSON; the mutant fails after the folder is there."""
    run = rc.explore(RIVER, Fraction(2), np.int64(1000), out=tmp_path / "out", **arguments)
    np.testing.assert_array_equal(rc.resume(tmp_path / "out").visits, run.visits)


# --- names --------------------------------------------------------------------------------------------


def test_an_unknown_explorer_is_refused_with_all_names(refused):
    message = refused(UnknownNameError, explorer="feedbck")
    assert message.startswith("unknown explorer 'feedbck'. Did you mean 'feedback'? Known: ")
    for name in explorer_names():
        assert name in message


@pytest.mark.parametrize("model", ["lerned", "", "KNOWN"])
def test_an_unknown_model_is_refused_before_a_folder_is_made(refused, model):
    message = refused(UnknownNameError, model=model)
    assert message.startswith(f"unknown model {model!r}. ")
    assert message.endswith("Known: from_scratch, known, learned, posterior.")


@pytest.mark.parametrize("model", [None, 3, ["a"], RIVER])
def test_what_is_no_name_and_no_way_to_learn_is_no_model(refused, model):
    assert refused(model=model) == (
        "`model` must be a name (known, learned, posterior, from_scratch) or a Learned, got "
        f"{type(model).__name__}."
    )


@pytest.mark.parametrize("explorer", [rc.Feedback, rc.Algorithm1])
def test_a_class_is_no_explorer(refused, explorer):
    name = explorer.__name__
    assert refused(explorer=explorer) == (
        f"`explorer` must be a name or an object with init, policy and update, got the class {name}; "
        f"write {name}(). Names: {NAMES}."
    )


@pytest.mark.parametrize("explorer", [None, 3, object(), RIVER])
def test_what_has_no_rules_is_no_explorer(refused, explorer):
    message = refused(explorer=explorer)
    assert f"got {type(explorer).__name__}. Names: {NAMES}." in message


@pytest.mark.parametrize("explorer", ["feedback", "tracking", "stationary", rc.Feedback(), Uniform()])
def test_a_schedule_goes_with_algorithm_1(refused, explorer):
    name = explorer if isinstance(explorer, str) else {rc.Feedback: "feedback"}.get(type(explorer), "Uniform")
    assert refused(explorer=explorer, schedule=rc.Quadratic()) == (
        f"`schedule` is for Algorithm 1 only: {name!r} chooses its own blocks. Leave it out."
    )


def test_a_schedule_is_one_of_ours_or_has_lengths(refused):
    assert refused(UnknownNameError, explorer="algorithm1", schedule="weekly:7") == (
        "unknown schedule 'weekly'. Known: constant, doubling, line_search, power, quadratic."
    )
    assert refused(explorer="algorithm1", schedule="quadratic:0") == (
        "`tau_1` must be at least 1, got 0. Pass schedule='quadratic:10'."
    )
    for schedule in (rc.Quadratic, 10, object()):
        message = refused(explorer="algorithm1", schedule=schedule)
        assert message.startswith("`schedule` must be a text such as 'quadratic:10', or Quadratic(), ")
        assert message.endswith(f", got {schedule!r}.")


def test_a_floor_out_of_reach_is_refused_before_a_folder_is_made(refused):
    message = refused(InfeasibleFloorError, explorer=rc.Algorithm1(eta=0.03))
    assert message.endswith("this MDP allows at most 0.04337 (eta <= 0.02169). Pass eta=0.02 or less.")
    assert refused(explorer=rc.Algorithm1(eta=0.7)) == "`eta` must be in [0, 1/2), got 0.7."


# --- explorers of one's own ---------------------------------------------------------------------------


def changed(**methods) -> Uniform:
    """Returns an explorer of one's own with other methods."""
    return type("Mine", (Uniform,), methods)()


@pytest.mark.parametrize(
    ("explorer", "message"),
    [
        (changed(init=lambda self, belief: None), "`init` and `update` must return a State, got NoneType"),
        (changed(update=lambda self, state, visits: 3), "`init` and `update` must return a State, got int"),
        (
            changed(update=lambda self, state, visits: state),
            "must return a state after 10 steps, got one after 0",
        ),
        (
            changed(policy=lambda self, state: SamplePolicy(np.ones(12))),
            "`policy` must return a Block, got SamplePolicy",
        ),
        (
            changed(policy=lambda self, state: Block(np.ones(12), 5)),
            "`Block.behaviour` must be SamplePolicy, ",
        ),
        (
            changed(policy=lambda self, state: Block(SamplePolicy(np.ones(5)), 5)),
            "`policy` must have shape (6, 2)",
        ),
        (
            changed(policy=lambda self, state: Block(SamplePolicy(np.ones(12)), 2.5)),
            "`Block.num_steps` must be a whole",
        ),
        (
            changed(init=lambda self, belief: initial_state(belief, n=3)),
            "`memory['n']` must be an array of numbers",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_an_explorer_of_ones_own_returns_is_checked(explorer, message):
    with pytest.raises(InvalidArgumentError) as caught:
        rc.explore(RIVER, 2, 100, explorer=explorer)
    assert message in str(caught.value)


def test_a_policy_may_be_a_table():
    table = np.random.default_rng(0).random((6, 2))
    runs = [
        rc.explore(
            RIVER, 2, 500, explorer=changed(policy=lambda self, state, p=p: Block(SamplePolicy(p), 10))
        )
        for p in (table, table.ravel())
    ]
    np.testing.assert_array_equal(runs[0].moves, runs[1].moves)


# --- the folder ---------------------------------------------------------------------------------------


def test_a_folder_that_holds_a_run_is_not_written_to(refused, tmp_path):
    out = tmp_path / "out"
    rc.explore(RIVER, 2, 500, out=out)
    assert refused(out=out) == (
        f"`out` {str(out)!r} already holds a run. Continue it with resume({str(out)!r}), or name another folder."
    )


@pytest.mark.parametrize(
    "name", ["notes.txt", "result.safetensors", "checkpoint-0.safetensors", ".hidden", "sub"]
)
def test_a_folder_that_holds_anything_else_is_not_written_to(refused, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    if name == "sub":
        (out / name).mkdir()
    else:
        (out / name).write_text("mine")
    assert refused(out=out) == f"`out` must be a new or empty folder: {str(out)!r} holds {name!r}."


def test_a_file_is_no_folder(refused, tmp_path):
    out = tmp_path / "file"
    out.write_text("mine")
    assert refused(out=out) == f"`out` must be a folder, got the file {str(out)!r}."


@pytest.mark.parametrize("out", [3, ["runs"], b"runs", True])
def test_a_folder_has_a_name(refused, out):
    assert refused(out=out) == f"`out` must be the name of a folder, got {out!r}."


def test_an_empty_folder_and_one_yet_to_be_made_are_fine(tmp_path):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a" / "b", str(tmp_path / "text")):
        rc.explore(RIVER, 2, 300, out=out)
        assert rc.resume(out).num_steps == 300


# --- resume -------------------------------------------------------------------------------------------


@pytest.fixture
def not_resumed(tmp_path):
    """Returns a function that resumes a finished run with other arguments and sees that it is refused."""
    out = tmp_path / "out"
    rc.explore(RIVER, 2, 500, out=out, seed=3, explorer=rc.Algorithm1(rc.Constant(20)))

    def call(**arguments) -> str:
        before = contents(tmp_path)
        with pytest.raises(InvalidArgumentError) as caught:
            rc.resume(out, **arguments)
        assert contents(tmp_path) == before
        return str(caught.value)

    return call


def test_a_run_is_gone_on_with_as_it_was_begun(not_resumed, tmp_path):
    other = rc.envs.river_swim(num_states=7)
    assert not_resumed(world=other) == "`world` is not the model that this run began with. Leave it out."
    assert not_resumed(world="river") == "`world` is not the model that this run began with. Leave it out."
    assert not_resumed(rho=3) == "`rho` was 2 when this run began, got 3."
    assert not_resumed(rho=Fraction(5, 2)) == "`rho` was 2 when this run began, got 5/2."
    assert not_resumed(rho="2") == "`rho` must be a number, got '2'."
    assert not_resumed(seed=4) == "`seed` was 3 when this run began, got 4."
    assert not_resumed(seed=-1) == "`seed` must be at least 0, got -1."
    for explorer in ("feedback", "algorithm1", "algorithm1_short", Uniform()):
        message = not_resumed(explorer=explorer)
        assert message.startswith("`explorer` was Algorithm1(schedule=Constant(tau=20), ")
        assert message.endswith(f" when this run began, got {explorer!r}.")
    same = {"world": RIVER, "rho": 2.0, "seed": 3, "explorer": rc.Algorithm1(rc.Constant(20))}
    assert rc.resume(tmp_path / "out", **same).num_steps == 500


def test_a_run_is_loaded_from_its_folder_and_not_from_a_file(tmp_path):
    run = rc.explore(RIVER, 2, 200, seed=0, out=tmp_path / "out")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    loaded = rc.resume(tmp_path / "out")
    assert (loaded.counts == run.counts).all()
    assert str(loaded) == str(run)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == files
    with pytest.raises(
        InvalidArgumentError, match=r"must be a folder, got the file .* loaded from its folder"
    ):
        rc.resume(tmp_path / "out" / "result.safetensors")


def test_a_folder_without_a_run_cannot_be_gone_on_with(tmp_path):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(InvalidArgumentError) as caught:
            rc.resume(out)
        assert str(caught.value) == f"`out` {str(out)!r} holds no run: there is no run.safetensors in it."


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        (Uniform(), [Other(), "feedback"]),
        (rc.Algorithm1(schedule=Tens()), [Uniform(), "algorithm1", rc.Algorithm1()]),
    ],
    ids=["an explorer", "a schedule"],
)
def test_an_explorer_of_ones_own_is_asked_for_again(tmp_path, mine, others):
    """Also one of ours with a schedule that is not: the file cannot hold it."""
    out, name = tmp_path / "out", type(mine).__name__
    run = rc.explore(RIVER, 2, 500, explorer=mine, out=out)
    with pytest.raises(InvalidArgumentError) as caught:
        rc.resume(out)
    assert str(caught.value) == f"`explorer` is needed: the run was made with your own {name}."
    for other in others:
        with pytest.raises(InvalidArgumentError) as caught:
            rc.resume(out, explorer=other)
        assert str(caught.value) == (
            f"`explorer` must be your own {name} that this run began with, got {other!r}."
        )
    np.testing.assert_array_equal(rc.resume(out, explorer=mine).visits, run.visits)
