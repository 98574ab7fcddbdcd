r"""Equations of docstrings, typeset: `mu_i^rho d_i^(1-rho) <= <g, d>` becomes LaTeX.

Docstrings are read in an editor and in a terminal, so they write mathematics with the keyboard. The rules are
those of the house: Greek letters by name, `_hat` and `bar` for accents, `d*` for an optimum, `K'` for a
transpose, `^(...)` for an exponent, two or more spaces between parts of a line. A block that is no equation,
such as a list of files, has no LaTeX and stays as it is.
"""

from __future__ import annotations

import re

GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "phi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi",
    "Sigma", "Phi", "Psi", "Omega",
)  # fmt: skip
FUNCTIONS = ("log", "exp", "max", "min")
NAMED = ("diag", "tr", "KL", "var", "ceil", "Breg", "Var", "softmax", "argmax", "argmin")
SIGNS = {
    ">=": r"\ge ", "<=": r"\le ", "!=": r"\ne ", "->": r"\to ", "||": r"\,\Vert\,", "|": r"\mid ",
    "~": r"\approx ", "\u00b1": r"\pm ", "*": r"^\star ", "{": r"\{", "}": r"\}", "<": r"\langle ",
    ">": r"\rangle ",
}  # fmt: skip
MOST_WORDS = 6  # in a block: one with more is a sentence that has formulas in it
RELATION = re.compile(r"=|<=|>=|~|->")
LISTING = re.compile(
    r"\.\w{4,}|^\s*[\w-]+\s{3,}\w+ \w+|\[L11|\.\.\.|//|`|\*\w+\*|\(\)|=\"|U\^\(", re.MULTILINE
)  # names of files, columns, code, drawings; U^(g), a conjugate, is no power
TOKEN = re.compile(
    r"(?P<gap>[ ]{2,})|(?P<space>[ ])|(?P<name>[A-Za-z]+\d*)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<sign>>=|<=|!=|->|\|\||[-+=/()\[\]{},.:;|~*<>'^_%!\u00b1])"
)


def equation(lines: list[str]) -> list[str] | None:
    """Returns the LaTeX of each line of an equation; None for a block that is none."""
    text = "\n".join(lines)
    if not RELATION.search(text) or LISTING.search(text):
        return None
    found = [line for line in map(latex, map(str.strip, lines)) if line is not None]
    is_prose = sum(line.count(r"\text{") for line in found) > MOST_WORDS
    return None if len(found) < len(lines) or is_prose else found


def latex(line: str) -> str | None:
    """Returns one line as LaTeX; None if there is a character that it does not know."""
    tokens, end = [], 0
    for token in TOKEN.finditer(line):
        if token.start() != end:
            return None
        tokens.append((token.lastgroup or "", token[0]))
        end = token.end()
    return "".join(_Writer(tokens).written()) if end == len(line) else None


class _Writer:
    """Goes through the tokens of a line from left to right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens, self.place = tokens, 0

    def written(self) -> list[str]:
        result: list[str] = []
        while self.place < len(self.tokens):
            result.append(self.next())
        return result

    def peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place][1] if 0 <= place < len(self.tokens) else ""

    def next(self) -> str:
        """Returns the LaTeX of the next token, with what belongs to it."""
        kind, text = self.tokens[self.place]
        self.place += 1
        if kind == "gap":
            is_aligned = {self.peek(), self.peek(-2)} & {"=", "<=", ">="}
            return " " if is_aligned else r"\qquad "
        if kind == "name":
            return self.name(text)
        if kind == "space":
            return r"\ " if is_word(self.peek(-2)) or is_word(self.peek()) else " "
        if text in "_^" and self.peek():
            return text + "{" + self.group() + "}"
        if text == "'":
            return self.prime()
        if text in "<>":
            return self.bracket(text)
        if text == "|" and " " not in (self.peek(), self.peek(-2)):
            return text
        if text == "*" and self.peek(-2) == "(":
            return r"\ast "
        return SIGNS.get(text, text)

    def group(self) -> str:
        """Returns a subscript or an exponent: a name or a number with its sign, or what is in brackets."""
        if self.peek() in ("(", "{"):
            return self.enclosed()
        sign = "-" if self.peek() == "-" else ""
        self.place += len(sign)
        kind, text = self.tokens[self.place]
        self.place += 1
        shown = letters(text) if kind == "name" else SIGNS.get(text, text)
        if self.peek() == "'" and text == "s":
            self.place += 1
            shown += "'"
        if self.peek() == "_":  # of the index itself: E_alpha_j
            self.place += 1
            shown += "_{" + self.group() + "}"
        return sign + shown

    def enclosed(self) -> str:
        """Returns what stands between a bracket and its end, without them."""
        self.place += 1
        result, depth = [], 1
        while self.place < len(self.tokens):
            depth += (self.peek() in ("(", "{")) - (self.peek() in (")", "}"))
            if depth == 0:
                self.place += 1
                break
            result.append(self.next())
        return "".join(result)

    def name(self, text: str) -> str:
        if text == "sqrt" and self.peek() == "(":
            return r"\sqrt{" + self.enclosed() + "}"
        if text in ("sum", "prod"):
            return rf"\{text}" + ("" if self.peek() == "_" else " ")
        if self.peek() == "_" and self.peek(1) == "hat":
            self.place += 2
            return rf"\hat{{{letters(text)}}}"
        if text == "in" and self.peek(-2) == " " and self.peek() == " ":
            return r"\in "
        if self.peek() == "*":
            self.place += 1
            star = rf"{letters(text)}^{{\star}}"
            return f"({star})" if self.peek() == "^" else f"{{{star}}}"
        is_code = is_word(text)
        while is_code and self.peek() == "_" and len(self.peek(1)) > 1:
            text += f"_{self.peek(1)}"
            self.place += 2
        return letters(text)

    def prime(self) -> str:
        """Returns a transpose after a matrix or a dual vector, and a prime after a state or an occupancy."""
        before = self.peek(-2)
        return "'" if before in ("s", "d", "rho") else r"^\top "

    def bracket(self, text: str) -> str:
        is_angle = self.peek() not in (" ", "=") if text == "<" else self.peek(-2) != " "
        return SIGNS[text] if is_angle else text


def letters(text: str) -> str:
    """Returns a name: Greek, a function, an accent, one letter, or a word."""
    base = text.removesuffix("bar")
    if base != text and (base in GREEK or len(base) == 1):
        return rf"\bar{{{letters(base)}}}"
    if text in GREEK or text in FUNCTIONS:
        return rf"\{text} "
    if text in NAMED:
        return rf"\operatorname{{{text}}}"
    if len(text) == 1:
        return text
    if re.fullmatch(r"[A-Za-z]\d+", text):
        return f"{{{text[0]}_{{{text[1:]}}}}}"
    if text == "dnu":
        return r"\Delta\nu "
    return " ".join(text) if text.isupper() else rf"\text{{{text}}}"


def is_word(text: str) -> bool:
    """Whether a name is a word of English or of the code."""
    return text.isalpha() and text not in ("sum", "prod", "sqrt", "in") and letters(text).startswith(r"\text")
