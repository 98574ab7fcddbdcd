"""diagnose(): all checks of an installation, in one value.

The back ends that are reported:

- ordering of sparse matrices: our own nested dissection, and METIS in addition if pymetis is installed;
- BLAS: which library; plans use one thread of it, so that their bits do not depend on the load;
- Numba: compiled loops are stored in a folder, so that only the first use waits for the compiler.

The self-test consists of trials: small computations whose results are known by other means. A trial returns
what it showed in a few words, or raises `TrialError`. Tolerances are those of the compared methods: plans are
certified to 1e-8, linear programs to 1e-9 of the largest reward, and results that must be equal are compared
bit for bit.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import envs
from rhocover._version import __version__
from rhocover.diagnosis.packages import FAILED, NOTE, OK, Finding, package_findings
from rhocover.errors import FileFormatError
from rhocover.experiments.reproducing import reproduce
from rhocover.exploring import explore, resume
from rhocover.exploring.runs.checkpoint import CHECKPOINTS
from rhocover.exploring.worlds import SamplePolicy, Visits, simulator
from rhocover.exploring.worlds.simulator import Simulator
from rhocover.linalg.multifrontal import SparseBackend
from rhocover.linalg.normal_equations import DenseBackend, one_blas_thread
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.oracles import best_response
from rhocover.planning import plan

# Back ends and folders.


def backend_findings() -> list[Finding]:
    """Returns the back ends, and whether the folders that are needed can be written to."""
    return [*_system(), _ordering(), *_blas(), *_compiler(), _temporary_folder()]


def _system() -> Iterator[Finding]:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("rhocover", OK, f"{__version__}, {python}, {platform.system()} {platform.machine()}")
    yield Finding("processors", OK, f"{os.cpu_count()}")


def _ordering() -> Finding:
    from rhocover.linalg.dissection import has_metis

    own = "our own nested dissection"
    return Finding("ordering", OK, f"METIS if it has less fill, else {own}" if has_metis() else own)


def _blas() -> Iterator[Finding]:
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS before the search
    from threadpoolctl import threadpool_info

    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    for info in libraries:
        kind = f"{info['internal_api']} {info['version'] or ''}".strip()
        where = Path(info["filepath"]).parent.name
        text = f"{kind} ({info.get('architecture', 'unknown')}, in {where}), {info['num_threads']} threads"
        yield Finding("BLAS", OK, f"{text}; plans use one")
    if not libraries:
        text = "no library that can be limited to one thread: plans may differ in their last bits"
        yield Finding("BLAS", NOTE, text, "set OMP_NUM_THREADS=1")


def _compiler() -> Iterator[Finding]:
    import llvmlite.binding as llvm
    import numba

    has_svml = "with SVML" if numba.config.USING_SVML else "without SVML"  # type: ignore[attr-defined]
    yield Finding("compiler", OK, f"Numba {numba.__version__} for {llvm.get_host_cpu_name()}, {has_svml}")
    yield compiled_folder(cache_folder())


def is_compiled() -> bool:
    """Returns whether loops are compiled at all."""
    from rhocover.exploring.worlds.simulator import act_by_policy

    return hasattr(act_by_policy, "stats")  # a plain function has none


def cache_folder() -> Path | None:
    """Returns the folder of the compiled loops; None if they are not stored or nothing is compiled."""
    from rhocover.exploring.worlds.simulator import act_by_policy

    kept = act_by_policy.stats.cache_path if is_compiled() else None
    return None if kept is None else Path(kept)


def is_warm() -> bool:
    """Returns whether the simulator needs no compiling: it is compiled already, or never will be."""
    folder = cache_folder()
    return not is_compiled() or (folder is not None and any(folder.glob("simulator.act_by_policy-*.nbi")))


def compiled_folder(folder: Path | None) -> Finding:
    """Returns whether compiled code can be stored, and whether there is any."""
    if not is_compiled():
        way_out = "unset NUMBA_DISABLE_JIT"
        return Finding(
            "compiled code", NOTE, "nothing is compiled: simulations take 100 times as long", way_out
        )
    if folder is None:
        way_out = "set a folder that only you can write to: NUMBA_CACHE_DIR=FOLDER rhocover ..."
        return Finding(
            "compiled code", NOTE, "not stored: every process compiles again, for up to a minute", way_out
        )
    place = next(path for path in (folder, *folder.parents) if path.exists())
    if not is_writable(place):
        way_out = "set another folder: NUMBA_CACHE_DIR=FOLDER rhocover ..."
        return Finding("compiled code", FAILED, f"{folder} cannot be written to", way_out)
    state = "holds compiled loops" if is_warm() else "empty: the first use compiles for up to a minute"
    return Finding("compiled code", OK, f"{folder}, {state}")


def _temporary_folder() -> Finding:
    folder = Path(tempfile.gettempdir())
    if is_writable(folder):
        return Finding("temporary files", OK, f"{folder}")
    return Finding(
        "temporary files", FAILED, f"{folder} cannot be written to", "set TMPDIR to a folder that can"
    )


def is_writable(folder: Path) -> bool:
    """Returns whether a file can be created in a folder, by creating one."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


