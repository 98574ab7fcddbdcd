"""The result of collect() and its datasheet: what it covers, how far that is from the best, how to repeat it.

The audit of a data set knows only the states that are in it. A collection knows more: how many bins were
declared, that the set of states is unknown, or that the states are not Markov. Its audit therefore also
counts the pairs of states that were never met. The page shows the datasheet to readers.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover._version import __version__
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.result import EnvironmentRun, TalliedRun, if_markov
from rhocover.collecting.scope import Scope
from rhocover.datasets.collection.manifest import part_path
from rhocover.datasets.collection.source import open_collection
from rhocover.datasets.minari.exporting import export_minari
from rhocover.datasets.result import Audit, ThinPair
from rhocover.datasets.tally import Tally
from rhocover.documents import plain
from rhocover.environments.encoding import BinCode, FunctionCode
from rhocover.errors import Note, shortened
from rhocover.exploring.belief.certificates import Certificate
from rhocover.exploring.explorers.registry import explorer_document, explorer_name
from rhocover.exploring.problem import Problem
from rhocover.exploring.runs.result import Run
from rhocover.exploring.runs.spec import model_document, model_name
from rhocover.files import FORMAT_VERSION
from rhocover.learning.rules import rule_document
from rhocover.occupancy import Occupancies
from rhocover.printing import count_of, printed
from rhocover.report.pages import Page, Section, ratio_words, section, terms
from rhocover.report.pages.audit import head_of_audit, page_of_audit
from rhocover.showing import Shown


@dataclass(frozen=True, eq=False)
class Collection(Shown):
    """A data set on disk: `path` is its folder, with Parquet parts and the manifest that names them.

    `audit` is its coverage; `datasheet` is the document beside the manifest, and `page` the same as HTML.
    """

    out: Path
    dataset_id: str
    audit: Audit
    datasheet: dict[str, Any]
    run: Run | None  # None for an addition to other data
    tally: Tally  # the counts, by the environment's own keys
    states: Any  # the encoding, which `audit` and `top_up` need to read the data again
    actions: Any

    @property
    def path(self) -> Path:
        """The folder of the collection."""
        return self.out

    @property
    def page(self) -> Path:
        """The datasheet as a page."""
        return self.out / "datasheet.html"

    @cached_property
    def num_steps(self) -> int:
        """How many steps were collected."""
        return self.audit.num_steps

    @property
    def verdict(self) -> str:
        """The coverage of the data set, in a sentence."""
        return self.audit.verdict

    def load(self) -> Any:
        """Returns the steps as a `pyarrow.dataset.Dataset`: a row for each, nothing read yet."""
        from pyarrow import dataset

        names = [part_path(self.out, part.name) for part in open_collection(self.out).manifest.parts]
        return dataset.dataset([str(name) for name in names], format="parquet")

    def to_minari(self, dataset_id: str | None = None, *, overwrite: bool = False) -> Any:
        """Returns the steps as a `minari.MinariDataset`, written to Minari's own folder.

        That is `$MINARI_DATASETS_PATH`, or `~/.minari/datasets`. `dataset_id` is by default that of the
        collection.
        """
        return export_minari(self.out, dataset_id, overwrite=overwrite)

    def summary(self) -> dict[str, Any]:
        """Returns the datasheet and its folder, ready for JSON."""
        return {"out": str(self.out), "dataset_id": self.dataset_id, **self.datasheet}

    @printed
    def __str__(self) -> str:
        told = () if self.audit.codes is None else self.audit.codes.lines
        head = f"{self.dataset_id}: {count_of(self.num_steps, 'step')} in {self.path}"
        return "\n  ".join([head, self.verdict, *told])

    __repr__ = __str__


NO_BEST = "The best is not known, because the states that were not met may or may not be reachable."
FIRST = 3  # pairs named in a sentence


def scoped(audit: Audit, run: Run) -> Audit:
    """Returns the audit with the states not met: as missing if they were declared, otherwise as unknown."""
    if isinstance(run, TalliedRun) and run.markov.is_found and audit.certificate is not None:
        audit = replace(audit, certified=if_markov(audit.certificate))
    if isinstance(run, TalliedRun):
        audit = replace(audit, codes=run.codes)
    if not isinstance(run, EnvironmentRun):
        return audit
    return _with_missing(audit, run.scope) if audit.num_pairs < run.scope.num_weighted else audit


def _with_missing(audit: Audit, scope: Scope) -> Audit:
    """Returns the audit in which the pairs of states that were never met count as never tried."""
    divergence, worst_ratio = scope.figures(audit.rho)
    first = checks.name_some(scope.beyond_names[:FIRST], FIRST)
    delta = 0.05 if audit.certificate is None else audit.certificate.delta
    return replace(
        audit,
        divergence=divergence,
        worst_ratio=worst_ratio,
        num_pairs=scope.num_weighted,
        num_missing=scope.num_missing,
        best=None,
        best_occupancy=None,
        gap=np.nan,
        thin=_thin(audit, scope),
        certified=Certificate(divergence, np.inf, np.inf, 0.0, delta),
        observed_note=Note(audit.observed_note, NO_BEST),
        verdict=f"Covers {scope.num_visited} of {count_of(scope.num_weighted, 'pair')}; {scope.met_text}. "
        f"Some of the pairs that were never tried: {first}.",
    )


def _thin(audit: Audit, scope: Scope) -> tuple[ThinPair, ...]:
    """Returns the pairs with the smallest share of their target: those not met first, then those met."""
    beyond = [ThinPair(name, 0, 0.0, np.nan) for name in scope.beyond_names]
    more = 1 + scope.weight_beyond / float(scope.weights.sum()) if scope.weights.any() else 1.0
    met = [replace(pair, share=pair.share * more, best_share=np.nan) for pair in audit.thin]
    return tuple(sorted([*beyond, *met], key=lambda pair: pair.share)[: max(len(audit.thin), 1)])


def scope_document(run: Run) -> dict[str, Any]:
    """Returns the entries of a datasheet on the scope and on whether the states are Markov."""
    found: dict[str, Any] = {}
    if isinstance(run, TalliedRun):
        found["markov"] = run.markov.document() | {"planned_distance": run.planned_distance}
        found["remarks"] = list(run.not_markov)  # the audit has those on codes
        found["codes"] = run.codes and run.codes.document()
    if isinstance(run, EnvironmentRun):
        figures = {"divergence": plain(run.divergence), "worst_ratio": plain(run.worst_ratio)}
        found["scope"] = run.scope.document() | figures
    return found


PACKAGES = ("gymnasium", "numpy", "pyarrow", "scipy")
STORED_NAMES = {"TopUpExplorer": "Adding"}  # its name in files since the first version, so that they resume


def make_datasheet(
    asked: EnvRun, audit: Audit, *, problem: Problem | None, command: str | None, run: Run | None = None
) -> dict[str, Any]:
    """Returns the datasheet, ready for JSON; nothing in it depends on when or how fast it was made.

    `problem` is the one whose best refers to the audited pairs, None if there is none. The worst ratio of
    random actions is given only for complete coverage.
    """
    return {
        "verdict": audit.verdict,
        "coverage": audit.summary(),
        **({} if run is None else scope_document(run)),
        **({} if asked.held_out is None else {"held_out": asked.held_out.document()}),
        "uniform_random_worst_ratio": plain(random_worst_ratio(problem if audit.is_complete else None)),
        "settings": settings_of(asked),
        "repeat": command or repeat_call(asked),
        **provenance(),
    }


def random_worst_ratio(problem: Problem | None) -> float:
    """Returns the worst ratio of the uniformly random policy in a model; nan without a model."""
    if problem is None:
        return np.nan
    members = Occupancies.average(problem.mdp)
    states = problem.mdp.pair_state
    d = members.from_policy(1 / np.bincount(states)[states])
    return float(problem.coverage.worst_ratio(d))


def settings_of(asked: EnvRun) -> dict[str, Any]:
    """Returns the settings that determine the collection, as a document."""
    settings, name = asked.spec, explorer_name(asked.spec.explorer)
    mu: Any = "uniform"
    if asked.rule is not None:
        mu = rule_document(asked.rule)
    elif settings.mu is not None or asked.weights is not None:
        mu = "weights given as an array"
    return {
        "environment": spec_of(asked),
        "rho": repr(settings.rho),
        "mu": mu,
        "num_steps": settings.num_steps,
        "algorithm": {"TopUpExplorer": "top_up"}.get(name, name),
        "explorer": explorer_document(settings.explorer) or STORED_NAMES.get(name, name),
        "model": model_document(settings.model),
        "seed": settings.seed,
        **code_of(asked),
        **({} if asked.repeat == 1 else {"repeat": asked.repeat}),
        **({} if asked.workers is None else {"workers": asked.workers.number}),
    }


def code_of(asked: EnvRun) -> dict[str, Any]:
    """Returns how observations and actions become states and numbers, as a document."""
    return {"states": asked.states.document(), "actions": asked.actions.document()}


def spec_of(asked: EnvRun) -> str:
    """Returns the environment's spec as JSON; without a spec, the name of its class."""
    spec = getattr(asked.env, "spec", None)
    if spec is None:
        return type(asked.env.unwrapped).__qualname__
    try:
        return spec.to_json()
    except (TypeError, ValueError):  # arguments that JSON cannot represent
        return str(spec.id)


