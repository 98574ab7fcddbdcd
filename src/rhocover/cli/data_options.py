"""The options of `collect`, `audit` and `top-up`: one type for each, and how messages spell them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from rhocover.cli.options import COVER, RESULT, number, whole
from rhocover.cli.run_options import RUN

READ, DEMAND = "How to read it", "What is demanded"
SPELLINGS = {
    "rc.Bins(8) for 8 bins a dimension, rc.QuantileBins(8), or a function of an observation that gives a "
    "whole number, a text or a tuple of those": "such as bins:8 for 8 bins a dimension, or quantiles:8",
    "say where its bins should end, for example Bins(..., low=[...], high=[...]) with one number a "
    "dimension; None takes the space's bound": "say where its bins should end, LOW:HIGH a dimension, such as "
    "bins:8,8@-1:1,-5:5",
    "(actions=3: the low end, the middle, the high end), or an array of them, one a row": "(--actions 3: the "
    "low end, the middle, the high end)",
    'explore(env, ..., model="learned")': "--model learned",
    'model="learned"': "--model learned",
    "resume=True": "--resume",
    "Leave resume out": "Leave --resume out",
    "with top_up.": "with rhocover top-up.",
    "by collect(env, out=...)": "by rhocover collect",
    "explore MDP.from_gymnasium(env)": "take a model from rhocover envs",
    "`counts`": "`--states`",
    "`low`": "LOW of --states",
    "`high`": "HIGH of --states",
    "`data`": "DATA",
}


def natural(text: Any) -> int:
    """Returns the whole number of 0 or more that was typed."""
    if (value := whole(text)) < 0:
        raise BadParameter(f"expected 0 or more, got {text!r}.")
    return value


Environment = Annotated[
    str, Argument(metavar="ENV", help="The id of a Gymnasium environment: FrozenLake-v1, module:Name-v0.")
]
Data = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A Minari data set (its id or folder), the folder of `rhocover collect`, or a table of s, a, "
        "s_next, done: FILE.parquet, FILE.npz or FILE.csv.",
    ),
]
TheEnv = Annotated[
    str | None,
    Option(
        "--env",
        metavar="ENV",
        help="The Gymnasium environment that the data is of. If it has a table of its transitions, the best "
        "achievable is exact, and not of what the data shows.",
        rich_help_panel=COVER,
    ),
]
MoreEnv = Annotated[
    str | None,
    Option(
        "--env",
        metavar="ENV",
        help="The Gymnasium environment that the data is of: the policy is planned on its table of "
        "transitions, not on what the data shows, and with --out the steps are taken in it.",
        rich_help_panel=COVER,
    ),
]
Set = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="An argument of ENV, its value as in JSON: map_name=8x8, is_slippery=false. Repeatable.",
        rich_help_panel=COVER,
    ),
]
Weights = Annotated[
    str,
    Option(
        "--mu",
        metavar="SPEC",
        help="Which pairs matter: uniform, transition_std, model_error, or FILE.npy or FILE.csv with a row "
        "for each state and a column for each action.",
        rich_help_panel=COVER,
    ),
]
States = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="How observations of real numbers become states: bins:12,11 (so many equal parts a dimension), "
        "bins:12,11@-1.2:0.6,-0.07:0.07 (between these bounds, if not the space's own) or quantiles:12,11 "
        "(parts that a pilot run of random actions visits equally often).",
        rich_help_panel=READ,
    ),
]
Actions = Annotated[
    str | None,
    Option(
        metavar="N,...",
        help="How many levels of each dimension actions of real numbers have: 3, or 3,5.",
        rich_help_panel=READ,
    ),
]
DatasetId = Annotated[
    str | None,
    Option(
        "--id",
        metavar="ID",
        help="The Minari id of the data set, such as rhocover/lake/covering-v0.",
        rich_help_panel=RESULT,
    ),
]
NumEnvs = Annotated[
    int | None,
    Option(
        "--num-envs",
        parser=whole,
        metavar="C",
        help="Act in so many copies of ENV at once; the steps are shared among them.",
        rich_help_panel=RUN,
    ),
]
MaxEpisodeSteps = Annotated[
    int | None,
    Option(
        "--max-episode-steps",
        parser=whole,
        metavar="N",
        help="Cut episodes after so many steps, if not where ENV itself does.",
        rich_help_panel=RUN,
    ),
]
CollectOut = Annotated[
    Path,
    Option(
        "--out",
        metavar="DIR",
        help="A new folder for the data set and its datasheet. After an interruption --resume goes on.",
        rich_help_panel=RESULT,
    ),
]
MoreOut = Annotated[
    Path | None,
    Option(
        "--out",
        metavar="DIR",
        help="With --env: a new folder for the new data and its datasheet.",
        rich_help_panel=RESULT,
    ),
]
Resume = Annotated[
    bool, Option("--resume", help="Go on with what was interrupted in DIR.", rich_help_panel=RESULT)
]
Anew = Annotated[
    bool,
    Option(
        "--force",
        help="Begin anew: a collection in DIR is removed, and nothing else. Overwrite the other files.",
        rich_help_panel=RESULT,
    ),
]
NumStates = Annotated[
    int | None,
    Option(
        parser=whole,
        metavar="S",
        help="States are 0 to S - 1: those that the data never met count as never tried, others are refused.",
        rich_help_panel=READ,
    ),
]
NumActions = Annotated[
    int | None,
    Option(
        parser=whole,
        metavar="A",
        help="How many actions there are, also those that nobody took.",
        rich_help_panel=READ,
    ),
]
MetOnly = Annotated[
    bool,
    Option(
        "--met-only",
        help="Judge the data by the states that it met, where bins, a space or --num-states name more.",
        rich_help_panel=COVER,
    ),
]
Certificate = Annotated[
    bool | None,
    Option(
        "--certificate/--no-certificate",
        help="Certify how far the data is from the best of any model that it allows, however long it takes, "
        "or not at all. By itself only large data goes without.",
        rich_help_panel=COVER,
    ),
]
Best = Annotated[
    bool | None,
    Option(
        "--best/--no-best",
        help="Plan the best achievable however long it takes, or not at all. By itself only very large data "
        "goes without.",
        rich_help_panel=COVER,
    ),
]
Doubt = Annotated[
    float,
    Option(
        "--delta",
        parser=number,
        metavar="D",
        help="How often the certificate may be wrong.",
        rich_help_panel=COVER,
    ),
]
WorstRatio = Annotated[
    float | None,
    Option(
        "--require-worst-ratio",
        parser=number,
        metavar="R",
        help="End with exit code 4 if a pair has less than 1/R of its share.",
        rich_help_panel=DEMAND,
    ),
]
Complete = Annotated[
    bool,
    Option(
        "--require-complete",
        help="End with exit code 4 if a pair with a weight was never tried.",
        rich_help_panel=DEMAND,
    ),
]
Thin = Annotated[
    int,
    Option(
        parser=natural,
        metavar="K",
        help="How many of the thinnest pairs to show, 20 at most.",
        rich_help_panel=RESULT,
    ),
]
AuditOut = Annotated[
    Path | None,
    Option(metavar="DIR", help="Write audit.json and audit.safetensors to DIR.", rich_help_panel=RESULT),
]
Policy = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="Write the policy: FILE.csv with a row for each state and a column for each action, or "
        "FILE.safetensors.",
        rich_help_panel=RESULT,
    ),
]
