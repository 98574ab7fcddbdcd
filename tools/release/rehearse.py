"""Does once what a user will do: installs what was built into an empty environment, and uses it.

    python -m tools.release.rehearse

Archive and wheel are built, and each is installed with the locked packages into an environment of its own.
There, in an empty folder and without any environment variable, the commands of a first day are run. Packages
come from wherever pip is set up to take them; their hashes are those of requirements/run.txt.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tools.release.build import ROOT, build
from tools.release.locks import Package

MOST = 1800  # seconds that one command may take: a machine may be busy, only a hang is ended


def main() -> None:
    """Rehearses with the wheel and with the archive; ends at the first thing that is wrong."""
    with tempfile.TemporaryDirectory() as place:
        for built in reversed(build(Path(place, "dist"))):  # the wheel first
            began = time.perf_counter()
            python = empty_environment(Path(place, built.suffix))
            pip(python, "--require-hashes", "--no-deps", "-r", str(ROOT / "requirements" / "run.txt"))
            pip(python, "--no-deps", "--no-build-isolation", str(built))
            installed = time.perf_counter() - began
            use(python, Path(place, f"work{built.suffix}"), self_test=True)
            used = time.perf_counter() - began - installed
            print(f"{built.name}: installed in {installed:.0f} s, used in {used:.0f} s, all is well")


def empty_environment(folder: Path) -> Path:
    """Returns the Python of a new environment that holds nothing, not even pip."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str) -> None:
    """Installs into an environment with the pip of this one."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    subprocess.run([*command, "--quiet", *arguments], check=True)


def install_locked(python: Path, packages: dict[str, Package]) -> None:
    """Installs packages into an environment in the versions of their lock, checked by its hashes."""
    lines = [
        " ".join([f"{package.name}=={package.version}", *(f"--hash=sha256:{h}" for h in package.hashes)])
        for package in packages.values()
    ]
    with tempfile.TemporaryDirectory() as place:
        lock = Path(place, "lock.txt")
        lock.write_text("\n".join(lines) + "\n", "utf-8")
        pip(python, "--require-hashes", "--no-deps", "-r", str(lock))


def use(python: Path, folder: Path, *, self_test: bool) -> None:
    """Runs the commands of a first day in `folder`; refuses to go on where one does not do its work."""
    greet(python, folder)
    command = str(python.parent / "rhocover")
    found = json.loads(run(folder, command, "plan", "river_swim", "--rho", "2", "--json", "--out", "plans"))
    assert abs(found["plans"][0]["divergence"] - 0.293000580) < 1e-8, found  # recorded long ago
    assert (folder / "plans" / "plan.json").is_file(), "no file was written"
    document = json.loads(run(folder, command, "doctor", "--json", *["--no-self-test"] * (not self_test)))
    assert document["is_well"], document
    assert bool(document["self_test"]) == self_test, document


def greet(python: Path, folder: Path) -> None:
    """Makes `folder`, and sees there that the environment's own rhocover answers."""
    folder.mkdir()
    assert run(folder, str(python.parent / "rhocover"), "--version").startswith("rhocover "), "no version"
    where = run(folder, str(python), "-c", "import rhocover; print(rhocover.__file__)")
    assert Path(where.strip()).is_relative_to(python.parents[1]), f"another rhocover was used: {where}"


def run(folder: Path, *command: str) -> str:
    """Returns what a command prints, run in a folder without any environment variable."""
    result = subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, timeout=MOST)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
    return result.stdout


if __name__ == "__main__":
    main()