def repeat_call(asked: EnvRun, verb: str = "collect(") -> str:
    """Returns the call that repeats the collection; `...` replaces values that cannot be written as text."""
    s = asked.spec
    rho = 'float("inf")' if s.rho == np.inf else f"{s.rho:g}"
    parts = [_make_call(asked), f"rho={rho}", f"num_steps={s.num_steps}", f"seed={s.seed}"]
    if s.mu is not None or asked.weights is not None:
        parts.append("mu=...")
    if isinstance(asked.states, BinCode | FunctionCode):
        parts.append("states=...")
    if asked.held_out is not None:
        parts.append("held_out=...")
    if asked.actions.chosen is not None or hasattr(asked.action_space, "low"):
        parts.append("actions=...")
    if asked.repeat > 1 and verb.startswith("collect"):
        parts.append(f"repeat={asked.repeat}")
    if asked.workers is not None:
        parts.append(f"workers={asked.workers.number}")
    if verb.startswith("collect"):
        parts.append(f"explorer={explorer_name(s.explorer)!r}")
    if asked.table is None:
        parts.append(f"model={model_name(s.model)!r}")
    if s.until is not None:
        parts.append(f"until={s.until!r}")
    return f"rhocover.{verb}{', '.join(parts)}, out=...)"


def _make_call(asked: EnvRun) -> str:
    """Returns the call that makes the environment, as far as its spec tells."""
    spec = getattr(asked.env, "spec", None)
    if spec is None:
        return "env"
    given = dict(getattr(spec, "kwargs", {}) or {})
    plain = {key: value for key, value in given.items() if isinstance(value, str | int | float | bool)}
    if not asked.is_vector:
        import gymnasium as gym

        usual = getattr(gym.registry.get(spec.id), "max_episode_steps", None)
        if spec.max_episode_steps != usual:
            plain["max_episode_steps"] = -1 if spec.max_episode_steps is None else spec.max_episode_steps
        wrapped = "" if not getattr(spec, "additional_wrappers", ()) else " in its wrappers"
        words = ", ".join([repr(spec.id), *(f"{key}={value!r}" for key, value in plain.items())])
        return f"gymnasium.make({words}){wrapped}"
    return f"gymnasium.make_vec({spec.id!r}, num_envs={asked.env.num_envs})"


