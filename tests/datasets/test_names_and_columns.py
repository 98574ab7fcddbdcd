"""Texts are names of states and actions; columns can be named; codes and bins are fitted to the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest

import datasets
import rhocover as rc
import same_steps as same
from rhocover.datasets import read_tally, reading_tables, tables
from rhocover.errors import InvalidArgumentError, InvalidDataError, UnknownNameError
from tiers import tiered

NUMBERED = same.columns()


def named(column: str) -> Any:
    names = same.ACTION_NAMES if column == "a" else same.STATE_NAMES
    return np.array(names)[NUMBERED[column]]


NAMED = NUMBERED | {name: named(name) for name in ("s", "a", "s_next")}
PANDAS = pd.DataFrame(NAMED)


def labelled() -> Any:

    label = {"a": datasets.ClassLabel(names=list(same.ACTION_NAMES)), "s": datasets.Value("string")}
    kinds = {"s_next": datasets.Value("string"), "terminated": datasets.Value("bool"),
             "truncated": datasets.Value("bool"), "episode": datasets.Value("int64")}  # fmt: skip
    return datasets.Dataset.from_dict(NAMED | {"a": NUMBERED["a"]}, datasets.Features(label | kinds))


def saved(folder: Path) -> Path:
    labelled().save_to_disk(str(folder / "saved"))
    return folder / "saved"


def hdf5(folder: Path) -> Path:
    with h5py.File(folder / "it.h5", "w") as file:
        for name, values in NAMED.items():
            file[name] = values.astype("S") if values.dtype.kind == "U" else values
    return folder / "it.h5"


def written(name: str, write: Any) -> Any:
    def make(folder: Path) -> Path:
        write(folder / name)
        return folder / name

    return make


CATEGORIES = {"s": "category", "a": "category"}
FORMS = {
    "arrays": lambda _: NAMED,
    "lists": lambda _: {name: values.tolist() for name, values in NAMED.items()},
    "pandas": lambda _: PANDAS,
    "pandas categories": lambda _: PANDAS.astype(CATEGORIES),
    "polars": lambda _: pl.DataFrame(NAMED),
    "polars categories": lambda _: pl.DataFrame(NAMED).with_columns(pl.col("s", "a").cast(pl.Categorical)),
    "polars enum": lambda _: pl.DataFrame(NAMED).with_columns(pl.col("a").cast(pl.Enum(same.ACTION_NAMES))),
    "pyarrow": lambda _: pa.table({name: pa.array(values.tolist()) for name, values in NAMED.items()}),
    "pyarrow dictionary": lambda _: pa.Table.from_pandas(PANDAS.astype(CATEGORIES)),
    "csv": written("it.csv", lambda path: PANDAS.to_csv(path)),
    "npz": written("it.npz", lambda path: np.savez(path, **NAMED)),
    "parquet": written("it.parquet", lambda path: PANDAS.to_parquet(path)),
    "parquet categories": written("it.parquet", lambda path: PANDAS.astype(CATEGORIES).to_parquet(path)),
    "feather categories": written("it.feather", lambda path: PANDAS.astype(CATEGORIES).to_feather(path)),
    "ipc of polars": written("it.ipc", lambda path: pl.DataFrame(NAMED).write_ipc(path)),
    "ipc of polars categories": written("it.ipc", lambda path: FORMS["polars categories"](None).write_ipc(path)),
    "jsonl": written("it.jsonl", lambda path: PANDAS.to_json(path, orient="records", lines=True)),
    "hdf5": hdf5,
    "labels": lambda _: labelled(),
    "saved labels": saved,
    "episodes": lambda _: [
        {"obs": np.array(same.STATE_NAMES)[w.states], "acts": np.array(same.ACTION_NAMES)[w.actions], "terminal": w.is_ended}
        for w in same.WALKS
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", tiered(FORMS, short=["arrays", "csv", "parquet categories", "hdf5"]))
def test_texts_are_the_keys_of_states_and_the_names_of_actions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SIZE", 50)
    tally = read_tally(FORMS[name](tmp_path))
    assert same.counts_of(tally) == same.counted("whole", is_named=True)
    assert tally.keys == ("attic", "cellar", "den", "hall", "kitchen")
    assert tally.end_keys == ("exit",)
    assert tally.action_names == ("back", "down", "up")


def test_a_plan_for_names_is_that_for_numbers() -> None:
    plans = [rc.top_up(data, num_steps=50, rho=2.0) for data in (NAMED, NUMBERED)]
    order = [same.STATE_NAMES.index(key) for key in plans[0].before.tally.keys]
    acts = [same.ACTION_NAMES.index(name) for name in plans[0].before.tally.action_names]
    assert np.allclose(plans[0].policy, plans[1].policy[order][:, acts], atol=1e-4)
    assert "(attic, back)" in {pair.name for pair in plans[0].before.thin}


def test_names_are_matched_with_those_of_a_model() -> None:
    """Sorted names would be numbered in another order than the model's."""
    lake = rc.envs.river_swim(num_states=4)
    assert lake.action_labels is not None
    rows = {
        "s": [0, 1],
        "a": [lake.action_labels[1], lake.action_labels[0]],
        "s_next": [1, 0],
        "done": [0, 0],
    }
    found = rc.audit(rows, model=lake)
    assert found.tally.counts[:2].tolist() == [[0, 1], [1, 0]]
    with pytest.raises(
        InvalidDataError, match="names the action 'jump', which the given model or environment"
    ):
        rc.audit(rows | {"a": ["jump", "jump"]}, model=lake)


