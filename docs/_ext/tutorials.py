"""What the notebooks of the site need to run: packages, and kernels with their own settings."""

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


def prepare_kernels(folder: Path) -> None:
    """Gives the kernels a profile of their own: no user's settings, only errors logged, our figures."""
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        'get_config().IPKernelApp.log_level = "ERROR"\n'
        'get_config().IPKernelApp.extensions = ["notebook_figures"]\n',
        "utf-8",
    )
    os.environ["IPYTHONDIR"] = str(folder)