def provenance() -> dict[str, Any]:
    """Returns the format of the document and the versions of the packages that made it."""
    return {"format": FORMAT_VERSION, "versions": versions()}


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages involved."""
    found = {"rhocover": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def page_of_collection(found: Collection) -> Page:
    """Returns the datasheet of a collection as a page: the audit of its data, and how it was collected."""
    page = page_of_audit(found.audit, command=found.datasheet["repeat"])
    page = page.with_sections(*_remarks(found), _origin(found))
    return replace(head_of_collection(found), sections=page.sections)


def head_of_collection(found: Collection) -> Page:
    """Returns the page of a collection without its sections: the verdict and the most important numbers."""
    head = head_of_audit(found.audit)
    return replace(head, kind="Datasheet of a data set", title=f"{found.dataset_id}: {head.title}")


def _remarks(found: Collection) -> list[Section]:
    """Returns the section on assumptions of the figures that do not hold, if there are any."""
    told = found.datasheet.get("remarks", [])
    return [section("What the figures do not mean", *told)] if told else []


def _origin(found: Collection) -> Section:
    """Returns the section on explorer, environment, settings and versions."""
    settings, versions = found.datasheet["settings"], found.datasheet["versions"]
    random = found.datasheet["uniform_random_worst_ratio"]
    entries = [
        ("environment", _environment(settings["environment"])),
        ("explorer", settings["algorithm"]),
        ("dynamics", "known from the environment's table" if settings["model"] == "known" else "learned"),
        ("weights", settings["mu"] if isinstance(settings["mu"], str) else json.dumps(settings["mu"])),
        ("steps", f"{settings['num_steps']:,}"),
        ("seed", str(settings["seed"])),
        ("states", _words(settings["states"])),
        ("actions", _words(settings["actions"])),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]
    if "workers" in settings:
        entries.insert(-1, ("workers", str(settings["workers"])))
    if "repeat" in settings:
        entries.insert(-1, ("steps of the environment per action", str(settings["repeat"])))
    if random is not None:
        entries.insert(2, ("worst ratio of random actions", ratio_words(float(random))))
    return section("How it was collected", terms(entries))


def _environment(spec: str) -> str:
    """Returns the id of an environment and its arguments."""
    try:
        document = json.loads(spec)
        given = ", ".join(f"{key}={value!r}" for key, value in document.get("kwargs", {}).items())
        return f"{document['id']}({given})" if given else str(document["id"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return spec


def _words(document: Any) -> str:
    """Returns the document of a code in one line."""
    return ", ".join(f"{key} {shortened(value, 2000)}" for key, value in dict(document).items())
