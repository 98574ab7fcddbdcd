"""Names in running text lead to their place in the reference.

`rc.plan`, `rhocover.MDP`, `Run.gap` and `rhocover plan` in backticks become links where the reference has
such a name or such a command. A test, `tests/file.py::test_name`, is shown as the sentence that its name is.
So pages can be written as plain Markdown and are readable outside of this site.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

NAME = re.compile(r"^(?:rc|rhocover)((?:\.\w+)+)(?:\(.*\))?$")
CLASS = re.compile(r"^[A-Z]\w+(\.\w+)?$")
COMMAND = re.compile(r"^rhocover ([a-z][a-z-]*)$")
TEST = re.compile(r"^(tests/[\w/]+\.py)::test_(\w+)$")
COMMANDS_PAGE = "reference/commands"


def link(app: Any, doctree: nodes.document, docname: str) -> None:
    """Wraps each literal that is a documented name into a reference to it."""
    targets = {name: (where.docname, where.node_id) for name, where in app.env.domains["py"].objects.items()}
    for literal in list(doctree.findall(nodes.literal)):
        test = TEST.match(literal.astext())
        if test:
            literal.replace_self(_sentence(test[2], test[1]))
            continue
        if any(isinstance(above, nodes.reference | nodes.title) for above in _parents(literal)):
            continue
        found = _target(literal.astext(), targets)
        if found is not None and found[0] in app.env.found_docs:
            uri = app.builder.get_relative_uri(docname, found[0]) + f"#{found[1]}"
            reference = nodes.reference("", "", internal=True, refuri=uri, classes=["named"])
            literal.replace_self(reference)
            reference += literal


def _sentence(name: str, path: str) -> list[nodes.Node]:
    words = name.replace("_", " ")
    return [nodes.inline("", words, classes=["shown-by"]), nodes.literal("", path, classes=["where"])]


def _target(text: str, targets: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    command = COMMAND.match(text)
    if command:
        return COMMANDS_PAGE, f"rhocover-{command[1]}"
    name = NAME.match(text)
    if name:
        return targets.get(f"rhocover{name[1]}")
    places = ("", "errors.", "exploring.", "learning.") if CLASS.match(text) else ()
    return next((targets[full] for place in places if (full := f"rhocover.{place}{text}") in targets), None)


def _parents(node: nodes.Node) -> list[nodes.Node]:
    above = []
    while node.parent is not None:
        node = node.parent
        above.append(node)
    return above


def setup(app: Any) -> dict[str, Any]:
    """Tells Sphinx."""
    app.connect("doctree-resolved", link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
