"""What collect() returns: the run, the data set it left, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rhocover.datasets.result import Audit
from rhocover.datasets.tally import Tally
from rhocover.exploring.run import Run
from rhocover.printing import printed


@dataclass(frozen=True, eq=False)
class Collection:
    """A data set on disk: `path` is the folder of the Minari data set `dataset_id`.

    `audit` says what it covers; `datasheet` is the document inside its metadata, and `page` the same to read.
    """

    out: Path
    dataset_id: str
    audit: Audit
    datasheet: dict[str, Any]
    run: Run | None  # None for an addition to other data
    tally: Tally  # the counts, by the environment's own keys
    states: Any  # how observations were counted: what `audit` and `top_up` need to read it again
    actions: Any

    @property
    def path(self) -> Path:
        """The folder of the Minari data set."""
        return self.out / self.dataset_id

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
        """What the data set is worth, in a sentence."""
        return self.audit.verdict

    def load(self) -> Any:
        """Returns the data set as a `minari.MinariDataset`."""
        from minari import MinariDataset

        return MinariDataset(self.path / "data")

    def summary(self) -> dict[str, Any]:
        """Returns the datasheet with where it lies, ready for JSON."""
        return {"out": str(self.out), "dataset_id": self.dataset_id, **self.datasheet}

    @printed
    def __str__(self) -> str:
        return f"{self.dataset_id}: {self.num_steps} steps in {self.path}\n  {self.verdict}"

    __repr__ = __str__
