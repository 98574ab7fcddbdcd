"""The parameter tables of the reference: what each argument of the public functions and classes is.

Names and defaults come from the signatures; the meanings are here, one for each name, because an argument
means the same everywhere. Where it does not, the name of the function stands before it. A parameter without a
meaning is an error, and so is a meaning without a parameter (`tests/docs/test_parameters.py`).
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

TABLES = (
    "plan", "at_most", "at_least", "within", "best", "tradeoff", "plan_agents", "plan_features", "budget",
    "explore", "resume", "collect", "audit", "top_up", "compare",
    "reproduce", "MDP", "Layout", "Coverage", "Bins", "QuantileBins", "Net", "Algorithm1", "Learned",
    "CountVisits", "CoverageReward", "CountVisitsVector", "CoverageRewardVector", "DensityReward",
    "Neighbours", "Ellipse", "CoverageCallback", "CoverageVecEnv", "CoverageReplayBuffer",
)  # fmt: skip
LEGS = (
    "takes the legs of `workers`: anything with `submit(function, *args)` that returns a future; the result "
    "is the same to the bit"
)
ACTORS = (
    "how many actors act at the same time and know of each other only between rounds; the result depends on "
    "it, and not on where they act. In environments each has its own, made from what is passed"
)
MEANING = {
    "mdp": "the model",
    "rho": "how much the worst pair counts, in [0, inf]: 0 maximum entropy, 1 relative entropy, 2 average "
    "relative coverage, inf the worst pair only",
    "mu": "weights of the pairs, `[S, A]`; None for equal weights. Where the dynamics are learned also the "
    "name of a rule, or a function of an `Estimate`",
    "cover": '`"pairs"`, `"states"`, `"transitions"`, `"visits"` (pairs, summed over the steps of an '
    "episode), a label for each state or pair, or a matrix `[G, n]`; `mu` then has one weight per group",
    "subject_to": "conditions on the visits: `at_most`, `at_least`, `within`, or a list of them",
    "cost": "a value for each pair or state, or a function of the model",
    "limit": "what the cost or the reward is compared with: per step, or the total of an episode",
    "at_most.name": "what to call it in messages",
    "at_least.name": "what to call it in messages",
    "within.name": "what to call it in messages",
    "values": "a value for each pair or state, or a function of the model",
    "at_least.reward": "a value for each pair or state, or a function of the model",
    "best.reward": "a value for each pair or state, or a function of the model",
    "tradeoff.reward": "a value for each pair or state, or a function of the model; minus the cost for a "
    "budget",
    "within.low": "the smallest value allowed",
    "within.high": "the largest value allowed",
    "num_points": "how many points the curve has",
    "closest": "how far the last point is on the way to the best return, below 1",
    "discount": "covers the visits of runs that restart with probability `1 - discount` after each step",
    "horizon": "covers each step of episodes of this length separately",
    "start": "where runs start: a state, or a probability for each state; None for the model's own start",
    "eta": "every pair gets at least `2 * eta` of the visits",
    "restrict": "False: pairs that cannot be visited in the long run raise an error. True: they are dropped "
    "and reported",
    "method": '`"interior_point"`, `"frank_wolfe"`, `"frank_wolfe_line_search"`, `"frank_wolfe_plain"`, or '
    '`"leximin"` (at rho = inf)',
    "tol": "largest certified gap to accept; None aims at 1e-8 and accepts up to 1e-6 with a warning",
    "max_steps": "largest number of steps of the solver; None for the default of the method",
    "time_limit": "seconds after which the solver stops with what it has reached",
    "throw": "False returns the plan even if its gap is too large",
    "warm": "the `potential` of a plan for a similar model, as a starting point",
    "agents": "one model for each agent, with the same states and actions; dynamics and starts may differ",
    "shares": "which part of all steps each agent makes; None for equal parts",
    "plan_agents.tol": "largest certified gap to accept",
    "phi": "features of the pairs, `[S, A, k]` or one row per pair, or a function of the model that makes "
    "them",
    "plan_features.rho": "how much the worst direction counts, in [1/2, inf]",
    "plan_features.mu": "weights of the pairs, `[S, A]`, whose features are the target; None for equal "
    'weights; `"identity"` for the identity as target',
    "design": '`"D"`, `"A"` or `"E"`: the identity as target, and rho = 1, 2 or inf',
    "plan_features.horizon": "covers the visits of episodes of this length, all steps together",
    "plan_features.restrict": "False: directions that no policy can excite raise an error. True: they are "
    "left out and reported",
    "plan_features.method": '`"interior_point"`, `"corrective"` or `"frank_wolfe"`; None chooses by size',
    "plan_features.tol": "largest certified gap to accept",
    "visits": "how often every pair should be visited, or a table `[S, A]`; 0 means not needed",
    "model_error": "the root mean square error of the estimated rows to reach; pass this or `visits`",
    "policy": "a policy `[S, A]` to evaluate together with the best one",
    "delta": "certificates hold with probability `1 - delta`",
    "world": "the model to simulate, or a Gymnasium environment, single or vector; with `workers` also what "
    "makes one: an id, `module:function`, or a function",
    "resume.world": "the model of the run; must be the same if given",
    "num_steps": "how many steps to take, over all chains or copies",
    "states": "which observations are the same state: None for discrete spaces, `Bins(...)`, "
    "`QuantileBins(...)`, `Net(...)`, or a function",
    "actions": "which actions there are: None for all of a discrete space, a list of some of them, or for "
    "real-valued actions the levels per dimension, or an array with one action per row",
    "repeat": "for how many steps of the environment each action is held; steps are then such decisions",
    "top_up.repeat": "the same; None for that of the data, if they come from `collect`",
    "held_out": "a second code of observations, as for `states`: never planned with, only counted beside it",
    "explorer": 'a name such as `"feedback"`, `"tracking"`, `"stationary"`, `"algorithm1"` or that of a '
    "baseline, or an object",
    "model": 'what the explorer knows: `"known"`, `"learned"`, `"posterior"`, `"from_scratch"`, or a '
    "`Learned`",
    "executor": "counts ranges of files elsewhere: anything with `submit(function, *args)` that returns a "
    "future, such as `concurrent.futures.ProcessPoolExecutor()`; the counts are the same to the bit",
    "explore.executor": LEGS,
    "collect.executor": LEGS,
    "resume.executor": LEGS,
    "explore.workers": ACTORS,
    "collect.workers": ACTORS,
    "compare.executor": "makes the runs elsewhere, instead of `workers`: anything with `submit(function, "
    "*args)` that returns a future; the results are the same to the bit",
    "shard": 'a part of the runs, such as `"3/64"`, stored in `out` beside the others; None for the whole',
    "audit.model": "a model or an environment with a transition table, which makes the audit exact",
    "top_up.model": '`"known"` (the environment\'s transition table) or `"learned"`; None chooses',
    "schedule": "episode lengths of Algorithm 1: `Quadratic`, `Power`, `Constant`, `Doubling`, `LineSearch`",
    "seed": "determines every random draw",
    "num_chains": "how many trajectories run at once and share their counts",
    "until": "when to stop early: `EveryPair`, `CertifiedGap`, `SmallModelError`",
    "trace_points": "rows of the trace per factor of ten in steps",
    "out": "a new folder for the results; an interrupted run continues from it",
    "resume.out": "the folder of the run",
    "compare.held_out": "a code that no explorer plans with: its cells are counted, too",
    "compare.out": "a folder that keeps finished runs; the same call continues after an interruption",
    "step_timeout": "seconds that one step or reset of an environment may take; None for no limit",
    "report": "a function that is called from time to time with the steps (or runs) done and their total",
    "env": "a Gymnasium environment",
    "collect.env": "a Gymnasium environment, single or vector; with `workers` what makes one: an id, "
    "`module:function`, or a function",
    "top_up.env": "an environment to act in, or a model to plan on; None plans on the model estimated from "
    "the data",
    "dataset_id": "the Minari id of the data set; None for one made from the environment and rho",
    "resume": "True continues an interrupted collection",
    "command": "the command line to print in the datasheet instead of the Python call",
    "data": "a Minari data set (id, folder or opened), a Parquet, NPZ or CSV file, columns, or a `Tally`",
    "num_states": "how many states there are; those that the data never met count as never tried",
    "columns": "the names of columns that are not found by themselves: `{\"s\": \"pos\", \"a\": \"act\"}`",
    "num_actions": "how many actions there are",
    "met_only": "True judges the data only by the states that it met",
    "best": "False skips the best plan; True computes it for very large data too",
    "certificate": "False skips the certificate; True computes it for very large data too",
    "envs": "a model or its name, or an environment, its id or a function that makes it; a list of them, "
    "or a mapping from your own names",
    "explorers": "names or objects, one or several, or a mapping from your own names",
    "seeds": "a number k for the seeds 0 to k - 1, or a list",
    "workers": "how many processes; None for one per core. The result does not depend on it",
    "name": "what to reproduce; the table lists the names",
    "P": "transition probabilities: dense `P[s, a, s_next]`, or sparse `[S*A, S]` with `num_actions`",
    "available": "`[S, A]`: False removes an action from a state",
    "MDP.name": "a name for printing",
    "state_labels": "names of the states",
    "action_labels": "names of the actions",
    "layout": "where the states are drawn",
    "note": "a remark that is stored with the model",
    "positions": "`[S, 2]`: x to the right, y down, cells of side 1",
    "directions": "`[A, 2]`: where each action points; (0, 0) is drawn as a bar",
    "rulers": "what the two sides of a grid measure",
    "counts": "how many bins: one number for all dimensions, or one per dimension",
    "radius": "how far an observation of a code may be from its leader; `\"auto\"` is 2.5 times the "
    "median step of a random rollout",
    "low": "lower bound of the bins; None for the bound of the space",
    "high": "upper bound of the bins; None for the bound of the space",
    "of": "which components to use: None for all, numbers, or a function of the observation",
    "names": "names of the dimensions",
    "rollout_steps": "how many random steps to take to find the edges",
    "Algorithm1.eta": 'half of the floor of the direction; None for the largest that the best plan allows, '
    '`"without_plan"` for one that does not need the plan',
    "count_floor": "the paper's epsilon: an unvisited pair counts as visited this often",
    "oracle": '`"lp"` (a linear program) or `"fixed_point"` (policy iteration)',
    "growth": "a new plan is made when the number of steps has grown by this factor",
    "smoothing": "the number k of pseudo-observations per row of the estimate",
    "know_states": "False: not even the number of states is known",
    "sample": "True plans on a draw from the posterior instead of its mean",
    "discovery": "False switches off the search for untried pairs",
    "cap": "a visit worth this many times the average visit, or more, is paid 1",
    "density": "what says how often places like an observation were visited: `Neighbours(...)`, "
    "`Ellipse(...)` or a state code; None counts pairs",
    "DensityReward.density": "`Neighbours(...)`, `Ellipse(...)`, a fitted state code, or a function to a key",
    "DensityReward.mu": "what matters: None for everything equally, a function to a weight, or an array of "
    "observations that matter",
    "k": "which nearest neighbour to measure the distance to; at least `4 * rho**2`",
    "features": "what of an observation has directions: None for all its numbers, numbers of components, the "
    "name of a field, or a function",
    "ridge": "how often, times the number of features, each direction counts as seen before the first visit",
    "venv": "a vector environment of Stable-Baselines3",
    "reward": "the `CoverageReward`, `CoverageVecEnv` or `DensityReward` that pays",
    "task_share": "share of the task's own reward in the reward",
    "CoverageCallback.rho": "the order of the logged divergence; None for that of `CoverageReward`",
    "log_every": "most steps between two records",
    "verbose": "as in Stable-Baselines3",
}  # fmt: skip


def parameters_of(thing: Any) -> list[tuple[str, str, str]]:
    """Returns (name, default, meaning) of each parameter; a default of "" is none."""
    own = thing.__name__
    found = inspect.signature(thing).parameters.values()
    return [(p.name, _default(thing, p), MEANING.get(f"{own}.{p.name}") or MEANING[p.name]) for p in found]


def _default(thing: Any, parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return ""
    if dataclasses.is_dataclass(thing):
        fields = {field.name: field for field in dataclasses.fields(thing)}
        factory = fields[parameter.name].default_factory if parameter.name in fields else dataclasses.MISSING
        if factory is not dataclasses.MISSING:
            return repr(factory())
    return repr(parameter.default)


def table_of(name: str, thing: Any, inline: Any) -> list[str]:
    """Returns the table as reStructuredText; empty for a name without one."""
    public = name.removeprefix("rhocover.")
    if public not in TABLES or not callable(thing):
        return []
    table = [".. list-table::", "   :class: parameters", "   :widths: auto", "   :header-rows: 1", ""]
    rows = [("parameter", "default", "meaning")]
    rows += [(f"``{p}``", f"``{d}``" if d else "required", inline(m)) for p, d, m in parameters_of(thing)]
    for first, *others in rows:
        table += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return [*table, ""]
