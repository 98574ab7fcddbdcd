"""Prints what `requirements/oldest.txt` is resolved from: `python oldest.py | uv pip compile - ...`.

Everything that the project declares for its users, to be resolved to the lowest versions that are allowed,
and the tools of the tests as they are pinned in `test.txt`.
"""

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXTRAS = ("fast", "minari", "parquet")  # those that the core's tests can use; sb3 brings torch
TOOLS = ("hatchling", "editables", "hypothesis", "mpmath", "pytest", "pytest-timeout", "pytest-xdist")


def requirements() -> list[str]:
    """Returns the lines: lower bounds of the project, exact versions of the tools."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [*project["dependencies"], *(r for e in EXTRAS for r in project["optional-dependencies"][e])]
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (HERE / "test.txt").read_text("utf-8"), re.MULTILINE))
    return [*declared, *(f"{name}=={pinned[name]}" for name in TOOLS)]


if __name__ == "__main__":
    print("\n".join(requirements()))
