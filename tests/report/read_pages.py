"""The kinds of pages that tests look at, a text that must not be obeyed, and a reader of documents."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

import rhocover as rc

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>\'"&--><style>*{display:none}</style>'
KINDS = ("plan", "plans", "run", "incomplete", "learned", "comparison", "audit", "evil")


class Seen(HTMLParser):
    """What a document holds, as a browser would read it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]


def evil_model() -> rc.MDP:
    P = rc.envs.river_swim(num_states=3).dense()
    names = [f"{EVIL}{k}" for k in range(3)]
    return rc.MDP(P, state_labels=names, action_labels=[EVIL, f"b{EVIL}"], name=EVIL)


def walked(mdp: rc.MDP, num_steps: int):
    """Returns the columns of a data set that a uniformly random policy collected."""
    rng, P, state, rows = np.random.default_rng(0), mdp.dense(), 0, []
    for _ in range(num_steps):
        action = int(rng.integers(mdp.num_actions))
        after = int(rng.choice(mdp.num_states, p=P[state, action]))
        rows.append((state, action, after, False))
        state = after
    return tuple(np.array(column) for column in zip(*rows, strict=True))
