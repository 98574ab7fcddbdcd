"""Why rhocover cannot be loaded at all, said in one line. Only the standard library is needed here."""

from __future__ import annotations

from rhocover.diagnosis.packages import package_findings


def loading_failure(error: BaseException) -> str:
    """Returns what is wrong and the way out, for an exception that importing rhocover raised."""
    broken = [found for found in package_findings() if found.is_failure]
    if not broken:
        return f"{error}. Install rhocover again: pip install --force-reinstall rhocover"
    wrong = "; ".join(f"{found.name}: {found.text}" for found in broken)
    return f"{wrong}. {' && '.join(found.way_out for found in broken)}"
