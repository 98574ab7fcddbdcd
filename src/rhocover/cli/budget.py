"""`rhocover budget`: how many steps a goal takes."""

from __future__ import annotations

from rhocover.cli import options as o
from rhocover.cli.output import print_json, print_result


def budget(
    env: o.Env,
    visits: o.Visits = None,
    model_error: o.ModelError = None,
    delta: o.Delta = 0.05,
    settings: o.Set = None,
    start: o.RunStart = None,
    restrict: o.Restrict = False,
    json: o.Json = False,
) -> None:
    """Computes how many steps it takes to visit every pair often enough, or to learn the model well enough.

    For visits it shows three numbers of steps under the best policy: in the long run, from the start until
    all visits are reached in expectation, and until they are reached with probability 1 - delta. For a model
    error it shows the first of them. It also shows a lower bound that holds for every policy.

    * `rhocover budget river_swim --visits 100`
    * `rhocover budget river_swim --model-error 0.05`
    * `rhocover budget grid_world --set num_rows=4 --visits 10 --start 3 --delta 0.01 --json`
    """
    from rhocover import theory
    from rhocover._version import __version__
    from rhocover.cli.parsing import parse_model

    mdp, parameters = parse_model(env, settings or [])
    arguments = {
        "visits": visits, "model_error": model_error, "delta": delta, "start": start, "restrict": restrict,
    }  # fmt: skip
    found = theory.budget(mdp, **arguments)
    if json:
        words = {"environment": env, "set": parameters} | arguments
        print_json({"rhocover": __version__, "parameters": words, "budget": found.summary()})
    else:
        print_result(str(found))
