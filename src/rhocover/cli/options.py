"""The options and arguments of all commands, with their help: one annotated type for each.

First those of `plan`, then those of the commands that act, then those of the commands about data.
"""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

COVER, VISITS, SOLVE, RESULT = "What to cover", "Which visits count", "How to solve", "Results"


def parse_number(text: Any) -> float:
    """Returns the number that was typed, possibly inf; the message quotes the text, unlike the parser's."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise BadParameter(f"expected a number, got {text!r}.")
    return value


def parse_integer(text: Any) -> int:
    """Returns the whole number that was typed: 10000, 10_000 or 1e4."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = Decimal(text) if math.isfinite(float(text)) else Decimal("nan")
        if number == int(number):  # exact, and of at most 309 digits
            return int(number)
    except (ValueError, ArithmeticError):
        pass
    raise BadParameter(f"expected a whole number, got {text!r}.")


def weights_option(others: str = "", more: str = "", of: str = "an Estimate") -> Any:
    """Returns the option --mu; `others` lists more specifications, `more` is appended to the help."""
    return Option(
        "--mu",
        metavar="SPEC",
        help=f"Which pairs matter: uniform, transition_std, model_error, {others}FILE.npy or FILE.csv with "
        f"one row per state and one column per action, or module:name, a function of {of} that is imported "
        f"from there.{more}",
        rich_help_panel=COVER,
    )


def delta_option(help: str, panel: str) -> Any:
    """Returns the option --delta: the probability that a statement is wrong."""
    return Option("--delta", parser=parse_number, metavar="D", help=help, rich_help_panel=panel)


def integer_option(name: str, metavar: str, help: str, panel: str) -> Any:
    """Returns an option that takes a whole number."""
    return Option(name, parser=parse_integer, metavar=metavar, help=help, rich_help_panel=panel)


RANDOM = "random:SEED (uniform in 0.1 to 1), "
Env = Annotated[
    str,
    Argument(
        metavar="ENV",
        help="A name from `rhocover envs`, a saved model (FILE.safetensors), an array P[s, a, s_next] "
        "(FILE.npy, or P in FILE.npz), or the id of a Gymnasium environment with a transition table "
        "(FrozenLake-v1).",
    ),
]
RHO = (
    "How much the worst pair counts, from 0 to inf: 0 is maximum entropy, 1 relative entropy, 2 average "
    "relative coverage, inf the worst pair. 2 if not given."
)
Rho = Annotated[float, Option("--rho", parser=parse_number, metavar="R", help=RHO, rich_help_panel=COVER)]
Orders = Annotated[
    list[float] | None,
    Option("--rho", parser=parse_number, metavar="R", help=f"{RHO} Repeatable.", rich_help_panel=COVER),
]
Mu = Annotated[str, weights_option(RANDOM, of="the model")]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A parameter of ENV. Repeatable.", rich_help_panel=COVER),
]
Cover = Annotated[
    str,
    Option(
        metavar="SPEC",
        help="What to cover: pairs, states, transitions, visits (pairs, summed over the steps of an "
        "episode), or FILE.npy or FILE.csv with a label for each state or pair, or a matrix with one row per "
        "group and one column per pair. --mu then has one weight per group.",
        rich_help_panel=COVER,
    ),
]
LIMITED = (
    " FILE.npy or FILE.csv has one value per state, or one row per state and one column per action. With "
    "--horizon the limit is for the total of an episode, otherwise for the average per step. Repeatable."
)
AtMost = Annotated[
    list[str] | None,
    Option(metavar="FILE:LIMIT", help=f"Keep a cost at or below a limit.{LIMITED}", rich_help_panel=COVER),
]
AtLeast = Annotated[
    list[str] | None,
    Option(metavar="FILE:LIMIT", help=f"Keep a return at or above a limit.{LIMITED}", rich_help_panel=COVER),
]
Discount = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="G",
        help="Count the visits of runs that continue with this probability after each step, instead of "
        "long-run visits.",
        rich_help_panel=VISITS,
    ),
]
Horizon = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="H",
        help="Count the visits in episodes of this many steps.",
        rich_help_panel=VISITS,
    ),
]
Start = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="S",
        help="First state of runs or episodes, instead of the model's own start.",
        rich_help_panel=VISITS,
    ),
]
Eta = Annotated[
    float,
    Option(
        parser=parse_number,
        metavar="E",
        help="Give every pair at least a share of 2 eta of the visits.",
        rich_help_panel=VISITS,
    ),
]
Restrict = Annotated[
    bool,
    Option(
        "--restrict", help="Drop the pairs that cannot be visited infinitely often.", rich_help_panel=VISITS
    ),
]
Method = Annotated[
    str,
    Option(
        metavar="M",
        help="interior_point, leximin (with rho inf), frank_wolfe, frank_wolfe_line_search or "
        "frank_wolfe_plain.",
        rich_help_panel=SOLVE,
    ),
]
Tol = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="T",
        help="The certified gap to reach. Default: the solver aims at 1e-8 and accepts up to 1e-6.",
        rich_help_panel=SOLVE,
    ),
]
TimeLimit = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="SECONDS",
        help="Stop planning each rho after this time.",
        rich_help_panel=SOLVE,
    ),
]
MaxSteps = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="N",
        help="Stop the solver after this many steps.",
        rich_help_panel=SOLVE,
    ),
]
Json = Annotated[
    bool, Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=RESULT)
]
Out = Annotated[
    Path | None,
    Option(metavar="DIR", help="Write the plans, plan.json and figures to DIR.", rich_help_panel=RESULT),
]
Force = Annotated[bool, Option("--force", help="Overwrite files that exist.", rich_help_panel=RESULT)]


