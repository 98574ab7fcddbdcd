"""A folder for one attack, with a home, a folder for temporary files and a working directory: all are watched.

What is written belongs below `here/out` or into `here/page.html`; anything else is out of place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OURS = ("here/out", "here/page.html")  # where the attacked verbs are told to write
FONTS = ("home/.config/matplotlib", "home/.cache/matplotlib")  # Matplotlib's own list of fonts


@dataclass(frozen=True)
class Place:
    """The folder `root` holds all of it."""

    root: Path

    @property
    def here(self) -> Path:
        return self.root / "here"

    def enter(self) -> None:
        """Makes this process live here."""
        os.environ.update(self.variables())
        os.chdir(self.here)

    def variables(self) -> dict[str, str]:
        return {"HOME": str(self.root / "home"), "TMPDIR": str(self.root / "tmp"), "COLUMNS": "100"}

    def listing(self) -> dict[str, str]:
        """Returns everything below the root: files by what they hold, anything else by what it is."""
        found = {}
        for folder, names, files in os.walk(self.root):
            for name in [*names, *files]:
                path = Path(folder, name)
                found[path.relative_to(self.root).as_posix()] = _kind(path)
        return found

    def outside(self, before: dict[str, str]) -> list[str]:
        """Returns what changed since `before` and is not where the verbs were told to write."""
        now = self.listing()
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return sorted(name for name in changed if not _is_below(name, OURS) and not _is_fonts(name))


def _kind(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if path.is_dir():
        return "folder"
    if not path.is_file() or not os.access(path, os.R_OK):
        return "something else"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_below(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


def _is_fonts(name: str) -> bool:
    return _is_below(name, FONTS) or any(place.startswith(f"{name}/") for place in FONTS)


@contextlib.contextmanager
def watched_place() -> Iterator[Place]:
    """Makes such a folder; it is gone afterwards, whatever was left in it."""
    root = Path(tempfile.mkdtemp(prefix="attack-"))
    for name in ("home", "tmp", "here"):
        (root / name).mkdir()
    try:
        yield Place(root)
    finally:
        remove(root)


def remove(root: Path) -> None:
    """Removes a folder, also what was made unreadable in it."""
    for folder, _, _ in os.walk(root):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(root, ignore_errors=True)
