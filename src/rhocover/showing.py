"""Results that show themselves: as a picture, a page, a data frame, and a card in a notebook.

A result class gets all of this from `Shown`. How its results look is a `View`: pictures and tables by name,
the page, and the card. Views are in the packages that draw, which come after those of the results. So a view
is found by the name of the class among the entry points of `rhocover.views` (see `plugins`), when it is first
needed: nothing is drawn, and matplotlib is not loaded, before a result is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover import checks
from rhocover.errors import InvalidArgumentError, missing_extra
from rhocover.files import write_atomically
from rhocover.plugins import VIEWS, load, members
from rhocover.printing import LINES, printable

if TYPE_CHECKING:
    import pandas
    import polars
    from matplotlib.figure import Figure

ENDINGS = (".html", ".htm")
Columns = Mapping[str, Any]  # columns of one length, by name: arrays, or lists of text


@dataclass(frozen=True)
class View:
    """How results of one class look; of pictures and tables, the first is the usual one."""

    pictures: Mapping[str, Callable[..., Figure]]  # of a result and a title, and of what `plot` takes besides
    tables: Mapping[str, Callable[[Any], Columns]]
    page: Callable[[Any], str]  # the text of an HTML file
    card: Callable[[Any], str]  # a piece of HTML


class Shown:
    """A result that shows itself. In a notebook, a cell that ends with it shows its card."""

    def plot(self, kind: str | None = None, *, title: str = "") -> Figure:
        """Returns a picture as a matplotlib figure, which pyplot does not manage; None is the usual kind.

        `figure.savefig("picture.pdf")` stores it.
        """
        return self._drawn(kind, title)

    def report(self, path: os.PathLike[str] | str, *, overwrite: bool = False) -> Path:
        """Writes the page about this result to one HTML file, which needs no network; returns its path."""
        place = checks.place(path, "path")
        if place.suffix.lower() not in ENDINGS:
            raise InvalidArgumentError.of("path", "must end in .html", repr(place.name))
        write_atomically(place, view_of(self).page(self).encode(), overwrite=overwrite)
        return place

    def to_pandas(self, rows: str | None = None) -> pandas.DataFrame:
        """Returns a tidy table as a data frame of pandas; None is the usual kind of rows."""
        columns = self._columns(rows)
        try:
            import pandas
        except ImportError as error:
            raise missing_extra("pandas", "pandas") from error
        return pandas.DataFrame(dict(columns))

    def to_polars(self, rows: str | None = None) -> polars.DataFrame:
        """Returns a tidy table as a data frame of polars; None is the usual kind of rows."""
        columns = self._columns(rows)
        try:
            import polars
        except ImportError as error:
            raise missing_extra("polars", "polars") from error
        return polars.DataFrame(dict(columns))

    def _repr_html_(self) -> str:
        """Returns the card that a notebook shows; the text of the result if it cannot be drawn."""
        try:
            return view_of(self).card(self)
        except Exception:  # a picture must never be the reason why a result is not seen
            return text_html(self)

    def _drawn(self, kind: str | None, title: Any, **which: Any) -> Figure:
        pictures = view_of(self).pictures
        draw = pictures[_chosen(kind, "kind", pictures)]
        if not isinstance(title, str):
            raise InvalidArgumentError.of("title", "must be text", type(title).__name__)
        return draw(self, title, **which)

    def _columns(self, rows: str | None) -> Columns:
        tables = view_of(self).tables
        return tables[_chosen(rows, "rows", tables)](self)


def view_of(result: Shown) -> View:
    """Returns the view of a result: that of its class, or of the next base class that has one."""
    names = [kind.__name__ for kind in type(result).__mro__]
    known = members(VIEWS)
    return load(VIEWS, next((name for name in names if name in known), names[0]))


def text_html(result: Any) -> str:
    """Returns the text of anything as HTML; its class if it has no text."""
    try:
        text = str(result)
    except Exception:
        text = f"<{type(result).__name__}>"
    return f"<pre>{escape(printable(text, keep=LINES))}</pre>"


def _chosen(name: Any, argument: str, known: Mapping[str, Any]) -> str:
    return next(iter(known)) if name is None else checks.choice(name, argument, known)
