"""Docstrings as reStructuredText.

The house writes docstrings as plain text: `code` in single backticks, *emphasis*, **bold**, lists, tables,
blocks indented by four spaces for equations and listings, and `>>>` examples. A star or an underscore
elsewhere is mathematics (d*, t_k). This file turns such a text into lines that autodoc can parse, with the
equations typeset (`equations`), and adds what autodoc does not see: parameters with their meaning
(`parameters`), the fields of a dataclass with the comments beside them, and the members of an enumeration.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
import tokenize
from io import StringIO
from typing import Any

from equations import equation
from parameters import table_of

INLINE = re.compile(
    r"(?P<code>`[^`]+`)|(?P<bold>\*\*\S(?:[^*]*\S)?\*\*)|(?P<emphasis>(?<![\w*])\*[A-Za-z][^*`]*?(?<=[\w.,])\*(?![\w*]))"
)
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
ITEM = re.compile(r"^( *)([-*]) +(?=\S)")


def convert(text: str) -> list[str]:
    """Returns the lines of reStructuredText that show a docstring of the house."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines += [*_block(block.split("\n")), ""]
    return lines


def _block(lines: list[str]) -> list[str]:
    if lines[0].lstrip().startswith(">>>"):
        return lines
    if all(line.startswith("    ") for line in lines):
        formulas = equation(lines)
        shown = [part for line in formulas or () for part in (".. math::", "", f"   {line}", "")]
        return shown or ["::", "", *lines]
    if all(line.strip().startswith("|") for line in lines):
        return _table([[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines])
    return _paragraph(lines)


def _table(rows: list[list[str]]) -> list[str]:
    """Returns a table whose second row is the rule below its head."""
    result = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
    for row in (rows[0], *rows[2:]):
        cells = [inline(cell) for cell in row]
        result += [f"   * - {cells[0]}", *(f"     - {cell}" for cell in cells[1:])]
    return result


def _paragraph(lines: list[str]) -> list[str]:
    """Returns a paragraph, a list, or one after the other, with the lines of an item indented alike."""
    text = "\n".join(ITEM.sub(r"\1- ", line) for line in lines)
    result, indent = [], ""
    for line in inline(text).split("\n"):
        item = ITEM.match(line)
        if item and result and not indent:
            result.append("")
        indent = " " * item.end() if item else indent
        result.append(line if item else indent + line.strip())
    return result


def inline(text: str) -> str:
    """Returns text with code, bold and emphasis marked up, and everything else taken literally."""
    result, end = "", 0
    for found in INLINE.finditer(text):
        result += _literal(text[end : found.start()])
        result += _marked(found, after=text[found.end() : found.end() + 1])
        end = found.end()
    return result + _literal(text[end:])


def _marked(found: re.Match[str], after: str) -> str:
    body = " ".join(found[0].split())
    if found["code"]:
        body = f"``{body[1:-1]}``"
    return body + ("\\ " if after.isalnum() or after == "_" else "")


def _literal(text: str) -> str:
    return re.sub(r"([\\`|_*])", r"\\\1", text)


def fields_of(cls: type) -> list[tuple[str, str, str]]:
    """Returns (name, type, comment) of each public field of a dataclass, of its own and of its bases."""
    found: dict[str, tuple[str, str, str]] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            found |= {name: (name, kind, note) for name, kind, note in _annotated(base)}
    names = [field.name for field in dataclasses.fields(cls) if not field.name.startswith("_")]
    return [found.get(name, (name, "", "")) for name in names]


def _annotated(cls: type) -> list[tuple[str, str, str]]:
    source = textwrap.dedent(inspect.getsource(cls))
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    return [
        (node.target.id, ast.unparse(node.annotation), comments.get(node.end_lineno or node.lineno, ""))
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def members_table(thing: Any) -> list[str]:
    """Returns a table of the fields or members of a class; empty if it has none to show."""
    rows: list[tuple[str, str]] = []
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        rows = [(f"``{member.name}``", inline(str(member.value))) for member in thing]
    elif isinstance(thing, type) and dataclasses.is_dataclass(thing) and _says_more(thing):
        rows = [(f"``{name}``", _meaning(kind, note)) for name, kind, note in fields_of(thing)]
    if not rows:
        return []
    table = [".. list-table::", "   :class: fields", "   :widths: auto", ""]
    for left, right in rows:
        table += [f"   * - {left}", f"     - {right}"]
    return [*table, ""]


def _says_more(cls: type) -> bool:
    """Whether a table of the fields would say anything that the signature does not."""
    return _is_result(cls) or any(note for _, _, note in fields_of(cls))


def _meaning(kind: str, note: str) -> str:
    shown = f"``{kind}``" if kind else ""
    return f"{shown}: {inline(note)}" if shown and note else shown or inline(note)


def process(_app: Any, _what: str, name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Rewrites the docstring that autodoc has read, in place."""
    text = "\n".join(lines)
    if dataclasses.is_dataclass(thing) and text.startswith(f"{getattr(thing, '__name__', '')}("):
        text = ""  # the one that `dataclass` makes up
    summary, _, rest = text.partition("\n\n")
    lines[:] = [*convert(summary), *table_of(name, thing, inline), *convert(rest), *members_table(thing)]


def shorten(
    _app: Any, what: str, _name: str, thing: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """Leaves out how a result is built, because nobody builds one by hand, and writes aliases as such."""
    if what == "class" and isinstance(thing, type) and _is_result(thing):
        return "", None
    plain = [text and ALIAS.sub(r"\1", text) for text in (signature, returned)]
    return plain[0], plain[1]


def _is_result(cls: type) -> bool:
    """Whether this is a value that the library hands out: a dataclass with many fields that must be given."""
    if not dataclasses.is_dataclass(cls) or not vars(cls)["__dataclass_params__"].init:
        return False
    return sum(map(_is_required, dataclasses.fields(cls))) >= 5


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def setup(app: Any) -> dict[str, Any]:
    """Tells Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", shorten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