# The options of the commands that act: `explore`, `resume`, `compare` and `budget`.

RUN, STOP, GOAL = "How to explore", "When to stop early", "What to reach"
ALONG = " If the model is not known, transition_std and model_error are estimated during the run."
FAILURE = (
    "Probability that a certificate made without the true model is wrong, and a stopping rule that uses it."
)
CITED = (
    "active_exploration", "cov_game", "ent_game", "fw_modest", "generative_sampling", "max_renyi", "maxent",
    "reward_free", "rf_express", "rf_ucrl", "state_marginal_matching", "uniform_random", "weighted_maxent",
)  # fmt: skip
NAMES = (
    "feedback, tracking, stationary, algorithm1, algorithm1_short, algorithm1_adaptive; or a published "
    f"method: {', '.join(CITED)} (see `rhocover explorers`)"
)

Envs = Annotated[
    list[str] | None,
    Argument(
        metavar="ENV",
        help="Names from `rhocover envs`, models in files (FILE.safetensors, FILE.npy, FILE.npz), or "
        "Gymnasium environments.",
    ),
]
World = Annotated[
    str,
    Argument(
        metavar="ENV",
        help="A name from `rhocover envs`, a model in a file (FILE.safetensors, FILE.npy or FILE.npz), or a "
        "Gymnasium environment (FrozenLake-v1).",
    ),
]
RunFolder = Annotated[
    Path, Argument(metavar="DIR", help="The folder that `rhocover explore --out DIR` wrote.")
]
Weights = Annotated[str, weights_option(RANDOM, ALONG)]
RunDelta = Annotated[float, delta_option(FAILURE, STOP)]
Model = Annotated[
    str,
    Option(
        metavar="NAME",
        help="What the explorer knows: known (the model itself), learned (its states and actions, but not "
        "the transitions), posterior (as learned, with plans made on draws from the posterior), from_scratch "
        "(not even the number of states).",
        rich_help_panel=RUN,
    ),
]
CompareModel = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="What every explorer knows, as in `rhocover explore`: known by default; from_scratch on "
        "environments, where known is impossible.",
        rich_help_panel=RUN,
    ),
]
Steps = Annotated[
    int,
    Option("--steps", parser=parse_integer, metavar="N", help="How many steps to take.", rich_help_panel=RUN),
]
Explorer = Annotated[
    str, Option(metavar="NAME", help=f"The explorer that acts: {NAMES}.", rich_help_panel=RUN)
]
Explorers = Annotated[
    list[str] | None,
    Option(
        "--explorer",
        metavar="NAME",
        help=f"The explorers to run: {NAMES}. On environments also counts, ppo, ppo_rnd, ppo_icm, ppo_apt, "
        "ppo_e3b, ppo_ngu, ppo_counts and ppo_coverage. Repeatable; default: the first four, on environments "
        "feedback, uniform_random and counts.",
        rich_help_panel=RUN,
    ),
]
Schedule = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="Episode lengths of algorithm1: quadratic:TAU, power:TAU,P, constant:TAU, doubling:TAU or "
        "line_search:TAU.",
        rich_help_panel=RUN,
    ),
]
Seed = Annotated[
    int,
    Option(parser=parse_integer, metavar="K", help="The seed of all random numbers.", rich_help_panel=RUN),
]
StepTimeout = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="SECONDS",
        help="Time limit for one step or reset of an environment; default: none.",
        rich_help_panel=RUN,
    ),
]
Seeds = Annotated[
    int,
    Option(
        parser=parse_integer, metavar="K", help="The number of seeds: 0, 1, ..., K - 1.", rich_help_panel=RUN
    ),
]
COPIES = "Act in this many copies of ENV at once; the steps are divided among them."
NumChains = Annotated[int, integer_option("--num-envs", "C", COPIES, RUN)]
NumEnvs = Annotated[int | None, integer_option("--num-envs", "C", COPIES, RUN)]
UntilVisits = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="M",
        help="Stop when every pair with positive weight has been visited this many times.",
        rich_help_panel=STOP,
    ),
]
UntilGap = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="G",
        help="Stop when the divergence is certified to be at most this much above the best, in nats.",
        rich_help_panel=STOP,
    ),
]
UntilError = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="E",
        help="Stop when the mean L1 error of the estimated transition rows is certified to be at most this.",
        rich_help_panel=STOP,
    ),
]
StoredDelta = Annotated[
    float | None,
    Option(
        "--delta",
        parser=parse_number,
        metavar="D",
        help="Probability that a certificate made without the true model is wrong; default: that of the "
        "run's stopping rule, or 0.05.",
        rich_help_panel=RESULT,
    ),
]
RunStart = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="S",
        help="The first state, instead of the model's own start.",
        rich_help_panel=VISITS,
    ),
]
Workers = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="K",
        help="The number of processes; default: one per core. It does not change the result.",
        rich_help_panel=RUN,
    ),
]
Actors = Annotated[
    int | None,
    Option(
        "--workers",
        parser=parse_integer,
        metavar="W",
        help="The number of actors that act at the same time and know of each other only between rounds; in "
        "environments, each in its own. The result depends on it, but not on where they act.",
        rich_help_panel=RUN,
    ),
]
Engine = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Where to compute: process or process:N (processes of this machine, one per core or N), or ray. "
        "It does not change the result.",
        rich_help_panel=RUN,
    ),
]
Address = Annotated[
    str | None,
    Option(
        metavar="HOST:PORT",
        help="The Ray cluster of `--engine ray`; local starts one on this machine.",
        rich_help_panel=RUN,
    ),
]
ExploreOut = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="A new folder for checkpoints, explore.json and figures. After an interruption, "
        "`rhocover resume DIR` continues the run.",
        rich_help_panel=RESULT,
    ),
]
CompareOut = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="A folder for the runs, compare.json and figures. After an interruption, the same command "
        "continues; with more --seeds, it runs only the new ones.",
        rich_help_panel=RESULT,
    ),
]
Shard = Annotated[
    str | None,
    Option(
        metavar="K/N",
        help="Run only shard K of N of the runs, for job arrays: K from 1 to N, all with the same --out. The "
        "same command without it puts the shards together.",
        rich_help_panel=RUN,
    ),
]
Redraw = Annotated[
    Path | None,
    Option(
        metavar="DIR", help="Draw the figures of DIR again without running anything.", rich_help_panel=RESULT
    ),
]
ForceRun = Annotated[
    bool,
    Option("--force", help="Start again: remove the earlier run from DIR.", rich_help_panel=RESULT),
]
Visits = Annotated[
    int | None,
    Option(parser=parse_integer, metavar="M", help="Visit every pair this many times.", rich_help_panel=GOAL),
]
ModelError = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="E",
        help="Estimate every transition row to this root mean square error.",
        rich_help_panel=GOAL,
    ),
]
Delta = Annotated[
    float,
    Option(
        parser=parse_number,
        metavar="D",
        help="Probability that the guaranteed number of steps is too small.",
        rich_help_panel=GOAL,
    ),
]