def test_names_mean_nothing_to_an_environment_with_numbers(tmp_path: Path) -> None:
    import gymnasium as gym

    with pytest.raises(
        InvalidDataError, match=r'it has numbers only. Number them as it does, for example data\["a"\]'
    ):
        rc.top_up(NAMED, gym.make("FrozenLake-v1"), num_steps=10, out=tmp_path / "more")


def test_more_actions_than_named_are_never_tried() -> None:
    assert read_tally(NAMED, num_actions=4).counts[:, 3].sum() == 0
    with pytest.raises(InvalidDataError, match="`num_actions` is 2, but the data name 3: back, down, up"):
        read_tally(NAMED, num_actions=2)
    with pytest.raises(InvalidDataError, match="states are 0 to 4, but the data has attic"):
        read_tally(NAMED, num_states=5)


@pytest.mark.parametrize("size", tiered([2, 1, 100]))
@pytest.mark.parametrize("column", ["s", "a"])
@pytest.mark.parametrize("values", [["x", "0", "y"], ["0", "1", "x"], ["x", "", "y"]])
def test_numbers_and_names_in_one_column_are_refused_whatever_the_pieces(
    size: int, column: str, values: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SIZE", size)
    rows: dict[str, Any] = {"s": [0, 1, 0], "a": [0, 1, 0], "s_next": [1, 0, 1], "done": [0, 0, 0]}
    rows |= {"s_next": ["x", "y", "x"]} if column == "s" and values[0] == "x" else {}
    with pytest.raises(InvalidDataError, match=f"`{column}` must hold"):
        read_tally(rows | {column: values})


# ------------------------------------------------------------------------------------------------ columns

OTHER = {
    "pos": NUMBERED["s"],
    "move": NUMBERED["a"],
    "then": NUMBERED["s_next"],
    "over": NUMBERED["terminated"],
}
ROLES = {"s": "pos", "a": "move", "s_next": "then", "done": "over"}


def test_columns_can_be_named() -> None:
    plain = {
        "s": NUMBERED["s"],
        "a": NUMBERED["a"],
        "s_next": NUMBERED["s_next"],
        "done": NUMBERED["terminated"],
    }
    expected = same.counts_of(read_tally(plain))
    assert same.counts_of(read_tally(OTHER, columns=ROLES)) == expected
    assert same.counts_of(rc.audit(OTHER, columns=ROLES).tally) == expected
    assert same.counts_of(rc.top_up(OTHER, num_steps=5, columns=ROLES).before.tally) == expected
    other_words = {"observation": "pos", "actions": "move", "next_obs": "then", "done": "over"}
    assert same.counts_of(read_tally(OTHER, columns=other_words)) == expected
    both = OTHER | {"s": NUMBERED["s_next"]}  # a chosen column comes before one with a usual name
    assert same.counts_of(read_tally(both, columns=ROLES)) == expected
    episodes = [{"pos": w.states, "move": w.actions, "terminal": w.is_ended} for w in same.WALKS]
    found = read_tally(episodes, columns={"s": "pos", "a": "move"})
    assert same.counts_of(found) == same.counted("whole")


def test_several_columns_are_one_observation(tmp_path: Path, rhocover: Any) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((100, 2))
    frame = pd.DataFrame({"x": points[:, 0], "y": points[:, 1], "a": rng.integers(0, 2, 100), "episode": 0})
    frame.to_csv(tmp_path / "it.csv")
    bins = rc.Bins(4, low=0.0, high=1.0)
    tally = read_tally(tmp_path / "it.csv", columns={"s": ("x", "y")}, states=bins)
    expected = read_tally({"s": points, "a": frame["a"], "episode": frame["episode"]}, states=bins)
    assert tally.keys == expected.keys
    assert np.array_equal(tally.counts, expected.counts)
    result = rhocover("audit it.csv --column s=x,y --states bins:4@0:1,0:1 --json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["audit"]["num_steps"] == 99


def test_columns_inside_groups_are_read_if_they_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "it.hdf5", "w") as file:
        for name, key in (
            ("infos/cell", "s"),
            ("actions", "a"),
            ("terminals", "terminated"),
            ("timeouts", "truncated"),
        ):
            file[name] = NUMBERED[key]
        file["observations"] = np.zeros((len(NUMBERED["s"]), 4))
    tally = read_tally(tmp_path / "it.hdf5", columns={"s": "infos/cell"})
    assert same.counts_of(tally) == same.counted("within")


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"s": "position"}, InvalidDataError, "`columns` names 'position' as the state, but the data has the columns pos, move"),
        ({"s": ("pos", "y")}, InvalidDataError, "`columns` names 'y', but the data has the columns pos"),
        ({"state_": "pos"}, UnknownNameError, "unknown role of a column in `columns` 'state_'. Did you mean"),
        ({"s": 3}, InvalidDataError, "must give the name of a column for 's', got 3"),
        ({"done": ("over", "pos")}, InvalidDataError, "must give the name of a column for 'done'"),
        ({"s": "pos", "obs": "pos"}, InvalidDataError, "`columns` names the state twice"),
        (["s"], InvalidDataError, '`columns` must be like {"s": "pos", "a": "act"}, got list'),
    ],
)  # fmt: skip
def test_names_of_columns_that_cannot_be_are_refused(columns: Any, error: type, message: str) -> None:
    with pytest.raises(error) as refused:
        read_tally(OTHER, columns=columns)
    assert message in str(refused.value)


