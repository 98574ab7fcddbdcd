"""What decides what a run does: read once, checked one by one, and stored with the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import Call, InvalidArgumentError, parse_text
from rhocover.exploring.algorithm1 import Algorithm1
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Explorer
from rhocover.exploring.models import KNOWN, actor, check_model, is_self_reliant, make_belief
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.registry import explorer_name, make_explorer
from rhocover.exploring.stopping import CertifiedGap, Stop, check_stop
from rhocover.learning.rules import Rule, read_rule, weights_in_the_end
from rhocover.mdp import MDP

MOST_STEPS = 1 << 60  # counts are 64-bit integers


@dataclass(frozen=True, eq=False)
class Settings:
    """Everything that decides what a run does, checked."""

    mdp: MDP
    rho: float
    mu: FloatArray | Rule | None
    num_steps: int
    explorer: Explorer
    model: Any  # "known", or a Learned
    seed: int
    start: FloatArray | None
    discount: float | None
    horizon: int | None
    restrict: bool
    num_chains: int
    trace_points: int
    until: Stop | None

    @property
    def rule(self) -> Rule | None:
        """The rule that says the weights, if one does."""
        return self.mu if callable(self.mu) else None

    @property
    def actor(self) -> Explorer:
        """Who acts."""
        return actor(self.model, self.explorer)

    def problem(self) -> Problem:
        """Returns the problem to explore; a rule for the weights is evaluated on the model itself."""
        mu = self.mu if self.rule is None else weights_in_the_end(self.rule, self.mdp)
        return make_problem(
            self.mdp, self.rho, mu,
            discount=self.discount, horizon=self.horizon, start=self.start, restrict=self.restrict,
        )  # fmt: skip


def read_settings(
    world: Any, rho: Any, num_steps: Any, mu: Any, explorer: Any, model: Any, schedule: Any, seed: Any,
    start: Any, discount: Any, horizon: Any, restrict: Any, num_chains: Any, trace_points: Any, until: Any,
) -> Settings:  # fmt: skip
    """Returns the settings, checked one by one."""
    if not isinstance(world, MDP):
        way = f"gymnasium.make({world!r})" if isinstance(world, str) else "MDP(P), envs.river_swim()"
        raise InvalidArgumentError.of(
            "world",
            "must be an MDP or a Gymnasium environment",
            type(world).__name__,
            remedy=f"Make one: {way}.",
        )
    start = None if start is None else checks.distribution(start, "start", world.num_states)
    settings = Settings(
        mdp=world,
        rho=checks.number(rho, "rho"),
        mu=_read_mu(mu),
        num_steps=checks.integer(num_steps, "num_steps", least=1),
        explorer=make_explorer(explorer, schedule),
        model=check_model(model),
        seed=checks.seed(seed),
        start=start,
        discount=None if discount is None else checks.probability(discount, "discount", open_ends=True),
        horizon=None if horizon is None else checks.integer(horizon, "horizon", least=1),
        restrict=bool(restrict),
        num_chains=checks.integer(num_chains, "num_chains", least=1),
        trace_points=checks.integer(trace_points, "trace_points", least=1, most=10_000),
        until=check_stop(until),
    )
    if settings.rule is not None and (settings.discount is not None or settings.horizon is not None):
        raise InvalidArgumentError.of(
            "mu",
            "as a rule goes with runs without restarts",
            remedy=parse_text("Leave `discount` and `horizon` out, or pass weights."),
        )
    check_knowledge(settings)
    if settings.num_steps > MOST_STEPS:
        raise InvalidArgumentError.of(
            "num_steps", "must be at most 2**60", f"a number of {len(str(settings.num_steps))} digits"
        )
    if settings.num_steps % settings.num_chains:
        more = -(-settings.num_steps // settings.num_chains) * settings.num_chains
        raise InvalidArgumentError.of(
            "num_steps",
            parse_text(f"must be a multiple of `num_chains={settings.num_chains}`"),
            f"{settings.num_steps}",
            remedy=f"The next one is {more}.",
        )
    return settings


def _read_mu(mu: Any) -> FloatArray | Rule | None:
    """Returns weights, a rule that makes them, or None."""
    if mu is None:
        return None
    return read_rule(mu) if isinstance(mu, str) or callable(mu) else checks.float_array(mu, "mu")


PASS_LEARNED = parse_text('Pass `model="learned"`.')
CERTIFIED_GAP = Call("`until`=CertifiedGap", "--until-gap")
OTHER_RULES = ("Use ", Call("EveryPair or SmallModelError", "--until-visits or --until-error"), ".")


def check_knowledge(settings: Settings) -> None:
    """Refuses what cannot be had with so little known beforehand."""
    is_open = settings.model != KNOWN and not settings.model.know_states
    if is_open and is_self_reliant(settings.explorer):
        raise InvalidArgumentError.of(
            "explorer",
            f"{explorer_name(settings.explorer)!r} knows all states from the start, as in its paper",
            remedy=PASS_LEARNED,
        )
    if isinstance(settings.until, CertifiedGap) and (is_open or (settings.rule and settings.model != KNOWN)):
        raise InvalidArgumentError(
            (
                CERTIFIED_GAP,
                " needs weights and states that are known: nothing certifies coverage of states never met, "
                "or for weights still to be learned.",
            ),
            argument="until",
            remedy=OTHER_RULES,
        )


def check_budget(settings: Settings) -> None:
    """Refuses a budget that ends within the first episode of Algorithm 1."""
    if not isinstance(settings.explorer, Algorithm1):
        return
    first = settings.explorer.schedule.length(1, 0)
    if settings.num_steps < first:
        raise InvalidArgumentError.of(
            "num_steps",
            f"must cover the first episode of {first} steps",
            f"{settings.num_steps}",
            remedy="Allow more steps, or shorten the schedule.",
        )


def belief_of(settings: Settings, problem: Problem, roots: IntArray) -> Belief:
    """Returns the belief before the first step of a run that begins in `roots`."""
    return make_belief(settings.model, problem, settings.rule, settings.explorer, roots, settings.seed)
