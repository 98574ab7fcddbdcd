"""One thing that was looked at: how it is, and what to do if it is not well."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, FAILED = "ok", "note", "FAILED"


@dataclass(frozen=True)
class Finding:
    """What was looked at, its status (ok, note or FAILED), what was found, and the way out of it."""

    name: str
    status: str
    text: str
    way_out: str = ""
    seconds: float | None = None

    @property
    def is_failure(self) -> bool:
        """Whether something must be done."""
        return self.status == FAILED
