"""What running the notebooks of the site takes: packages, and kernels that keep quiet."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

NEEDS = {
    "tutorials/stable_baselines.md": ("torch", "stable_baselines3"),
    "tutorials/auditing.md": ("minari",),
}


def missing(page: str) -> list[str]:
    """Returns the packages of a page that are not installed."""
    return [name for name in NEEDS.get(page, ()) if importlib.util.find_spec(name) is None]


def quiet_kernels(folder: Path) -> None:
    """Gives the kernels a profile of their own: nobody's settings play a part, and only errors are told."""
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(
        'get_config().IPKernelApp.log_level = "ERROR"\n', "utf-8"
    )
    os.environ["IPYTHONDIR"] = str(folder)
