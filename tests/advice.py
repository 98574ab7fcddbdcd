"""Reading the advice in an error message of the command line, and following it to the letter.

`followed(line, message)` returns the command line that a user would type next: the command that the message
prints, the option that it says to pass, a value that it allows, or the line without what it says to leave out.
It knows nothing about commands, so advice that it cannot read is advice that a user would have to guess.
"""

from __future__ import annotations

import re
import shlex

COMMANDS = "plan|explore|resume|compare|collect|top-up|audit|budget|envs|explorers|reproduce"
OPTION, VALUE = r"--[a-z][a-z-]*", r"(?!(?:to|or|and|for|if)\b)[^\s,;)`-][^\s,;)`]*"
SETTINGS = re.compile(rf"\b(?:[Pp]ass|[Uu]se|[Ss]uch as|needs) ((?:{OPTION}(?: {VALUE})? ?)+)")


def followed(line: str, message: str) -> str:
    """Returns the line that the message advises; raises if it cannot be read from the message."""
    words, text = shlex.split(line), message.partition(" Try: ")[0]
    ways = (_command, _parameter, _meant, _without, _settings, _such_as, _within, _known)
    for way in ways:
        if (found := way(words, text)) is not None:
            return shlex.join(found)
    raise AssertionError(f"no advice in: {message}")


def _command(words: list[str], text: str) -> list[str] | None:
    """Another command, as it is printed."""
    found = re.search(rf"rhocover (?:{COMMANDS})\b(?: [^\s,;`)]+)*", text)
    is_hint = found is None or text[: found.start()].endswith("Did you mean ")
    return None if is_hint else shlex.split(found[0].rstrip("."))[1:]


def _parameter(words: list[str], text: str) -> list[str] | None:
    """The first parameter that a model has, instead of those that were given."""
    found = re.search(r"Parameters of [^:]*: (\w+=[^\s,]*[^\s,.])", text)
    while found and "--set" in words:
        words = _removed(words, "--set")
    return [*words, "--set", found[1]] if found else None


def _meant(words: list[str], text: str) -> list[str] | None:
    """Another spelling: of an option, of a command, or of the value that the message quotes."""
    found = re.search(r"Did you mean (?:rhocover )?('[^']*'|[^\s?,]+)", text)
    if not found:
        return None
    before = text[: found.start()]
    wrong = re.findall(r"'([^']+)'", before) or re.findall(r"--?[a-z][a-z-]*", before)
    return _replaced(words, wrong, found[1].strip("'"))


def _without(words: list[str], text: str) -> list[str] | None:
    """No option, argument or second value where there should be none."""
    found = re.search(
        rf"[Ll]eave (?:(it)|[`']?({OPTION}|[\w.-]+)[`']?) out|[Gg]ive (it) (?:only )?once", text
    )
    if not found or found[2] == "them":
        return None
    named = [found[2]] if found[2] else re.findall(OPTION, text) or re.findall(r"'([^']+)'", text)
    return _removed(words, named[0])


def _settings(words: list[str], text: str) -> list[str] | None:
    """One option or several."""
    found = SETTINGS.search(text)
    if not found:
        return None
    for option, value in re.findall(rf"({OPTION})(?: ({VALUE}))?", found[1]):
        words = _set(words, option, value.rstrip("."))
    return words


def _such_as(words: list[str], text: str) -> list[str] | None:
    """An argument that was missing, or the value of an option that could not be read."""
    missing = re.search(r"is missing, such as (.*?)\.(?: |$)", text)
    if missing:
        return [words[0], *shlex.split(missing[1]), *words[1:]]
    found = re.search(r"such as '?([^\s,;']+?)'?[.,;]?(?:\s|$)", text)
    option = re.search(OPTION, text[: found.start()]) if found else None
    return _set(words, option[0], found[1]) if found and option else None


WITHIN = {
    r"next multiple is (\d+)": "", r"at least (\d+)": "", r"at most ([\d.]+)": "", r"state in (\d+)\.\.": "",
    r"in \[([\d.]+), ": "", r"in \((0), (?:1|inf)\)": "0.5", r"must be (positive)": "1", r"(0) or more": "",
}  # fmt: skip


def _within(words: list[str], text: str) -> list[str] | None:
    """A value that is allowed."""
    option = re.search(OPTION, text)
    for pattern, value in WITHIN.items():
        if option and (found := re.search(pattern, text)):
            return _set(words, option[0], value or found[1].rstrip("."))
    return None


def _known(words: list[str], text: str) -> list[str] | None:
    """The first of the values that are known, or data that is there."""
    if there := re.search(r"There is data in '([^']+)'", text):
        return [words[0], there[1], *words[2:]]
    found = re.search(r"Known: ([^\s,;]*[^\s,;.])", text)
    wrong = re.findall(r"'([^']+)'", text[: found.start()]) if found else []
    return _replaced(words, wrong, found[1]) if found and wrong else None


def _replaced(words: list[str], wrong: list[str], right: str) -> list[str]:
    """Returns the line with a word, or a part of one, replaced."""
    for old in wrong:
        for k, word in enumerate(words):
            if re.search(rf"(?<![\w-]){re.escape(old)}(?![\w-])", word):
                return [*words[:k], word.replace(old, right, 1), *words[k + 1 :]]
    raise AssertionError(f"{wrong} is not in {words}")


def _set(words: list[str], option: str, value: str) -> list[str]:
    """Returns the line with one value of an option."""
    is_there = any(word.partition("=")[0] == option for word in words)
    rest = _removed(words, option) if is_there else words
    return [*rest, option, value] if value else [*rest, option]


def _removed(words: list[str], name: str) -> list[str]:
    """Returns the line without an option and its value, or without an argument."""
    k = next((k for k, word in enumerate(words) if name in (word, word.partition("=")[0])), None)
    assert k is not None, f"{name} is not in {words}"
    has_value = (
        words[k] == name and name.startswith("-") and not "".join(words[k + 1 : k + 2]).startswith("--")
    )
    return [*words[:k], *words[k + 1 + has_value :]]
