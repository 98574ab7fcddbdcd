"""The options of `rhocover plan`, with their help: one type for each, named after its option."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

COVER, VISITS, SOLVE, RESULT = "What to cover", "Which visits count", "How to solve", "What to do with it"


def parse_number(text: Any) -> float:
    """Returns the number that was typed, which may be inf; the parser's own message would not name it."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise BadParameter(f"expected a number, got {text!r}.")
    return value


def parse_integer(text: Any) -> int:
    """Returns the whole number that was typed."""
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"expected a whole number, got {text!r}.") from None


def weights_option(others: str = "", more: str = "") -> Any:
    """Returns the option --mu; `others` are more ways to name weights, `more` is what else to know."""
    return Option(
        "--mu",
        metavar="SPEC",
        help=f"Which pairs matter: uniform, transition_std, model_error, {others}or FILE.npy or FILE.csv "
        f"with a row for each state and a column for each action.{more}",
        rich_help_panel=COVER,
    )


def delta_option(help: str, panel: str) -> Any:
    """Returns the option --delta: how often a statement may be wrong."""
    return Option("--delta", parser=parse_number, metavar="D", help=help, rich_help_panel=panel)


RANDOM = "random:SEED (uniform in 0.1 to 1), "
Env = Annotated[
    str,
    Argument(
        metavar="ENV",
        help="A name from `rhocover envs`, a saved model: FILE.safetensors, or a Gymnasium id with a table: "
        "FrozenLake-v1.",
    ),
]
Rho = Annotated[
    list[float],
    Option(
        parser=parse_number,
        metavar="R",
        help="How much the worst pair counts, from 0 to inf: 0 is maximum entropy, 1 relative entropy, "
        "2 average relative coverage, inf the worst pair. Repeatable: a row for each.",
        rich_help_panel=COVER,
    ),
]
Mu = Annotated[str, weights_option(RANDOM)]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A parameter of ENV. Repeatable.", rich_help_panel=COVER),
]
Discount = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="G",
        help="Count the visits of runs that go on with this probability, instead of long-run visits.",
        rich_help_panel=VISITS,
    ),
]
Horizon = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="H",
        help="Count the visits of episodes of this many steps.",
        rich_help_panel=VISITS,
    ),
]
Start = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="S",
        help="First state of runs or episodes, if not the model's own.",
        rich_help_panel=VISITS,
    ),
]
Eta = Annotated[
    float,
    Option(
        parser=parse_number,
        metavar="E",
        help="Give every pair at least 2 eta of the visits.",
        rich_help_panel=VISITS,
    ),
]
Restrict = Annotated[
    bool,
    Option("--restrict", help="Drop the pairs that cannot be visited for ever.", rich_help_panel=VISITS),
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
        help="The certified gap to reach. Left out: 1e-8 is aimed at, and up to 1e-6 is accepted.",
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
    Option(parser=parse_integer, metavar="N", help="Give up after this many steps.", rich_help_panel=SOLVE),
]
Json = Annotated[
    bool, Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=RESULT)
]
Out = Annotated[
    Path | None,
    Option(metavar="DIR", help="Write plans, plan.json and pictures to DIR.", rich_help_panel=RESULT),
]
Force = Annotated[bool, Option("--force", help="Overwrite files that exist.", rich_help_panel=RESULT)]


# The options of the commands that act: `explore`, `resume`, `compare` and `budget`.

RUN, STOP, WISH = "How to explore", "When to stop early", "What is wanted"
ALONG = " Where the model is not known, transition_std and model_error are estimated along the way."
DOUBT = "How often a certificate that knows no model may be wrong, and a rule that relies on it."
CITED = (
    "active_exploration", "cov_game", "ent_game", "fw_modest", "generative_sampling", "max_renyi", "maxent",
    "reward_free", "rf_express", "rf_ucrl", "state_marginal_matching", "uniform_random", "weighted_maxent",
)  # fmt: skip
NAMES = (
    "feedback, tracking, stationary, algorithm1, algorithm1_short, algorithm1_adaptive; or a cited system: "
    f"{', '.join(CITED)} (see `rhocover explorers`)"
)

