"""Reading the arguments of `compare` on environments: everything is checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set, ValuesView
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.coverage import Coverage
from rhocover.environments.encoding import read_action_code, read_state_code
from rhocover.environments.sources import EnvSource, source_of, with_spaces
from rhocover.errors import Call, InvalidArgumentError, Setting, inside
from rhocover.experiments.compare import (
    at_least_one,
    is_environment,
    make_model,
    read_named,
    read_sequence,
)
from rhocover.experiments.env_question import EnvQuestion
from rhocover.experiments.env_runs import (
    ENV_EXPLORERS,
    is_for_environments,
    make_env_explorer,
    read_held_out,
)
from rhocover.exploring.runs.spec import KNOWN, check_model
from rhocover.learning.rules import read_rule
from rhocover.mdp import MDP

FOR_MODELS = {
    "start": None,
    "discount": None,
    "horizon": None,
    "restrict": False,
    "num_chains": 1,
    "schedule": None,
}


def read_env_question(
    envs: Any, explorers: Any, codes: Mapping[str, Any], arguments: Mapping[str, Any]
) -> EnvQuestion:
    """Returns the question, checked: every environment is made once, and its codes are read."""
    for name, default in FOR_MODELS.items():
        value = arguments[name]
        if value is not default and not (isinstance(value, int) and value == default):
            raise InvalidArgumentError.of(name, "is only for models", remedy="Leave it out.")
    sources, rho = read_sources(envs), arguments["rho"]
    is_list = isinstance(rho, Iterable) and getattr(rho, "ndim", 1) > 0
    order = _one_order(rho) if is_list else checks.number(rho, "rho")
    Coverage(order, np.ones(1))
    question = EnvQuestion(
        envs=sources,
        **{name: _for_each(code, sources, name) for name, code in codes.items()},
        explorers=_read_explorers(ENV_EXPLORERS if explorers is None else explorers),
        seeds=arguments["seeds"],
        num_steps=checks.integer(arguments["num_steps"], "num_steps", least=1),
        rho=order,
        mu=_read_mu(arguments["mu"]),
        model=_read_model(arguments["model"]),
    )
    for k, source in enumerate(sources.values()):
        _check_codes(source, question.states[k], question.actions[k], question.held_out[k])
    return question


def _one_order(rho: Any) -> float:
    several = read_sequence(rho, "rho")
    if len(several) != 1:
        raise InvalidArgumentError.of(
            "rho", "must be one number on environments", f"{len(several)} of them", remedy="Give it once."
        )
    return checks.number(several[0], "rho")


def _read_mu(mu: Any) -> Any:
    if mu is not None and not isinstance(mu, str) and not callable(mu):
        raise InvalidArgumentError.of(
            "mu", "must be a rule on environments", type(mu).__name__,
            remedy=("Leave it out, or pass ", Setting("mu", "'transition_std'"), "."),
        )  # fmt: skip
    return None if mu is None else read_rule(mu)


def _read_model(model: Any) -> Any:
    found = check_model("from_scratch" if model is None else model)
    if isinstance(found, str) and found == KNOWN:
        raise InvalidArgumentError.of(
            "model", "must be learned on environments", repr(model),
            remedy=(Call("Leave it out, or compare on rc.MDP.from_gymnasium(env)", "Leave it out"), "."),
        )  # fmt: skip
    return found


# Environments.


def asks_what_is_found(codes: Mapping[str, Any], explorers: Any) -> bool:
    """Whether only what explorers find can be compared: codes are given, or explorers without a model."""
    if any(code is not None for code in codes.values()):
        return True
    several = explorers.values() if isinstance(explorers, Mapping) else explorers
    are_several = isinstance(several, Sequence | Set | ValuesView) and not isinstance(several, str)
    several = several if are_several else [several]
    return any(is_for_environments(explorer) for explorer in several)


def models_of_tables(given: Any) -> dict[str, MDP] | None:
    """Returns models by name if every environment has a table of its transitions, else None.

    Models among the environments are kept as they are.
    """
    is_one = isinstance(given, str) or is_environment(given)
    several = [given] if is_one else given
    named = several.items() if isinstance(several, Mapping) else ((None, env) for env in several)
    found = []
    for name, env in named:
        pair = _table_model(env) if is_environment(env) else _named_model(env)
        if pair is None:
            return None
        found.append((pair[0] if name is None else str(name), pair[1]))
    return read_named(found, "envs")


def _named_model(env: Any) -> tuple[str, MDP]:
    mdp = make_model(env)
    return mdp.name or "model", mdp


def _table_model(env: Any) -> tuple[str, MDP] | None:
    """Returns the name and the model of an environment; None if it has no table."""
    name, source = source_of(env)
    made = source.make()
    try:
        return (name, MDP.from_gymnasium(made)) if hasattr(made.unwrapped, "P") else None
    finally:
        made.close()


def read_sources(given: Any) -> dict[str, EnvSource]:
    """Returns where environments come from, by name."""
    if isinstance(given, Mapping):
        return at_least_one({str(name): read_source(env) for name, env in given.items()}, "envs")
    is_one = (
        isinstance(given, str) or callable(given) or hasattr(given, "step") or hasattr(given, "entry_point")
    )
    sources = [_source(env) for env in ([given] if is_one else read_sequence(given, "envs"))]
    return read_named(sources, "envs")


def read_source(env: Any) -> EnvSource:
    """Returns where an environment comes from; it is made once, to read its spaces."""
    return _source(env)[1]


def _source(env: Any) -> tuple[str, EnvSource]:
    """Returns the name of an environment and where it comes from."""
    name, source = source_of(env)
    return name, with_spaces(source)


# Codes and explorers.


def _for_each(code: Any, sources: Mapping[str, EnvSource], name: str) -> tuple[Any, ...]:
    """Returns the code of each environment: one for all, or a mapping by name."""
    if not isinstance(code, Mapping):
        return (code,) * len(sources)
    if wrong := set(code) ^ set(sources):
        raise InvalidArgumentError.of(
            name, f"must have an entry for each of {', '.join(sources)}; {sorted(wrong)[0]!r} differs"
        )
    return tuple(code[env] for env in sources)


def _check_codes(source: EnvSource, states: Any, actions: Any, held_out: Any) -> None:
    env = source.make()
    try:
        read_action_code(actions, env.action_space)
        if not hasattr(states, "rollout_steps"):
            read_state_code(states, env.observation_space)
        if held_out is not None:
            read_held_out(held_out, env.observation_space)
    finally:
        env.close()


def _read_explorers(given: Any) -> dict[str, Any]:
    with inside("explorers"):
        if isinstance(given, Mapping):
            return at_least_one(
                {str(name): make_env_explorer(one)[1] for name, one in given.items()}, "explorers"
            )
        is_one = isinstance(given, str) or hasattr(given, "policy") or hasattr(given, "discount")
        several = [given] if is_one else read_sequence(given, "explorers")
        return read_named([make_env_explorer(one) for one in several], "explorers")
