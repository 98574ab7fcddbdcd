"""`rhocover envs`: the models that have a name."""

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

if TYPE_CHECKING:
    from rhocover.envs import EnvInfo


def envs(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Say all about this one.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Lists the models that have a name: what they are, how large, and their parameters.

    Other commands take the parameters with `--set`: `rhocover plan river_swim --set num_states=20 --rho 2`.

    * `rhocover envs`
    * `rhocover envs garnet`
    * `rhocover envs --json`
    """
    from rhocover import envs as registry

    if name is not None:
        registry.parameters(name)  # refuses an unknown name before anything is built
    entries = [entry for entry in registry.describe() if name in (None, entry.name)]
    if json:
        documents = [asdict(entry) | {"details": _details(entry.name)} for entry in entries]
        print_json(documents if name is None else documents[0])
    elif name is None:
        print_result(env_table(entries), "Details of one: rhocover envs NAME")
    else:
        print_result(_page(entries[0]))


def _page(entry: EnvInfo) -> str:
    """Returns all about one environment as text."""
    given = settings(entry.parameters)
    example = f"rhocover plan {entry.name} {f'--set {given.split()[0]} ' if given else ''}--rho 2"
    size = f"{entry.num_states} states, {entry.num_actions} actions, {entry.num_pairs} pairs"
    return (
        f"{entry.name}: {_details(entry.name)}\n\n"
        f"Parameters  {given or 'none'}\nSize        {size} with the defaults\nExample     {example}"
    )


def _details(name: str) -> str:
    """Returns the documentation of an environment, without the Python word for giving it."""
    from rhocover import envs as registry

    paragraphs = (inspect.getdoc(getattr(registry, name)) or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return text.removeprefix("Returns ").replace("`", "")


# `rhocover explorers`: who can act, in a line each.

OWN, CITED, JOINED = "own", "cited", "joined"
HEADINGS = {
    OWN: "The library's own", CITED: "Systems that the paper cites", JOINED: "Of other packages",
}  # fmt: skip
ROOMS = {"rhocover.exploring.explorers": OWN, "rhocover.baselines": CITED}


def explorers(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Say all about this one.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Lists who can act: the library's own explorers, and the systems that the paper cites.

    Each with what it does and, for the systems, where its objective stands on the axis of rho. All of them go
    with `rhocover explore --explorer NAME` and `rhocover compare`. Some play episodes only: they need
    `--horizon`.

    * `rhocover explorers`
    * `rhocover explorers fw_modest`
    * `rhocover explorers --json`
    """
    from rhocover.exploring import explorer_names
    from rhocover.exploring.explorers.registry import make_explorer

    if name is not None:
        make_explorer(name)  # refuses an unknown name
    entries = [describe(known) for known in explorer_names() if name in (None, known)]
    if json:
        print_json(entries if name is None else entries[0])
    elif name is None:
        print_result(*_tables(entries), "Details of one: rhocover explorers NAME")
    else:
        print_result(_explorer_page(entries[0]))


def describe(name: str) -> dict[str, Any]:
    """Returns what an explorer is, from its own documentation, ready for JSON."""
    from rhocover.exploring.explorers.registry import VARIANTS, explorer_document, make_explorer

    explorer = make_explorer(name)
    room = type(explorer).__module__.rpartition(".")[0]
    kind, chapter = ROOMS.get(room, JOINED), sys.modules[type(explorer).__module__].__doc__ or ""
    document = explorer_document(explorer)
    settings = document["settings"] if document else {}
    summary = plain(chapter.strip().partition("\n")[0])
    if name in VARIANTS:
        schedule, numbers = settings["schedule"]
        summary += f" Here with --schedule {schedule}:{','.join(f'{number:g}' for number in numbers)}."
    return {
        "name": name, "kind": kind, "summary": summary, "settings": settings,
        "details": _explorer_details(chapter),
        "axis": "" if kind == OWN else axis_sentence(chapter),
    }  # fmt: skip


def plain(text: str) -> str:
    """Returns a text in one line, without marks of code."""
    return " ".join(text.replace("`", "").split())


def axis_sentence(chapter: str) -> str:
    """Returns the sentence that says where an objective stands on the axis of rho; "" if none does.

    >>> axis_sentence("Visits. On the rho axis: exactly rho = inf with mu = c. c is given.")
    'On the rho axis: exactly rho = inf with mu = c.'
    """
    sentences = [plain(text) for text in re.split(r"(?<=\.)\s+|\n\n", chapter)]
    marks = (r"^On the (rho )?axis\b", r"\boutside the axis\b", r"\baxis\b")  # the plainest first
    found = (text for mark in marks for text in sentences if re.search(mark, text))
    return next(found, "")


def _explorer_details(chapter: str) -> str:
    """Returns a chapter with each paragraph in one line; equations, lists and tables keep theirs."""
    paragraphs = inspect.cleandoc(chapter).split("\n\n")
    return "\n\n".join(part if re.search(r"^[\s|-]", part, re.M) else plain(part) for part in paragraphs)


def _tables(entries: list[dict[str, Any]]) -> list[Group]:
    """Returns a table for each kind of explorer."""
    parts = []
    for kind, heading in HEADINGS.items():
        mine = [entry for entry in entries if entry["kind"] == kind]
        if mine:
            parts.append(Group(Text(heading, "bold"), _table(mine)))
    return parts


def _table(entries: list[dict[str, Any]]) -> Table:
    table = empty_table("explorer")
    table.add_column("what it does, and where it stands on the axis of rho")
    for entry in entries:
        axis = [Padding(Text(entry["axis"]), (0, 0, 0, 2))] if entry["axis"] else []
        table.add_row(Text(entry["name"], "cyan"), Group(Text(entry["summary"]), *axis))
    return table


def _explorer_page(entry: dict[str, Any]) -> str:
    """Returns all about one explorer as text."""
    given = "  ".join(f"{name}={value}" for name, value in entry["settings"].items())
    return f"{entry['name']}: {entry['details'].replace('`', '')}\n\nSettings in Python: {given or 'none'}"
