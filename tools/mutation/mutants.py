"""Every mutant of a source text: one place, one small change.

Left out: docstrings, annotations, decorators, imports, what is inside `raise`, `assert` and f-strings,
`__all__`, `__str__` and `__repr__`. A first assignment is never removed: the missing name would give it away.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

BINARY = {
    ast.Add: "+ -", ast.Sub: "- +", ast.Mult: "* /", ast.Div: "/ *", ast.FloorDiv: "// /", ast.Pow: "** *",
    ast.Mod: "% *", ast.BitAnd: "& |", ast.BitOr: "| &", ast.LShift: "<< >>",
}  # fmt: skip
COMPARE = {
    ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"), ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
PAIRS = "maximum minimum, max min, argmax argmin, any all, log log1p, exp expm1, zeros ones, floor ceil"
SWAPS = dict(pair for a, b in (p.split() for p in PAIRS.split(", ")) for pair in ((a, b), (b, a)))
UNWRAPPED = {"abs", "sqrt"}  # f(x) becomes x
HIDDEN = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
SILENT = {"__str__", "__repr__"}


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes [begin, end) of `path` become `new`."""

    path: str
    function: str  # qualified name, or <module>
    change: str
    occurrence: int  # among the same changes of the same function
    line: int
    begin: int
    end: int
    new: str

    @property
    def name(self) -> str:
        """What it is called: the same as long as its function is not rewritten."""
        return f"{self.path}:{self.function}:{self.change}:{self.occurrence}"

    def applied(self, source: bytes) -> bytes:
        """Returns the mutated source."""
        return source[: self.begin] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Returns all mutants of a source text, in the order of their places."""
    seen, count, result = {source}, Counter(), []
    for function, change, line, begin, end, new in _Walk(source).module():
        mutant = Mutant(path, function, change, count[function, change], line, begin, end, new)
        count[function, change] += 1
        text = mutant.applied(source)
        if text not in seen:
            seen.add(text)
            result.append(mutant)
    return result


class _Walk:
    """One pass over the tree; yields (change, node's first line, begin, end, new text)."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self.starts = [0, *itertools.accumulate(lengths)]

    def module(self) -> Iterator[tuple]:
        tree = ast.parse(self.source)
        yield from self._body(tree, "<module>")

    def _body(self, scope, name: str) -> Iterator[tuple]:
        inner = [n for n in _nodes(scope) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        yield from ((name, *found) for found in self._scope(scope))
        for node in inner:
            if node.name not in SILENT:
                yield from self._body(node, node.name if name == "<module>" else f"{name}.{node.name}")

    def _scope(self, scope) -> Iterator[tuple]:
        bound = {a.arg for a in ast.walk(scope) if isinstance(a, ast.arg)} if _is_function(scope) else set()
        for node in _nodes(scope):
            if isinstance(node, ast.stmt):
                yield from self._statement(node, scope, bound)
            elif isinstance(node, ast.expr):
                yield from self._expression(node)

    # Places.

    def span(self, node: ast.AST) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return begin, self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.source[begin:end].decode()

    def _put(self, change: str, node: ast.AST, new: str) -> tuple:
        return (change, node.lineno, *self.span(node), new)  # type: ignore[attr-defined]

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> tuple:
        """Returns the change of the operator that stands between two operands."""
        begin, end = self.span(left)[1], self.span(right)[0]
        place = self.source.index(old.encode(), begin, end)
        line = self.source.count(b"\n", 0, place) + 1
        return (f"{old} to {new}", line, place, place + len(old), new)

    # Changes.

    def _statement(self, node: ast.stmt, scope, bound: set[str]) -> Iterator[tuple]:
        again = isinstance(node, ast.AugAssign)
        if isinstance(node, ast.Assign):
            names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            kept = any(isinstance(t, ast.Subscript | ast.Attribute) for t in node.targets)
            again = kept or (bool(names) and bound.issuperset(names))
            bound.update(names)
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        early = isinstance(node, ast.Return | ast.Raise) and node is not getattr(scope, "body", [None])[-1]
        if again or call or early or isinstance(node, ast.Break | ast.Continue):
            yield self._put(f"no {type(node).__name__.lower()}", node, "pass")
        if isinstance(node, ast.AugAssign) and type(node.op) in BINARY:
            old, new = BINARY[type(node.op)].split()
            yield self._between(node.target, node.value, f"{old}=", f"{new}=")
        if isinstance(node, ast.If | ast.While):
            yield from self._negation(node.test)

    def _negation(self, test: ast.expr) -> Iterator[tuple]:
        """Negates what is no comparison and no `not`: those have changes of their own."""
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield self._put("negated", test, f"not ({self.text(test)})")

    def _expression(self, node: ast.expr) -> Iterator[tuple]:
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            yield self._between(node.left, node.right, *BINARY[type(node.op)].split())
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in itertools.pairwise(node.values):
                yield self._between(left, right, old, new)
        elif isinstance(node, ast.Compare):
            operands = itertools.pairwise([node.left, *node.comparators])
            for (left, right), op in zip(operands, node.ops, strict=True):
                old, *others = COMPARE[type(op)]
                yield from (self._between(left, right, old, new) for new in others)
        elif isinstance(node, ast.UnaryOp):
            sign = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}[type(node.op)]
            yield self._put(f"no {sign}", node, f"({self.text(node.operand)})")
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.IfExp):
            yield from self._negation(node.test)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Subscript):
            yield from self._index(node.slice)

    def _constant(self, node: ast.Constant) -> Iterator[tuple]:
        value, text = node.value, self.text(node)
        if isinstance(value, bool):
            yield self._put(f"{value} to {not value}", node, str(not value))
        elif isinstance(value, int):
            yield self._put("constant + 1", node, str(value + 1))
            yield self._put("constant - 1", node, str(value - 1) if value else "(-1)")
        elif isinstance(value, float):
            yield self._put("constant + 1", node, repr(value + 1))
            if value:
                yield self._put("10 constant", node, repr(10 * value))
                yield self._put("- constant", node, f"(-{text})")

    def _call(self, node: ast.Call) -> Iterator[tuple]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        end = self.span(node.func)[1]
        if name in SWAPS:
            yield (f"{name} to {SWAPS[name]}", node.func.end_lineno, end - len(name), end, SWAPS[name])
        if name in UNWRAPPED and len(node.args) == 1:
            yield self._put(f"no {name}", node, f"({self.text(node.args[0])})")
        if name == "copy" and isinstance(node.func, ast.Attribute) and not node.args:
            yield self._put("no copy", node, self.text(node.func.value))
        if name == "range":
            yield from (self._off_by_one(arg, "- 1") for arg in node.args if not _is_number(arg))

    def _index(self, index: ast.expr) -> Iterator[tuple]:
        """Moves the bounds of slices, and indices that are loop variables by their one-letter names."""
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if isinstance(part, ast.Slice):
                ends = [e for e in (part.lower, part.upper) if e is not None and not _is_number(e)]
                yield from (self._off_by_one(end, "+ 1") for end in ends)
            elif isinstance(part, ast.Name) and len(part.id) == 1:
                yield self._off_by_one(part, "- 1")

    def _off_by_one(self, node: ast.expr, by: str) -> tuple:
        return self._put(f"index {by}", node, f"{self.text(node)} {by}")


def _nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Returns what a scope executes, without the insides of functions and classes and without texts."""
    stack = _children(scope)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*HIDDEN, ast.FunctionDef, ast.ClassDef)):
            stack += _children(node)


def _children(node: ast.AST) -> list[ast.AST]:
    """Returns the parts of a node, last first, without annotations, decorators and what is for readers."""
    hidden = [getattr(node, name, None) for name in ("returns", "annotation")]
    hidden += getattr(node, "decorator_list", [])
    parts = [n for n in ast.iter_child_nodes(node) if not any(n is h for h in hidden)]
    return [n for n in parts if not _is_for_readers(n)][::-1]


def _is_for_readers(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.arg) or (
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef)


def _is_number(node: ast.expr) -> bool:
    """Whether the node is a constant, a sign before it or not: those have changes of their own."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)
