"""The picture of the data flow: from models, environments and data sets to results.

Boxes are values or steps, with the file that holds them; arrows show what is passed. It is inline SVG in the
colours of the page, light or dark.
"""

from __future__ import annotations

from typing import NamedTuple

WIDE, HIGH = 154, 52


class Box(NamedTuple):
    """One box: where its left upper corner is, what it is, and where to find it."""

    x: int
    y: int
    title: str
    place: str
    kind: str  # given, value, step, result


BOXES = {
    "model": Box(10, 40, "a model", "P, or a Gymnasium table", "given"),
    "wish": Box(10, 120, "what matters", "rho, mu", "given"),
    "env": Box(10, 290, "an environment", "Gymnasium", "given"),
    "data": Box(10, 480, "a data set", "Minari, Parquet, NPZ, CSV", "given"),
    "mdp": Box(206, 40, "MDP", "mdp.py", "value"),
    "coverage": Box(206, 120, "Coverage", "coverage.py", "value"),
    "members": Box(402, 40, "Occupancies", "occupancy.py", "value"),
    "solver": Box(598, 40, "interior point", "planning/newton.py", "step"),
    "proof": Box(598, 120, "certificate", "planning/program.py", "step"),
    "plan": Box(794, 80, "Plan", "planning/result.py", "result"),
    "belief": Box(402, 220, "belief", "exploring/belief/", "value"),
    "explorer": Box(598, 220, "explorer", "policy(state) → block", "step"),
    "codes": Box(206, 290, "state encodings", "environments/encoding/", "step"),
    "world": Box(598, 360, "world", "simulator, environment", "step"),
    "visits": Box(402, 360, "visits", "counts, moves", "value"),
    "run": Box(794, 220, "Run", "exploring/runs/result.py", "result"),
    "disk": Box(794, 290, "checkpoints", "exploring/runs/checkpoint.py", "result"),
    "collection": Box(794, 360, "Collection", "collecting/", "result"),
    "tally": Box(206, 480, "Tally", "datasets/tally.py", "value"),
    "observed": Box(402, 480, "observed model", "datasets/empirical_model.py", "value"),
    "union": Box(598, 480, "union program", "planning/union.py", "step"),
    "audit": Box(794, 450, "Audit", "datasets/audit.py", "result"),
    "top_up": Box(794, 520, "TopUp", "collecting/top_up.py", "result"),
}
ARROWS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((164, 66), (206, 66)),  # model → MDP
    ((164, 146), (206, 146)),  # what matters → Coverage
    ((360, 66), (402, 66)),  # MDP → Occupancies
    ((556, 66), (598, 66)),  # Occupancies → interior point
    ((360, 146), (577, 146), (577, 78), (598, 78)),  # Coverage → interior point
    ((675, 92), (675, 120)),  # interior point → certificate
    ((752, 66), (773, 66), (773, 98), (794, 98)),  # interior point → Plan
    ((752, 146), (773, 146), (773, 114), (794, 114)),  # certificate → Plan
    ((871, 132), (871, 190), (479, 190), (479, 220)),  # Plan → belief
    ((556, 246), (598, 246)),  # belief → explorer
    ((675, 272), (675, 360)),  # explorer → world
    ((598, 386), (556, 386)),  # world → visits
    ((479, 360), (479, 272)),  # visits → belief
    ((752, 246), (794, 246)),  # explorer → Run
    ((752, 254), (773, 254), (773, 316), (794, 316)),  # explorer → checkpoints
    ((752, 386), (794, 386)),  # world → Collection
    ((164, 316), (206, 316)),  # environment → codes
    ((283, 342), (283, 432), (675, 432), (675, 412)),  # codes → world
    ((164, 506), (206, 506)),  # data set → Tally
    ((360, 506), (402, 506)),  # Tally → observed model
    ((556, 506), (598, 506)),  # observed model → union program
    ((479, 480), (479, 458), (773, 458), (773, 476), (794, 476)),  # observed model → Audit
    ((752, 506), (773, 506), (773, 546), (794, 546)),  # union program → TopUp
)
ROWS = ((10, 24, "plan"), (10, 214, "explore, collect"), (10, 464, "audit, top up"))
NOTES = (
    (683, 320, "a block of steps"),
    (487, 320, "what was visited"),
    (600, 183, "d*, policy, potential"),
)


def dataflow() -> str:
    """Returns the picture with its caption."""
    return f"```{{raw}} html\n<figure class='dataflow'>\n{_svg()}\n{_caption()}\n</figure>\n```"


def _svg() -> str:
    label = (
        "Data flow from models, environments and data sets to plans, runs, collections, audits and top-ups"
    )
    parts = [*map(_arrow, ARROWS), *map(_box, BOXES.values())]
    parts += [f"<text class='row' x='{x}' y='{y}'>{text}</text>" for x, y, text in ROWS]
    parts += [f"<text class='note' x='{x}' y='{y}'>{text}</text>" for x, y, text in NOTES]
    head = (
        "<marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
    )
    return (
        f"<svg viewBox='0 0 958 584' role='img' aria-label='{label}'>"
        f"<defs>{head}<path d='M0 0 8 4 0 8z'/></marker></defs>{''.join(parts)}</svg>"
    )


def _box(box: Box) -> str:
    middle = box.x + WIDE / 2
    return (
        f"<g class='{box.kind}'><rect x='{box.x}' y='{box.y}' width='{WIDE}' height='{HIGH}' rx='7'/>"
        f"<text class='name' x='{middle:g}' y='{box.y + 22}'>{box.title}</text>"
        f"<text class='place' x='{middle:g}' y='{box.y + 40}'>{box.place}</text></g>"
    )


def _arrow(points: tuple[tuple[int, int], ...]) -> str:
    return f"<polyline points='{' '.join(f'{x},{y}' for x, y in points)}' marker-end='url(#tip)'/>"


def _caption() -> str:
    return (
        "<figcaption>Inputs are on the left, results on the right. Exploring is a loop: the belief is what "
        "is known of the model, the explorer turns it into a block of steps, the world takes these steps, "
        "and the visits update the belief.</figcaption>"
    )
