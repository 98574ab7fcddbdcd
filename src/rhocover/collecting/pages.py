"""The page of a collection: its datasheet, to be read by people."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rhocover.collecting.collection import Collection
from rhocover.errors import shortened
from rhocover.report.pages import Page, Section, ratio_words, section, terms
from rhocover.report.pages.audit import page_of_audit


def page_of_collection(found: Collection) -> Page:
    """Returns the datasheet of a collection as a page: the audit of its data, and how it came to be."""
    page = page_of_audit(found.audit, command=found.datasheet["repeat"])
    page = page.with_sections(*_remarks(found), _origin(found))
    return replace(page, kind="Datasheet of a data set", title=f"{found.dataset_id}: {page.title}")


def _remarks(found: Collection) -> list[Section]:
    """Returns what the figures take for granted and is not so."""
    told = found.datasheet.get("remarks", [])
    return [section("What the figures do not mean", *told)] if told else []


def _origin(found: Collection) -> Section:
    """Returns who collected it, where, and with what."""
    settings, versions = found.datasheet["settings"], found.datasheet["versions"]
    random = found.datasheet["uniform_random_worst_ratio"]
    entries = [
        ("environment", _environment(settings["environment"])),
        ("explorer", settings["algorithm"]),
        ("dynamics", "known from the environment's table" if settings["model"] == "known" else "learned"),
        ("weights", settings["mu"] if isinstance(settings["mu"], str) else json.dumps(settings["mu"])),
        ("steps", f"{settings['num_steps']:,}"),
        ("seed", str(settings["seed"])),
        ("states", _words(settings["states"])),
        ("actions", _words(settings["actions"])),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]
    if random is not None:
        entries.insert(2, ("worst ratio of random actions", ratio_words(float(random))))
    return section("How it was collected", terms(entries))


def _environment(spec: str) -> str:
    """Returns the id of an environment and its arguments."""
    try:
        document = json.loads(spec)
        given = ", ".join(f"{key}={value!r}" for key, value in document.get("kwargs", {}).items())
        return f"{document['id']}({given})" if given else str(document["id"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return spec


def _words(document: Any) -> str:
    """Returns what a code says of itself in one line."""
    return ", ".join(f"{key} {shortened(value, 2000)}" for key, value in dict(document).items())
