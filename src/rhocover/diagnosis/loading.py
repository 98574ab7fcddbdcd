"""Why rhocover cannot be loaded at all, said in one line. Only the standard library is needed here."""

from __future__ import annotations

from rhocover.diagnosis.packages import package_findings

CACHE_TROUBLE = "cannot cache function"  # Numba's words where no folder for compiled code can be written to


def loading_failure(error: BaseException) -> str:
    """Returns what is wrong and the way out, for an exception that importing rhocover raised."""
    if CACHE_TROUBLE in str(error):
        return (
            "there is no folder for compiled code that can be written to. Name one: "
            "NUMBA_CACHE_DIR=FOLDER rhocover ..."
        )
    broken = [found for found in package_findings() if found.is_failure]
    if not broken:
        return f"{error}. Install rhocover again: pip install --force-reinstall rhocover"
    wrong = "; ".join(f"{found.name}: {found.text}" for found in broken)
    return f"{wrong}. {' && '.join(found.way_out for found in broken)}"