# The options of `collect`, `audit` and `top-up`: one type for each.

READ, DEMAND = "How to read the data", "Requirements"


def parse_count(text: Any) -> int:
    """Returns the non-negative whole number that was typed."""
    if (value := parse_integer(text)) < 0:
        raise BadParameter(f"expected 0 or more, got {text!r}.")
    return value


Environment = Annotated[
    str,
    Argument(
        metavar="ENV", help="The id of a Gymnasium environment, such as FrozenLake-v1 or module:Name-v0."
    ),
]
Data = Annotated[
    list[str],
    Argument(
        metavar="DATA...",
        help="A Minari data set (id or folder), a folder written by `rhocover collect` or by Hugging Face's "
        "save_to_disk, or a table with columns s, a, s_next, done (FILE.parquet, .npz, .csv, .jsonl, .arrow, "
        ".feather, .hdf5; text also as .gz). Several files, or a folder of them, are one data set.",
    ),
]


def _env_option(use: str) -> Any:
    text = f"The Gymnasium environment in which the data was collected{use}"
    return Option("--env", metavar="ENV", help=text, rich_help_panel=COVER)


EXACT = (
    ". If it has a transition table, the best achievable coverage is exact, instead of being computed on the "
    "observed transitions."
)
PLANNED = (
    ": the policy is planned on its transition table instead of on the observed transitions, and with --out "
    "the steps are taken in it."
)
TheEnv = Annotated[str | None, _env_option(EXACT)]
MoreEnv = Annotated[str | None, _env_option(PLANNED)]
EnvSet = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="An argument of ENV, with its value as in JSON: map_name=8x8, is_slippery=false. Repeatable.",
        rich_help_panel=COVER,
    ),
]
DataWeights = Annotated[str, weights_option()]
States = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="How real-valued observations become states: bins:12,11 (this many equal bins per dimension), "
        "bins:12,11@-1.2:0.6,-0.07:0.07 (between these bounds instead of those of the space), "
        "quantiles:12,11 (bins that a rollout of random actions visits equally often), net (codes of any "
        "dimension, as wide as 2.5 steps), net:0.5 (of this radius), or module:name, a function of an "
        "observation that is imported from there; the module may be a file in this folder.",
        rich_help_panel=READ,
    ),
]
Actions = Annotated[
    str | None,
    Option(
        metavar="N,...",
        help="Number of levels per dimension for real-valued actions: 3, or 3,5. For discrete actions, those "
        "to use: 0,1,2.",
        rich_help_panel=READ,
    ),
]
Read = Annotated[
    str | None,
    Option(
        "--read",
        metavar="WHAT",
        help="Show what the simulator itself knows as the observation: minigrid, ram, ram:montezuma_revenge, "
        "positions or joints.",
        rich_help_panel=READ,
    ),
]
Level = Annotated[
    int | None,
    Option(
        "--level",
        parser=parse_integer,
        metavar="SEED",
        help="The seed of every reset, for worlds that draw a new level each time; needs --read.",
        rich_help_panel=READ,
    ),
]
StoredRepeat = Annotated[
    int | None,
    Option(
        "--repeat",
        parser=parse_integer,
        metavar="K",
        help="Hold each action for K steps of the environment; default: as in the data.",
        rich_help_panel=READ,
    ),
]
Repeat = Annotated[
    int,
    Option(
        parser=parse_integer,
        metavar="K",
        help="Hold each action for K steps of the environment; --steps then counts such decisions.",
        rich_help_panel=READ,
    ),
]
HeldOut = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="A second way to encode observations, written as for --states: its states are only counted, to "
        "show how far the first ones may be trusted.",
        rich_help_panel=READ,
    ),
]
DatasetId = Annotated[
    str | None,
    Option(
        "--id",
        metavar="ID",
        help="The id of the data set, such as rhocover/lake/covering-v0.",
        rich_help_panel=RESULT,
    ),
]
MaxEpisodeSteps = Annotated[
    int | None,
    Option(
        "--max-episode-steps",
        parser=parse_integer,
        metavar="N",
        help="Truncate episodes after this many steps, instead of where ENV itself does.",
        rich_help_panel=RUN,
    ),
]
CollectOut = Annotated[
    Path,
    Option(
        "--out",
        metavar="DIR",
        help="A new folder for the data set and its datasheet. After an interruption, --resume continues.",
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
    bool, Option("--resume", help="Continue the interrupted collection in DIR.", rich_help_panel=RESULT)
]
Collected = Annotated[Path, Argument(metavar="DIR", help="The folder of a collection.")]
MinariId = Annotated[
    str,
    Option(
        "--minari",
        metavar="ID",
        help="The id of the Minari data set, such as lake/covered-v0.",
        rich_help_panel=RESULT,
    ),
]
ForceExport = Annotated[
    bool, Option("--force", help="Replace a data set that has this id.", rich_help_panel=RESULT)
]
ForceCollection = Annotated[
    bool,
    Option(
        "--force",
        help="Start again: remove the collection in DIR, and nothing else from it. Also overwrite the other "
        "output files.",
        rich_help_panel=RESULT,
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    Option(
        "--column",
        metavar="ROLE=NAME",
        help="Which column of a table has the s, a, s_next, done, terminated, truncated or episode, such as "
        "s=pos; several for one role are put side by side: s=x,y. Repeatable.",
        rich_help_panel=READ,
    ),
]
NumStates = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="S",
        help="States are 0 to S - 1: those missing from the data count as never visited, any others are an "
        "error.",
        rich_help_panel=READ,
    ),
]
NumActions = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="A",
        help="The number of actions, including those that never occur in the data.",
        rich_help_panel=READ,
    ),
]
MetOnly = Annotated[
    bool,
    Option(
        "--met-only",
        help="Audit only the states that occur in the data, even if bins, a space or --num-states define "
        "more.",
        rich_help_panel=COVER,
    ),
]
Certificate = Annotated[
    bool | None,
    Option(
        "--certificate/--no-certificate",
        help="Certify the gap to the best over all models that agree with the data, however long it takes, "
        "or skip the certificate. Default: skipped only for large data.",
        rich_help_panel=COVER,
    ),
]
Best = Annotated[
    bool | None,
    Option(
        "--best/--no-best",
        help="Plan the best achievable coverage, however long it takes, or skip it. Default: skipped only "
        "for very large data.",
        rich_help_panel=COVER,
    ),
]
CertificateDelta = Annotated[float, delta_option("Probability that the certificate is wrong.", COVER)]
WorstRatio = Annotated[
    float | None,
    Option(
        "--require-worst-ratio",
        parser=parse_number,
        metavar="R",
        help="Exit with code 4 if a pair has less than 1/R of its share.",
        rich_help_panel=DEMAND,
    ),
]
Complete = Annotated[
    bool,
    Option(
        "--require-complete",
        help="Exit with code 4 if a pair with positive weight was never visited.",
        rich_help_panel=DEMAND,
    ),
]
Thin = Annotated[
    int,
    Option(
        parser=parse_count,
        metavar="K",
        help="How many of the least covered pairs to show, at most 20.",
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
        help="Write the policy to FILE.csv, with one row per state and one column per action, or to "
        "FILE.safetensors.",
        rich_help_panel=RESULT,
    ),
]
