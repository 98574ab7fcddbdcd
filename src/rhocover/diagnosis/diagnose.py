"""diagnose(): everything that was looked at, in one value."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rhocover._version import __version__
from rhocover.diagnosis.backends import backend_findings
from rhocover.diagnosis.findings import FAILED, OK, Finding
from rhocover.diagnosis.packages import package_findings

Trial = Callable[[], str]
REINSTALL = "pip install --force-reinstall rhocover; if it stays, report it with rhocover doctor --json"


@dataclass(frozen=True)
class Diagnosis:
    """What computes here, which packages are there, and what the self-test showed."""

    machine: tuple[Finding, ...]
    packages: tuple[Finding, ...]
    trials: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, in order."""
        return (*self.machine, *self.packages, *self.trials)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Those that something must be done about."""
        return tuple(found for found in self.findings if found.is_failure)

    @property
    def is_well(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def summary(self) -> dict[str, Any]:
        """Returns all of it, ready for JSON."""
        parts = {"machine": self.machine, "packages": self.packages, "self_test": self.trials}
        listed = {name: [asdict(found) for found in part] for name, part in parts.items()}
        return {"rhocover": __version__, "is_well": self.is_well, **listed}


def diagnose(
    *, self_test: bool = True, report: Callable[[int, int], None] | None = None
) -> Diagnosis:  # fmt: skip
    """Returns what is installed, what it computes with, and whether numbers that are known come out.

    The self-test takes about ten seconds, longer where loops are compiled for the first time; False leaves
    it out. `report(done, total)` is called after each of its trials.
    """
    machine, packages = tuple(backend_findings()), tuple(package_findings())
    trials: tuple[Finding, ...] = ()
    if self_test:
        from rhocover.diagnosis.trials import TRIALS

        trials = tuple(run_trials(TRIALS, report))
    return Diagnosis(machine, packages, trials)


def run_trials(
    trials: Mapping[str, Trial], report: Callable[[int, int], None] | None = None
) -> list[Finding]:
    """Returns a finding for each trial; one that fails, in whatever way, does not end the others."""
    found = []
    for name, trial in trials.items():
        found.append(run_trial(name, trial))
        if report is not None:
            report(len(found), len(trials))
    return found


def run_trial(name: str, trial: Trial) -> Finding:
    """Returns what a trial showed, or why it failed."""
    began = time.perf_counter()
    try:
        status, text, way_out = OK, trial(), ""
    except AssertionError as error:
        status, text, way_out = FAILED, str(error), REINSTALL
    except Exception as error:  # of whatever package: that it failed is the finding
        status, text, way_out = FAILED, f"{type(error).__name__}: {error}", REINSTALL
    return Finding(name, status, " ".join(text.split()), way_out, round(time.perf_counter() - began, 3))
