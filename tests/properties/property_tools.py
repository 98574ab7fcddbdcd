"""What the property tests share: strategies for models and weights, and a list of what they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from rhocover import MDP
from small_models import random_model

INF = float("inf")
Function = TypeVar("Function", bound=Callable)
COVERED: set[str] = set()

few = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # runs are too long to look for the smallest that fails
    suppress_health_check=list(HealthCheck),
)
many = settings(few, max_examples=40)

seeds = st.integers(0, 10**6)
orders = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0, INF]), st.floats(0.01, 40.0))
positive_orders = st.one_of(st.sampled_from([1.0, 2.0]), st.floats(0.05, 40.0))


def about(*names: str) -> Callable[[Function], Function]:
    """Notes which public names a property is about."""
    COVERED.update(names)
    return lambda function: function


@st.composite
def models(draw: st.DrawFn) -> MDP:
    """Draws communicating models with different action sets and a start."""
    seed, num_states, num_actions = draw(seeds), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    return random_model(seed, num_states, num_actions, holes=draw(st.sampled_from([0.0, 0.5])))


@st.composite
def weighted_models(draw: st.DrawFn) -> tuple[MDP, np.ndarray]:
    """Draws a model and positive weights `[S, A]` over up to six decades."""
    mdp, seed, decades = draw(models()), draw(seeds), draw(st.sampled_from([0.0, 1.0, 6.0]))
    return mdp, mdp.table(10.0 ** (decades * np.random.default_rng(seed).random(mdp.num_pairs)))


@st.composite
def distributions(draw: st.DrawFn, size: int, *, zeros: bool = False) -> np.ndarray:
    """Draws a probability vector, with entries near zero, or at zero."""
    rng = np.random.default_rng(draw(seeds))
    values = rng.dirichlet(np.full(size, draw(st.sampled_from([0.2, 1.0, 10.0])))) + 1e-12
    if zeros:
        values[rng.random(size) < 0.3] = 0.0
        values[rng.integers(size)] += 1e-3
    return values / values.sum()
