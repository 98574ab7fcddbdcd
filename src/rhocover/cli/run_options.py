"""The options of the commands that act: `explore`, `resume`, `compare` and `budget`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rhocover.cli.options import COVER, RESULT, VISITS, number, whole

RUN, STOP, WISH = "How to explore", "When to stop early", "What is wanted"
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
        parser=number,
        metavar="R",
        help="How much the worst pair counts, from 0 to inf.",
        rich_help_panel=COVER,
    ),
]
Orders = Annotated[
    list[float] | None,
    Option(
        "--rho",
        parser=number,
        metavar="R",
        help="How much the worst pair counts, from 0 to inf; 2 if not given. Repeatable.",
        rich_help_panel=COVER,
    ),
]
Weights = Annotated[
    str,
    Option(
        "--mu",
        metavar="SPEC",
        help="Which pairs matter: uniform, transition_std, model_error, random:SEED (uniform in 0.1 to 1), "
        "or FILE.npy or FILE.csv with a row for each state and a column for each action. Where the model is "
        "not known, transition_std and model_error are estimated along the way.",
        rich_help_panel=COVER,
    ),
]
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
    int, Option("--steps", parser=whole, metavar="N", help="How many steps to take.", rich_help_panel=RUN)
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
    int, Option(parser=whole, metavar="K", help="The seed of all randomness.", rich_help_panel=RUN)
]
StepTimeout = Annotated[
    float | None,
    Option(
        parser=number,
        metavar="SECONDS",
        help="How long one step or reset of an environment may take; for ever if not given.",
        rich_help_panel=RUN,
    ),
]
Seeds = Annotated[
    int, Option(parser=whole, metavar="K", help="How many seeds, from 0 on.", rich_help_panel=RUN)
]
Chains = Annotated[
    int,
    Option(
        "--chains",
        parser=whole,
        metavar="C",
        help="How many copies of ENV to act in at once; the steps are shared among them.",
        rich_help_panel=RUN,
    ),
]
UntilVisits = Annotated[
    int | None,
    Option(
        parser=whole,
        metavar="M",
        help="Stop when every pair with a weight was visited this often.",
        rich_help_panel=STOP,
    ),
]
UntilGap = Annotated[
    float | None,
    Option(
        parser=number,
        metavar="G",
        help="Stop when the divergence is certified to be at most this above the best, in nats.",
        rich_help_panel=STOP,
    ),
]
UntilError = Annotated[
    float | None,
    Option(
        parser=number,
        metavar="E",
        help="Stop when the estimated rows of the model are certified to have at most this mean L1 error.",
        rich_help_panel=STOP,
    ),
]
Doubt = Annotated[
    float,
    Option(
        "--delta",
        parser=number,
        metavar="D",
        help="How often a certificate that knows no model may be wrong, and a rule that relies on it.",
        rich_help_panel=STOP,
    ),
]
StoredDoubt = Annotated[
    float | None,
    Option(
        "--delta",
        parser=number,
        metavar="D",
        help="How often a certificate that knows no model may be wrong; if not given, as in the run's "
        "stopping rule, or 0.05.",
        rich_help_panel=RESULT,
    ),
]
Start = Annotated[
    int | None,
    Option(
        parser=whole, metavar="S", help="The first state, if not the model's own.", rich_help_panel=VISITS
    ),
]
Workers = Annotated[
    int | None,
    Option(
        parser=whole,
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
Anew = Annotated[
    bool,
    Option("--force", help="Begin anew: what was left in DIR is removed.", rich_help_panel=RESULT),
]
Visits = Annotated[
    int | None,
    Option(parser=whole, metavar="M", help="Visit every pair this often.", rich_help_panel=WISH),
]
ModelError = Annotated[
    float | None,
    Option(
        parser=number,
        metavar="E",
        help="Estimate every row of the model to this root mean square error.",
        rich_help_panel=WISH,
    ),
]
Delta = Annotated[
    float,
    Option(
        parser=number,
        metavar="D",
        help="How often the number of steps that is sure may be too small.",
        rich_help_panel=WISH,
    ),
]
