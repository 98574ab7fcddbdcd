"""Who besides this user can change a file or a folder.

The system's own user can change everything, and so can whoever owns the root folder (inside a container the
system's user may have another number). Many systems give each user a group of the same name with nobody else
in it; such a group is the user. Where the system knows no such rights, nothing is said to be open to others.
"""

from __future__ import annotations

import os
import stat
from functools import cache

ROOT = 0  # the number of the system's own user, and of its group


def others_may_write(path: str | os.PathLike[str], *, trusted: int = ROOT) -> bool:
    """Whether another user can put something there; the user of number `trusted` is none."""
    if not hasattr(os, "geteuid"):
        return False
    found = os.stat(path)
    if found.st_uid not in (os.geteuid(), ROOT, os.stat("/").st_uid, trusted):
        return True
    by_group = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    return bool(by_group or found.st_mode & stat.S_IWOTH)


def others_may_replace(folder: str | os.PathLike[str]) -> bool:
    """Whether another user can put something else in the place of what is in a folder.

    In a folder like /tmp they can add files and folders, but take away only their own.
    """
    return others_may_write(folder) and not (
        os.stat(folder).st_mode & stat.S_ISVTX and os.stat(folder).st_uid in (os.geteuid(), ROOT)
    )


@cache
def _is_own_group(number: int) -> bool:
    """Whether a group is this user's alone, by its name and members; or that of the system's own user."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid()).pw_name
    except (
        ImportError,
        KeyError,
    ):  # containers have numbers without names
        return number == ROOT
    return not set(group.gr_mem) - {user} and (number == ROOT or group.gr_name == user)
