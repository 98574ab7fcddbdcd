"""What the tests of folders share."""

from __future__ import annotations

import os

import pytest
from small_writers import often

__all__ = ["often"]

if os.name != "posix":  # locks, links and copies of processes are POSIX's
    pytest.skip("folders are held on POSIX only", allow_module_level=True)
