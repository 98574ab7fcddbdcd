"""`rhocover envs` and `rhocover explorers`: the named models, and the explorers that can act in them."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from rhocover.cli.output import empty_table, env_table, print_json, print_result, settings
from rhocover.mdp import size_text

if TYPE_CHECKING:
    from rhocover.envs import EnvInfo


def envs(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Show the details of this model.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Lists the named models: what they are, their sizes and their parameters.

    Other commands take the parameters with `--set`: `rhocover plan river_swim --set num_states=20 --rho 2`.

    * `rhocover envs`
    * `rhocover envs garnet`
    * `rhocover envs --json`
    """
    from rhocover import envs as registry

    if name is not None:
        registry.parameters(name)  # raises on an unknown name before anything is built
    entries = [entry for entry in registry.describe() if name in (None, entry.name)]
    if json:
        documents = [asdict(entry) | {"details": _details(entry.name)} for entry in entries]
        print_json(documents if name is None else documents[0])
    elif name is None:
        print_result(env_table(entries), "Details of one: rhocover envs NAME")
    else:
        print_result(_page(entries[0]))


def _page(entry: EnvInfo) -> str:
    """Returns the details of one model as text."""
    given = settings(entry.parameters)
    example = f"rhocover plan {entry.name} {f'--set {given.split()[0]} ' if given else ''}--rho 2"
    size = size_text(entry.num_states, entry.num_actions, entry.num_pairs)
    return (
        f"{entry.name}: {_details(entry.name)}\n\n"
        f"Parameters  {given or 'none'}\nSize        {size} with the defaults\nExample     {example}"
    )


def _details(name: str) -> str:
    """Returns the docstring of a model, without the leading "Returns"."""
    from rhocover import envs as registry

    paragraphs = (inspect.getdoc(getattr(registry, name)) or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return text.removeprefix("Returns ").replace("`", "")


# `rhocover explorers`: one line per explorer.

OWN, CITED, JOINED = "own", "cited", "joined"
HEADINGS = {
    OWN: "The library's own", CITED: "Published methods", JOINED: "From other packages",
}  # fmt: skip
PACKAGES = {"rhocover.exploring.explorers": OWN, "rhocover.baselines": CITED}


def explorers(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Show the details of this explorer.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Lists the explorers: the library's own, and the published methods that the paper cites.

    For each it shows what it does and, for the published methods, which rho its objective corresponds to. All
    of them work with `rhocover explore --explorer NAME` and `rhocover compare`. Some work only in episodes
    and need `--horizon`.

    * `rhocover explorers`
    * `rhocover explorers fw_modest`
    * `rhocover explorers --json`
    """
    from rhocover.exploring import explorer_names
    from rhocover.exploring.explorers.registry import make_explorer

    if name is not None:
        make_explorer(name)  # raises on an unknown name
    entries = [describe(known) for known in explorer_names() if name in (None, known)]
    if json:
        print_json(entries if name is None else entries[0])
    elif name is None:
        print_result(*_tables(entries), "Details of one: rhocover explorers NAME")
    else:
        print_result(_explorer_page(entries[0]))


def describe(name: str) -> dict[str, Any]:
    """Returns a description of an explorer from its module docstring, ready for JSON."""
    from rhocover.exploring.explorers.registry import VARIANTS, explorer_document, make_explorer

    explorer = make_explorer(name)
    package = type(explorer).__module__.rpartition(".")[0]
    kind, chapter = PACKAGES.get(package, JOINED), sys.modules[type(explorer).__module__].__doc__ or ""
    document = explorer_document(explorer)
    settings = document["settings"] if document else {}
    summary = plain(chapter.strip().partition("\n")[0])
    if name in VARIANTS:
        schedule, numbers = settings["schedule"]
        summary += (
            f" This variant uses --schedule {schedule}:{','.join(f'{number:g}' for number in numbers)}."
        )
    return {
        "name": name, "kind": kind, "summary": summary, "settings": settings,
        "details": _explorer_details(chapter),
        "axis": "" if kind == OWN else axis_sentence(chapter),
    }  # fmt: skip


def plain(text: str) -> str:
    """Returns a text in one line, without backticks."""
    return " ".join(text.replace("`", "").split())


def axis_sentence(chapter: str) -> str:
    """Returns the sentence that places an objective on the axis of rho; "" if there is none.

    >>> axis_sentence("Visits. On the rho axis: exactly rho = inf with mu = c. c is given.")
    'On the rho axis: exactly rho = inf with mu = c.'
    """
    sentences = [plain(text) for text in re.split(r"(?<=\.)\s+|\n\n", chapter)]
    marks = (r"^On the (rho )?axis\b", r"\boutside the axis\b", r"\baxis\b")  # the most explicit first
    found = (text for mark in marks for text in sentences if re.search(mark, text))
    return next(found, "")


def _explorer_details(chapter: str) -> str:
    """Returns a docstring with each paragraph in one line; equations, lists and tables keep their lines."""
    paragraphs = inspect.cleandoc(chapter).split("\n\n")
    return "\n\n".join(part if re.search(r"^[\s|-]", part, re.M) else plain(part) for part in paragraphs)


def _tables(entries: list[dict[str, Any]]) -> list[Group]:
    """Returns one table per kind of explorer."""
    parts = []
    for kind, heading in HEADINGS.items():
        mine = [entry for entry in entries if entry["kind"] == kind]
        if mine:
            parts.append(Group(Text(heading, "bold"), _table(mine)))
    return parts


def _table(entries: list[dict[str, Any]]) -> Table:
    table = empty_table("explorer")
    table.add_column("what it does, and where its objective is on the axis of rho")
    for entry in entries:
        axis = [Padding(Text(entry["axis"]), (0, 0, 0, 2))] if entry["axis"] else []
        table.add_row(Text(entry["name"], "cyan"), Group(Text(entry["summary"]), *axis))
    return table


def _explorer_page(entry: dict[str, Any]) -> str:
    """Returns the details of one explorer as text."""
    given = "  ".join(f"{name}={value}" for name, value in entry["settings"].items())
    return f"{entry['name']}: {entry['details'].replace('`', '')}\n\nSettings in Python: {given or 'none'}"
