"""Which of several ways to compute is taken on this machine, and where files go.

- ordering of sparse matrices: our own nested dissection, and METIS beside it where pymetis is installed;
- BLAS: which library; plans use one thread of it, so that their bits do not depend on the load;
- Numba: compiled loops are kept in a folder, so that only the first use waits for the compiler.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rhocover._version import __version__
from rhocover.diagnosis.findings import FAILED, NOTE, OK, Finding


def backend_findings() -> list[Finding]:
    """Returns what computes here, and whether folders that matter can be written to."""
    return [*_system(), _ordering(), *_blas(), *_compiler(), _temporary_folder()]


def _system() -> Iterator[Finding]:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("rhocover", OK, f"{__version__}, {python}, {platform.system()} {platform.machine()}")
    yield Finding("processors", OK, f"{os.cpu_count()}")


def _ordering() -> Finding:
    from rhocover.planning.ordering import has_metis

    own = "our own nested dissection"
    return Finding("ordering", OK, f"METIS where it fills less, else {own}" if has_metis() else own)


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
        text = "no library that can be held to one thread: plans may differ in their last bits"
        yield Finding("BLAS", NOTE, text, "set OMP_NUM_THREADS=1")


def _compiler() -> Iterator[Finding]:
    import llvmlite.binding as llvm
    import numba

    has_svml = "with SVML" if numba.config.USING_SVML else "without SVML"  # type: ignore[attr-defined]
    yield Finding("compiler", OK, f"Numba {numba.__version__} for {llvm.get_host_cpu_name()}, {has_svml}")
    yield compiled_folder(cache_folder())


def is_compiled() -> bool:
    """Returns whether loops are compiled at all."""
    from rhocover.exploring.acting import act_sampled

    return hasattr(act_sampled, "stats")  # a plain function has none


def cache_folder() -> Path | None:
    """Returns where the compiled loops are kept; None where they are not, or nothing is compiled."""
    from rhocover.exploring.acting import act_sampled

    kept = act_sampled.stats.cache_path if is_compiled() else None
    return None if kept is None else Path(kept)


def is_warm() -> bool:
    """Returns whether the loops of the simulator need no compiling: they were before, or are not at all."""
    folder = cache_folder()
    return not is_compiled() or (folder is not None and any(folder.glob("acting.act_sampled-*.nbi")))


def compiled_folder(folder: Path | None) -> Finding:
    """Returns whether compiled code can be kept, and whether there is any."""
    if not is_compiled():
        way_out = "unset NUMBA_DISABLE_JIT"
        return Finding(
            "compiled code", NOTE, "nothing is compiled: simulating takes 100 times as long", way_out
        )
    if folder is None:
        way_out = "name a folder that is yours alone: NUMBA_CACHE_DIR=FOLDER rhocover ..."
        return Finding(
            "compiled code", NOTE, "not kept: every process compiles anew, for up to a minute", way_out
        )
    place = next(path for path in (folder, *folder.parents) if path.exists())
    if not is_writable(place):
        way_out = "name another folder: NUMBA_CACHE_DIR=FOLDER rhocover ..."
        return Finding("compiled code", FAILED, f"{folder} cannot be written to", way_out)
    state = "holds compiled loops" if is_warm() else "empty: the first use compiles, for up to a minute"
    return Finding("compiled code", OK, f"{folder}, {state}")


def _temporary_folder() -> Finding:
    folder = Path(tempfile.gettempdir())
    if is_writable(folder):
        return Finding("temporary files", OK, f"{folder}")
    return Finding("temporary files", FAILED, f"{folder} cannot be written to", "set TMPDIR to one that can")


def is_writable(folder: Path) -> bool:
    """Returns whether a file can be made in a folder, by making one."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
