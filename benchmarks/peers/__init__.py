"""Side by side with what people use instead: a module for each comparison, one run, ratios, failures.

Each module has TITLE and QUESTION, `measure(short)` that returns plain values for JSON, `section(result)`
that returns Markdown whose every number comes from them, and `draw(result, folder)` for the pictures.

A row that compares has `case`, `peer`, `ours`, `theirs` and `ratio` = theirs/ours of one quantity of which
less is better, so that a ratio above 1 means that this library is ahead. `failure` says why the peer has no
number, `verdict` overrules the ratio where chance decides, `why` gives the reason where we are behind.
"""

NAMES = ("planner", "growth", "oracle", "simulator", "explorers", "audit")