def test_columns_are_for_tables() -> None:
    with pytest.raises(InvalidArgumentError, match="`columns` is for tables, but the data is none"):
        read_tally(read_tally(NUMBERED), columns={"s": "pos"})


# -------------------------------------------------------------------------------------------------- codes


def points(number: int = 400) -> dict[str, Any]:
    """Returns a walk in the plane, with actions that are real numbers."""
    rng = np.random.default_rng(3)
    steps = rng.normal(0, 0.05, (number, 2))
    s = np.cumsum(steps, axis=0)
    return {"s": s[:-1], "a": steps[1:] * 20, "s_next": s[1:], "done": np.zeros(number - 1, bool)}


@pytest.mark.parametrize("code", [rc.Net(), rc.Net(0.2), rc.SimHash(bits=6), rc.QuantileBins(4)])
@pytest.mark.parametrize("size", tiered([50, 1000]))
def test_codes_are_fitted_to_the_data(code: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what the same code is that was fitted to the same steps before."""
    monkeypatch.setattr(tables, "SIZE", size)
    monkeypatch.setattr(reading_tables, "MOST_FITTED", 120)
    rows = points() | {"a": np.zeros(399, int)}
    more = {"then": rows["s_next"][:120]} if isinstance(code, rc.Net) else {}
    fitted = code.fit(rows["s"][:120], **more)
    found, expected = read_tally(rows, states=code), read_tally(rows, states=fitted)
    assert found.keys == expected.keys
    assert np.array_equal(found.counts, expected.counts)
    kind = type(code).__name__
    assert found.remarks == (
        f"The code of the states, {kind}, is fitted to the first 120 steps of the data.",
    )


def test_real_actions_without_bounds_are_binned_at_their_quantiles() -> None:
    rows = points() | {"s": np.zeros(399, int), "s_next": np.zeros(399, int)}
    tally = read_tally(rows, actions=3)
    assert tally.num_actions == 9
    marginal = tally.counts.reshape(3, 3).sum(axis=1)
    assert marginal.tolist() == [133, 133, 133]
    assert tally.remarks == (
        "Actions have no bounds: they are counted in 3 x 3 bins, at quantiles of the first 399.",
    )
    assert read_tally(rows, actions=(2, 4)).num_actions == 8
    line = str(rc.audit(rows, actions=3))
    assert "Actions have no bounds" in line
    assert rc.audit(rows, actions=3).summary()["remarks"] == list(tally.remarks)


def test_real_actions_without_a_choice_are_refused_with_one() -> None:
    for actions in (points()["a"], points()["a"][:, 0]):
        with pytest.raises(
            InvalidDataError, match="Real actions need `actions`: 3 for three bins per dimension"
        ):
            read_tally(points() | {"s": np.zeros(399, int), "s_next": np.zeros(399, int), "a": actions})


def test_an_environment_gives_its_bounds_to_tables(tmp_path: Path) -> None:
    """Levels and bins of old and new data are the same."""
    import gymnasium as gym

    env = gym.make("Pendulum-v1")
    rng = np.random.default_rng(0)
    seen, rows = env.reset(seed=0)[0], []
    for _ in range(300):
        action = rng.uniform(-2, 2, 1)
        after, _, terminated, truncated, _ = env.step(action)
        rows.append((seen, action, after, terminated, truncated))
        seen = env.reset()[0] if truncated else after
    table = dict(
        zip(
            ("s", "a", "s_next", "terminated", "truncated"),
            map(np.array, zip(*rows, strict=True)),
            strict=True,
        )
    )
    more = rc.top_up(table, env, 200, states=rc.Bins(3), actions=3, out=tmp_path / "more", model="learned")
    assert more.before.tally.action_names == more.after.tally.action_names == ("-2", "0", "2")
    assert more.after.num_steps == 500
    assert set(more.before.tally.keys) <= set(more.after.tally.keys)


def test_a_net_that_grew_with_old_data_goes_on_with_the_new(tmp_path: Path) -> None:
    """The number of a leader means the same observation in both."""
    import gymnasium as gym

    env = gym.make("MountainCar-v0", max_episode_steps=100)
    rng = np.random.default_rng(0)
    seen, rows = env.reset(seed=0)[0], []
    for _ in range(400):
        action = int(rng.integers(3))
        after, _, terminated, truncated, _ = env.step(action)
        rows.append((seen, action, after, terminated, truncated))
        seen = env.reset()[0] if terminated or truncated else after
    table = dict(
        zip(
            ("s", "a", "s_next", "terminated", "truncated"),
            map(np.array, zip(*rows, strict=True)),
            strict=True,
        )
    )
    more = rc.top_up(table, env, 300, states=rc.Net(), out=tmp_path / "more", model="learned")
    net = more.collection.states
    leaders = net.keys(table["s"], grows=False)
    old = read_tally({"s": leaders, "a": table["a"], "s_next": net.keys(table["s_next"], grows=False),
                      "terminated": table["terminated"], "truncated": table["truncated"]})  # fmt: skip
    assert more.before.tally.as_dict() == old.as_dict()
    assert more.after.num_steps == 700