# diagnose()

Trial = Callable[[], str]
REINSTALL = "pip install --force-reinstall rhocover; if that does not help, report rhocover doctor --json"


@dataclass(frozen=True)
class Diagnosis:
    """The back ends, the installed packages, and the results of the self-test."""

    machine: tuple[Finding, ...]
    packages: tuple[Finding, ...]
    trials: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in order."""
        return (*self.machine, *self.packages, *self.trials)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that failed."""
        return tuple(found for found in self.findings if found.is_failure)

    @property
    def is_well(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def summary(self) -> dict[str, Any]:
        """Returns all findings, ready for JSON."""
        parts = {"machine": self.machine, "packages": self.packages, "self_test": self.trials}
        listed = {name: [asdict(found) for found in part] for name, part in parts.items()}
        return {"rhocover": __version__, "is_well": self.is_well, **listed}


def diagnose(
    *, self_test: bool = True, report: Callable[[int, int], None] | None = None
) -> Diagnosis:  # fmt: skip
    """Returns what is installed, which back ends are used, and whether known results are reproduced.

    The self-test takes about ten seconds, and longer if loops are compiled for the first time; False skips
    it. `report(done, total)` is called after each of its trials.
    """
    machine, packages = tuple(backend_findings()), tuple(package_findings())
    trials: tuple[Finding, ...] = ()
    if self_test:
        trials = tuple(run_trials(TRIALS, report))
    return Diagnosis(machine, packages, trials)


def run_trials(
    trials: Mapping[str, Trial], report: Callable[[int, int], None] | None = None
) -> list[Finding]:
    """Returns one finding per trial; a trial that fails, in whatever way, does not stop the others."""
    found = []
    for name, trial in trials.items():
        found.append(run_trial(name, trial))
        if report is not None:
            report(len(found), len(trials))
    return found


def run_trial(name: str, trial: Trial) -> Finding:
    """Returns the result of a trial, or why it failed."""
    began = time.perf_counter()
    try:
        status, text, way_out = OK, trial(), ""
    except AssertionError as error:
        status, text, way_out = FAILED, str(error), REINSTALL
    except Exception as error:  # from any package: the failure is the finding
        status, text, way_out = FAILED, f"{type(error).__name__}: {error}", REINSTALL
    return Finding(name, status, " ".join(text.split()), way_out, round(time.perf_counter() - began, 3))


# The trials of the self-test.

ORDERS = (0.5, 2.0, 32.0, np.inf)
SECOND = 1e-9  # accuracy of a linear program
SOLVES = 1e-6  # relative; the matrices have condition numbers up to 1e8
LOOSE = 1e-3  # the gap that Frank-Wolfe reaches within a tenth of a second


class TrialError(AssertionError):
    """A computation did not give the known result."""


def known_optima() -> str:
    """Optima of small models equal the recorded values and the closed forms."""
    rows = reproduce("reference-values").rows
    for row in rows:
        if not row.holds:
            came = f"{row.ours.mean:.9g}, expected {row.published:.9g}"
            raise TrialError(f"{row.group}, {row.label}: {came}")
    return f"{len(rows)} optima, rho from 0.5 to inf"


def certificates() -> str:
    """The certified bounds of a plan agree with a second method: Frank-Wolfe, or at inf a linear program."""
    mdp = envs.make("river_swim")
    for rho in ORDERS:
        found = plan(mdp, rho)
        lower, upper = _second_bounds(mdp, rho)
        if not (found.lower_bound <= upper + SECOND and lower <= found.divergence + SECOND):
            came = f"the plan certifies [{found.lower_bound:.9g}, {found.divergence:.9g}]"
            raise TrialError(f"rho = {rho:g}: {came}, a second method [{lower:.9g}, {upper:.9g}]")
        if not 0 <= found.gap <= 1e-8:
            raise TrialError(f"rho = {rho:g}: the certified gap is {found.gap:.1e}, expected at most 1e-8")
    return f"{len(ORDERS)} orders, each by two methods"


def _second_bounds(mdp: MDP, rho: float) -> tuple[float, float]:
    """Returns bounds on the least divergence by a second method; at inf, log 1/(n t*), t* = max min d."""
    if rho == np.inf:
        best = -np.log(mdp.num_pairs * Occupancies.average(mdp).max_floor()[0])
        return best, best
    found = plan(mdp, rho, method="frank_wolfe", tol=LOOSE, throw=False)
    return found.lower_bound, found.divergence


def dense_and_sparse() -> str:
    """The dense and the sparse solver of the planner's linear systems give the same answer."""
    mdp = envs.make("grid_world", num_rows=16, num_columns=16)
    K = Occupancies.average(mdp).flow[:-1]
    w = np.random.default_rng(0).uniform(0.5, 2.0, K.shape[1])
    right = np.sin(np.arange(K.shape[0]))
    sparse = SparseBackend.try_analyse(K, 1.0)
    if sparse is None:
        raise TrialError("the sparse solver does not accept a grid of 256 states")
    with one_blas_thread():
        answers = [_solved(backend, w, right) for backend in (DenseBackend(K), sparse)]
    apart = np.abs(answers[0] - answers[1]).max() / np.abs(answers[0]).max()
    if not apart <= SOLVES:
        raise TrialError(f"the answers differ by {apart:.1e}, expected at most {SOLVES:.0e}")
    return f"{K.shape[0]} equations, difference {apart:.0e}"


def _solved(backend: Any, w: np.ndarray, right: np.ndarray) -> np.ndarray:
    backend.factorise(w, 1e-14)
    return backend.solve(right)


def oracles() -> str:
    """Policy iteration and HiGHS find the same value of the best response to a reward."""
    members = Occupancies.average(envs.make("river_swim"))
    reward = np.random.default_rng(1).random(members.mdp.num_pairs)
    values = [best_response(members, reward, method=method).value for method in ("policy_iteration", "lp")]
    if not abs(values[0] - values[1]) <= 1e-9:
        raise TrialError(f"policy iteration finds {values[0]:.12g}, the linear program {values[1]:.12g}")
    return f"both {values[0]:.9g}"


def compiled_and_plain() -> str:
    """The compiled simulator makes the same visits as its source in plain Python."""
    mdp, num_steps = envs.make("river_swim"), 2000
    world = Simulator(mdp, np.full(mdp.num_states, 1 / mdp.num_states), 2)
    act = world.follow(SamplePolicy(np.full(mdp.num_pairs, 0.5)))
    loops: list[Any] = [act, partial(plain_loops()[act.func.__name__], *act.args)]  # type: ignore[attr-defined]
    moves = []
    for loop in loops:
        seen = Visits.none(mdp)
        world.advance(world.begin(3), loop, seen, num_steps)
        moves.append(seen.moves)
    if not np.array_equal(*moves):
        raise TrialError(f"{int((moves[0] != moves[1]).sum())} of {mdp.transitions.nnz} counts differ")
    return f"{num_steps} steps, all counts equal"


def plain_loops() -> dict[str, Any]:
    """Returns the loops of `simulator` and the functions that they call, all without compilation."""
    names = dict(vars(simulator))
    for name, value in vars(simulator).items():
        if hasattr(value, "py_func"):
            names[name] = types.FunctionType(value.py_func.__code__, names, name)
    return names


def resumed() -> str:
    """A run that was stopped and resumed equals one that was not, bit for bit."""
    asked: dict[str, Any] = {"rho": 2.0, "num_steps": 5000, "seed": 4, "trace_points": 3}
    mdp, stop = envs.make("river_swim"), 1000
    whole = explore(mdp, **asked)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        with contextlib.suppress(_LeftError):
            explore(mdp, **asked, out=out, report=partial(_leave, stop))
        if not any((out / name).exists() for name in CHECKPOINTS):
            raise TrialError("the stopped run left no checkpoint")
        run = resume(out)
    same = np.array_equal(run.counts, whole.counts) and np.array_equal(
        run.trace["divergence"], whole.trace["divergence"], equal_nan=True
    )
    if not same:
        raise TrialError("the resumed run visited other pairs than the run without interruption")
    return f"stopped after {stop} of {asked['num_steps']} steps"


class _LeftError(KeyboardInterrupt):
    """Stops a run in the middle, as Ctrl-C does."""


def _leave(stop: int, steps: int, num_steps: int) -> None:
    if steps >= stop:
        raise _LeftError


def files() -> str:
    """A model is read from a file as it was written, and a damaged file is rejected."""
    mdp = envs.make("river_swim")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        mdp.save(path)
        if MDP.load(path).fingerprint != mdp.fingerprint:
            raise TrialError("the model read from a file differs from the one that was written")
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        try:
            MDP.load(path)
        except FileFormatError:
            return f"{len(whole)} bytes; a damaged file was rejected"
    raise TrialError("a damaged file was accepted as a model")


def environment() -> str:
    """An environment of Gymnasium can be explored."""
    import gymnasium as gym

    env, num_steps = gym.make("FrozenLake-v1"), 500
    run = explore(env, 2.0, num_steps, seed=5)
    env.close()
    if int(run.counts.sum()) != num_steps:
        raise TrialError(f"{int(run.counts.sum())} visits were counted in {num_steps} steps")
    return f"{num_steps} steps in FrozenLake-v1"


def picture() -> str:
    """A figure can be drawn."""
    from rhocover.report.figures import occupancy_figure

    found = plan(envs.make("river_swim"), 2.0)
    drawn = io.BytesIO()
    occupancy_figure(found.mdp, found.occupancy, "visits").savefig(drawn, format="png")
    if not drawn.getvalue().startswith(b"\x89PNG"):
        raise TrialError("the drawn figure is not a PNG file")
    return f"{len(drawn.getvalue())} bytes of PNG"


TRIALS = {
    "known optima": known_optima,
    "certificates": certificates,
    "dense and sparse solver": dense_and_sparse,
    "policy iteration and HiGHS": oracles,
    "compiled and plain simulator": compiled_and_plain,
    "stopped and resumed": resumed,
    "files": files,
    "Gymnasium": environment,
    "pictures": picture,
}