Envs = Annotated[
    list[str] | None,
    Argument(metavar="ENV", help="Names from `rhocover envs`, or saved models: FILE.safetensors."),
]
World = Annotated[
    str,
    Argument(
        metavar="ENV",
        help="A name from `rhocover envs`, a saved model: FILE.safetensors, or a Gymnasium environment: "
        "FrozenLake-v1.",
    ),
]
RunFolder = Annotated[Path, Argument(metavar="DIR", help="The folder of `rhocover explore --out DIR`.")]
Order = Annotated[
    float,
    Option(
        "--rho",
        parser=parse_number,
        metavar="R",
        help="How much the worst pair counts, from 0 to inf.",
        rich_help_panel=COVER,
    ),
]
Orders = Annotated[
    list[float] | None,
    Option(
        "--rho",
        parser=parse_number,
        metavar="R",
        help="How much the worst pair counts, from 0 to inf; 2 if not given. Repeatable.",
        rich_help_panel=COVER,
    ),
]
Weights = Annotated[str, weights_option(RANDOM, ALONG)]
RunDelta = Annotated[float, delta_option(DOUBT, STOP)]
Model = Annotated[
    str,
    Option(
        metavar="NAME",
        help="What the explorer knows: known (the model itself), learned (its states and actions, not the "
        "transitions), posterior (the same; plans are made on draws from the posterior), from_scratch (not "
        "even how many states there are).",
        rich_help_panel=RUN,
    ),
]
Steps = Annotated[
    int,
    Option("--steps", parser=parse_integer, metavar="N", help="How many steps to take.", rich_help_panel=RUN),
]
Explorer = Annotated[str, Option(metavar="NAME", help=f"Who acts: {NAMES}.", rich_help_panel=RUN)]
Explorers = Annotated[
    list[str] | None,
    Option(
        "--explorer",
        metavar="NAME",
        help=f"Who acts: {NAMES}. Repeatable; the first four if not given.",
        rich_help_panel=RUN,
    ),
]
Schedule = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="Episodes of algorithm1: quadratic:TAU, power:TAU,P, constant:TAU, doubling:TAU or "
        "line_search:TAU.",
        rich_help_panel=RUN,
    ),
]
Seed = Annotated[
    int, Option(parser=parse_integer, metavar="K", help="The seed of all randomness.", rich_help_panel=RUN)
]
StepTimeout = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="SECONDS",
        help="How long one step or reset of an environment may take; for ever if not given.",
        rich_help_panel=RUN,
    ),
]
Seeds = Annotated[
    int, Option(parser=parse_integer, metavar="K", help="How many seeds, from 0 on.", rich_help_panel=RUN)
]
Chains = Annotated[
    int,
    Option(
        "--chains",
        parser=parse_integer,
        metavar="C",
        help="How many copies of ENV to act in at once; the steps are shared among them.",
        rich_help_panel=RUN,
    ),
]
UntilVisits = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="M",
        help="Stop when every pair with a weight was visited this often.",
        rich_help_panel=STOP,
    ),
]
UntilGap = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="G",
        help="Stop when the divergence is certified to be at most this above the best, in nats.",
        rich_help_panel=STOP,
    ),
]
UntilError = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="E",
        help="Stop when the estimated rows of the model are certified to have at most this mean L1 error.",
        rich_help_panel=STOP,
    ),
]
StoredDoubt = Annotated[
    float | None,
    Option(
        "--delta",
        parser=parse_number,
        metavar="D",
        help="How often a certificate that knows no model may be wrong; if not given, as in the run's "
        "stopping rule, or 0.05.",
        rich_help_panel=RESULT,
    ),
]
RunStart = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="S",
        help="The first state, if not the model's own.",
        rich_help_panel=VISITS,
    ),
]
Workers = Annotated[
    int | None,
    Option(
        parser=parse_integer,
        metavar="K",
        help="How many processes; one for each core if not given. The result is the same.",
        rich_help_panel=RUN,
    ),
]
ExploreOut = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="A new folder for checkpoints, explore.json and pictures. After an interruption "
        "`rhocover resume DIR` goes on.",
        rich_help_panel=RESULT,
    ),
]
CompareOut = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="A folder for the runs, compare.json and pictures. After an interruption the same command "
        "goes on.",
        rich_help_panel=RESULT,
    ),
]
Redraw = Annotated[
    Path | None,
    Option(metavar="DIR", help="Draw the pictures of DIR again, and run nothing.", rich_help_panel=RESULT),
]
ForceRun = Annotated[
    bool,
    Option("--force", help="Begin anew: what was left in DIR is removed.", rich_help_panel=RESULT),
]
Visits = Annotated[
    int | None,
    Option(parser=parse_integer, metavar="M", help="Visit every pair this often.", rich_help_panel=WISH),
]
ModelError = Annotated[
    float | None,
    Option(
        parser=parse_number,
        metavar="E",
        help="Estimate every row of the model to this root mean square error.",
        rich_help_panel=WISH,
    ),
]
Delta = Annotated[
    float,
    Option(
        parser=parse_number,
        metavar="D",
        help="How often the number of steps that is sure may be too small.",
        rich_help_panel=WISH,
    ),
]


# The options of `collect`, `audit` and `top-up`: one type for each.

READ, DEMAND = "How to read it", "What is demanded"


def parse_count(text: Any) -> int:
    """Returns the whole number of 0 or more that was typed."""
    if (value := parse_integer(text)) < 0:
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


def _env_option(use: str) -> Any:
    text = f"The Gymnasium environment that the data is of{use}"
    return Option("--env", metavar="ENV", help=text, rich_help_panel=COVER)


EXACT = (
    ". If it has a table of its transitions, the best achievable is exact, and not of what the data shows."
)
PLANNED = (
    ": the policy is planned on its table of transitions, not on what the data shows, and with --out the "
    "steps are taken in it."
)
TheEnv = Annotated[str | None, _env_option(EXACT)]
MoreEnv = Annotated[str | None, _env_option(PLANNED)]
EnvSet = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="An argument of ENV, its value as in JSON: map_name=8x8, is_slippery=false. Repeatable.",
        rich_help_panel=COVER,
    ),
]
DataWeights = Annotated[str, weights_option()]
States = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="How observations of real numbers become states: bins:12,11 (so many equal parts a dimension), "
        "bins:12,11@-1.2:0.6,-0.07:0.07 (between these bounds, if not the space's own) or quantiles:12,11 "
        "(parts that a rollout of random actions visits equally often).",
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
        parser=parse_integer,
        metavar="C",
        help="Act in so many copies of ENV at once; the steps are shared among them.",
        rich_help_panel=RUN,
    ),
]
MaxEpisodeSteps = Annotated[
    int | None,
    Option(
        "--max-episode-steps",
        parser=parse_integer,
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
ForceCollection = Annotated[
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
        parser=parse_integer,
        metavar="S",
        help="States are 0 to S - 1: those that the data never met count as never tried, others are refused.",
        rich_help_panel=READ,
    ),
]
NumActions = Annotated[
    int | None,
    Option(
        parser=parse_integer,
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
CertificateDelta = Annotated[float, delta_option("How often the certificate may be wrong.", COVER)]
WorstRatio = Annotated[
    float | None,
    Option(
        "--require-worst-ratio",
        parser=parse_number,
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
        parser=parse_count,
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
