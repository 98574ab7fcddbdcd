"""One function for many seeds, shared out among the cores, and the mean of what comes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np


def over(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Returns function(*job) for each job, in order."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, *zip(*jobs, strict=True)))


def mean_and_error(values: Any) -> tuple[float, float]:
    """Returns the mean and its standard error."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
