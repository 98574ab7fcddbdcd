"""Builds the source archive and, from it, the wheel; the same tree gives the same bytes.

    python -m tools.release.build [FOLDER]

Nothing is fetched: hatchling builds in the environment that runs this. The wheel is built from the unpacked
archive, so what the archive lacks is missed here and not by a user. Times in the files are
SOURCE_DATE_EPOCH, by default hatchling's own fixed day.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path) -> tuple[Path, Path]:
    """Returns the paths of archive and wheel, written to `folder`."""
    folder = folder.absolute()
    _hatchling(ROOT, "sdist", folder)
    archive = newest(folder, "*.tar.gz")
    with tempfile.TemporaryDirectory() as place:
        unpack(archive, Path(place))
        _hatchling(next(Path(place).iterdir()), "wheel", folder)
    return archive, newest(folder, "*.whl")


def newest(folder: Path, pattern: str) -> Path:
    """Returns the file that was written last."""
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def unpack(archive: Path, place: Path) -> None:
    """Unpacks an archive; by the safe rules where Python has them, from 3.11.4 on."""
    rules: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as opened:
        opened.extractall(place, **rules)


def _hatchling(tree: Path, target: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")


if __name__ == "__main__":
    for path in build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist")):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}  {path.stat().st_size:,} bytes")
