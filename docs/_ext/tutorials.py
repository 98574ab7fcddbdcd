"""What the notebooks of the site need to run: packages, and kernels with their own settings.

A page whose packages are missing is built without executing it, and says so below its title. It shows stored
results where there are some (`stored_results`), and none otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import stored_results

NEEDS = {
    "tutorials/stable_baselines.md": ("torch", "stable_baselines3"),
    "tutorials/auditing.md": ("minari",),
    "tutorials/minigrid.md": ("minigrid",),
    "tutorials/montezuma.md": ("ale_py",),
    "tutorials/point_maze.md": ("gymnasium_robotics",),
    "tutorials/density_reward.md": ("torch", "stable_baselines3"),
}
TITLE = re.compile(r"^# .*\n", re.MULTILINE)
NOTE = """
:::{{warning}}
The cells of this page were not executed here, because {names} missing where it was built. {rest}
:::
"""


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


def say_if_not_executed(_app: Any, page: str, source: list[str]) -> None:
    """Adds a note below the title of a page whose packages are missing, and its stored results."""
    names = missing(f"{page}.md")
    if not names:
        return
    stored, rest = stored_results.load(f"{page}.md"), "It has no results."
    if stored:
        versions = " and ".join(f"{name} {version}" for name, version in stored["packages"].items())
        rest = f"Its results are stored ones, from an execution with {versions}."
        source[0] = stored_results.insert(source[0], stored["cells"])
    listed = " and ".join(f"`{name}`" for name in names) + (" is" if len(names) == 1 else " are")
    note = NOTE.format(names=listed, rest=rest)
    source[0] = TITLE.sub(lambda title: title[0] + note, source[0], count=1)


def setup(app: Any) -> dict[str, Any]:
    """Tells Sphinx."""
    app.connect("source-read", say_if_not_executed)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
