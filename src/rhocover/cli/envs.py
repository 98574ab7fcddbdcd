"""`rhocover envs`: the models that have a name."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rhocover.cli.tables import env_table, print_json, settings, show

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
        show(env_table(entries), "Details of one: rhocover envs NAME")
    else:
        show(_page(entries[0]))


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
