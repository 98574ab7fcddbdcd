"""Foreign words in one line: what an environment, a file or a package says, as it may be printed."""

from __future__ import annotations

import re
from typing import Any

from rhocover.printing import printable

COLOURS = re.compile(r"\x1b\[[\d;]*m|^WARN: ")  # Gymnasium's, around its warnings


def one_line(words: Any) -> str:
    """Returns words of any origin as one line without colours, everything else in it shown and not obeyed."""
    return printable(COLOURS.sub("", " ".join(COLOURS.sub("", str(words)).split())))
