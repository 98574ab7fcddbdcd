"""Which other processors this one can stand for: the kernels of OpenBLAS, and the target of Numba.

Both are chosen when a process starts, from the processor or from variables. Other kernels add in another order,
other targets fuse a product with a sum or do not, so last bits differ, and ties fall the other way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

KERNELS = {  # name for OpenBLAS: what the processor must have, newest first
    "SkylakeX": {"avx512f", "avx512bw", "avx512vl"},
    "Haswell": {"avx2", "fma"},
    "Nehalem": {"sse4_2"},
}
ALIKE = {"Zen": "Haswell", "Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX"}  # nearly the same kernels


@dataclass(frozen=True)
class Setting:
    """A name for people, and the variables that a process is started with."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)


def settings(flags: set[str], native: str, cache: Path) -> list[Setting]:
    """Returns the settings to repeat with: the newest other kernels, and the oldest with plain Numba.

    `flags` are the processor's, `native` the kernels that OpenBLAS takes by itself ("" if there is no OpenBLAS).
    What Numba compiles for another target goes to `cache`.
    """
    own = ALIKE.get(native, native)
    others = [name for name, needed in KERNELS.items() if native and needed <= flags and name != own]
    plain = Setting("Numba for any processor", {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(cache)})
    if not others:
        return [plain]
    newest = Setting(f"kernels of {others[0]}", {"OPENBLAS_CORETYPE": others[0]})
    if len(others) == 1:
        return [newest, plain]
    oldest = plain.variables | {"OPENBLAS_CORETYPE": others[-1]}
    return [newest, Setting(f"kernels of {others[-1]}, {plain.name}", oldest)]


def flags_of(text: str) -> set[str]:
    """Returns the flags in the text of /proc/cpuinfo; none if it has none, as on other systems."""
    lines = [line.partition(":")[2] for line in text.splitlines() if line.startswith("flags")]
    return set(lines[0].split()) if lines else set()


def native_kernels() -> str:
    """Returns the kernels that NumPy's OpenBLAS chose for this process; "" if it has another BLAS."""
    import numpy  # noqa: F401  loads the BLAS that is asked about
    from threadpoolctl import threadpool_info

    found = [pool["architecture"] for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    return found[0] if found else ""
