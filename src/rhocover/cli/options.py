"""The options of `rhocover plan`, with their help: one type for each, named after its option."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

COVER, VISITS, SOLVE, RESULT = "What to cover", "Which visits count", "How to solve", "What to do with it"


def number(text: Any) -> float:
    """Returns the number that was typed, which may be inf; the parser's own message would not name it."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise BadParameter(f"expected a number, got {text!r}.")
    return value


def whole(text: Any) -> int:
    """Returns the whole number that was typed."""
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"expected a whole number, got {text!r}.") from None


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
        parser=number,
        metavar="R",
        help="How much the worst pair counts, from 0 to inf: 0 is maximum entropy, 1 relative entropy, "
        "2 average relative coverage, inf the worst pair. Repeatable: a row for each.",
        rich_help_panel=COVER,
    ),
]
Mu = Annotated[
    str,
    Option(
        metavar="SPEC",
        help="Which pairs matter: uniform, transition_std, model_error, random:SEED (uniform in 0.1 to 1), "
        "or FILE.npy or FILE.csv with a row for each state and a column for each action.",
        rich_help_panel=COVER,
    ),
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A parameter of ENV. Repeatable.", rich_help_panel=COVER),
]
Discount = Annotated[
    float | None,
    Option(
        parser=number,
        metavar="G",
        help="Count the visits of runs that go on with this probability, instead of long-run visits.",
        rich_help_panel=VISITS,
    ),
]
Horizon = Annotated[
    int | None,
    Option(
        parser=whole,
        metavar="H",
        help="Count the visits of episodes of this many steps.",
        rich_help_panel=VISITS,
    ),
]
Start = Annotated[
    int | None,
    Option(
        parser=whole,
        metavar="S",
        help="First state of runs or episodes, if not the model's own.",
        rich_help_panel=VISITS,
    ),
]
Eta = Annotated[
    float,
    Option(
        parser=number,
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
        parser=number,
        metavar="T",
        help="The certified gap to reach. Left out: 1e-8 is aimed at, and up to 1e-6 is accepted.",
        rich_help_panel=SOLVE,
    ),
]
TimeLimit = Annotated[
    float | None,
    Option(
        parser=number,
        metavar="SECONDS",
        help="Stop planning each rho after this time.",
        rich_help_panel=SOLVE,
    ),
]
MaxSteps = Annotated[
    int | None,
    Option(parser=whole, metavar="N", help="Give up after this many steps.", rich_help_panel=SOLVE),
]
Json = Annotated[
    bool, Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=RESULT)
]
Out = Annotated[
    Path | None,
    Option(metavar="DIR", help="Write plans, plan.json and pictures to DIR.", rich_help_panel=RESULT),
]
Force = Annotated[bool, Option("--force", help="Overwrite files that exist.", rich_help_panel=RESULT)]
