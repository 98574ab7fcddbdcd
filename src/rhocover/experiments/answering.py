"""The runs of a question as a function of their place, for this process and for others.

In this process the question is the caller's own. Others receive it in plain values (`Question.plain`), once
each, and what they make of it answers the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rhocover.experiments.question import Place, Question
from rhocover.experiments.runs import Failure, Outcome, run_one


@dataclass(frozen=True, eq=False)
class Answering:
    """Answers a question place by place."""

    question: Question

    def __call__(self, place: Place) -> Outcome | Failure:
        """Returns the outcome of the run at a place, or why there is none."""
        return run_one(self.question, place)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_plain, (self.question.plain(),)


def _from_plain(plain: Mapping[str, Any]) -> Answering:
    return Answering(Question.from_plain(plain))
