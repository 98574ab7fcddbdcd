"""What is known of the dynamics, by name, and as documents that a file can hold.

| name | what the explorer knows |
|---|---|
| known | the model itself |
| learned | the states and their actions; the transitions are estimated |
| posterior | the same; plans are made on draws from the posterior |
| from_scratch | not even how many states there are |
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from rhocover.checks import IntArray
from rhocover.documents import from_document, to_document
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.beliefs import Belief, KnownModel
from rhocover.exploring.discovering import Discovering
from rhocover.exploring.explorer import Explorer
from rhocover.exploring.frame import Frame
from rhocover.exploring.learned import Learned, LearnedModel
from rhocover.exploring.problem import Problem
from rhocover.learning.rules import Rule

KNOWN = "known"
Model = Literal["known"] | Learned
MODELS: dict[str, Any] = {
    KNOWN: KNOWN,
    "learned": Learned(),
    "posterior": Learned(sample=True),
    "from_scratch": Learned(know_states=False),
}


def check_model(model: Any) -> Any:
    """Returns "known" or how to learn; refuses what is neither."""
    if isinstance(model, Learned):
        return model
    if not isinstance(model, str):
        raise InvalidArgumentError.of(
            "model", f"must be a name ({', '.join(MODELS)}) or a Learned", type(model).__name__
        )
    if model not in MODELS:
        raise unknown_name("model", model, tuple(MODELS))
    return MODELS[model]


def model_name(model: Any) -> str:
    """Returns the name of a way to know the model; "learned" for one with other settings."""
    return next((name for name, known in MODELS.items() if known == model), "learned")


def model_document(model: Any) -> Any:
    """Returns it as a document."""
    return model if model == KNOWN else to_document(model)


def model_from_document(document: Any) -> Any:
    """Returns what `model_document` was made of."""
    return from_document(Model, document, "the model")


def actor(model: Any, explorer: Explorer) -> Explorer:
    """Returns who acts: the explorer, sent on errands where it has to learn and has none of its own."""
    if model == KNOWN or not model.discovery or is_self_reliant(explorer):
        return explorer
    return Discovering(explorer)


def is_self_reliant(explorer: Any) -> bool:
    """Whether an explorer looks after discovery itself; it then sees all states from the start."""
    return bool(getattr(explorer, "self_reliant", False))


def make_belief(
    model: Any, problem: Problem, rule: Rule | None, explorer: Explorer, roots: IntArray, seed: int
) -> Belief:
    """Returns the belief before the first step of a run that begins in `roots`."""
    if model == KNOWN:
        return KnownModel(problem)
    mu = problem.coverage.mu if rule is None else None
    members, rho = problem.question.members, problem.coverage.rho
    frame = Frame(problem.mdp, members, rho, mu, rule, np.unique(roots), seed)
    scope = "all" if is_self_reliant(explorer) or not model.discovery else "met"
    return LearnedModel(model, frame, scope, np.zeros(problem.mdp.transitions.nnz, np.int64))
