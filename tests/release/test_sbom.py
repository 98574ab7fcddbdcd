"""The lists of licences and components are those of the locks, and no licence asks for more than a notice."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release import licences, locks, sbom
from tools.release.locks import ROOT

KNOWN = licences.known()["packages"]
# What packages call their licences where they give no SPDX expression.
CALLED = {
    "MIT": r"\bMIT\b",
    "BSD-3-Clause": r"\bBSD\b|Redistribution and use",
    "BSD-2-Clause": r"\bBSD\b",
    "Apache-2.0": r"Apache",
    "PSF-2.0": r"Python Software Foundation",
    "ISC": r"\bISC\b",
    "MPL-2.0": r"Mozilla Public License 2|MPL-2",
}


def listed() -> dict[str, locks.Package]:
    found = locks.runtime() | locks.build_tools()
    for extra in locks.EXTRAS:
        found |= locks.extra(extra)
    return found


def purls(scope: str) -> set[str]:
    return {part["purl"] for part in sbom.document()["components"] if part["scope"] == scope}


# Written files.


def test_licences_and_components_are_written_beside_the_wheel(tmp_path):
    licences.write(tmp_path)
    sbom.write(tmp_path)
    assert (tmp_path / licences.NAME).read_text("utf-8") == licences.page()
    assert json.loads((tmp_path / sbom.NAME).read_text("utf-8")) == sbom.document()
    assert "release.licences dist" in (ROOT / "Makefile").read_text("utf-8")
    assert "release.sbom dist" in (ROOT / "Makefile").read_text("utf-8")


# Licences.


def test_everybody_gets_permissive_licences_only():
    packages = locks.runtime() | {name: p for extra in locks.EXTRAS for name, p in locks.extra(extra).items()}
    assert len(packages) > 30
    wrong = {
        name: KNOWN[name] for name in packages if not licences.is_allowed(KNOWN[name], licences.PERMISSIVE)
    }
    assert wrong == licences.UNCHANGED
    assert not set(wrong) & set(locks.runtime())
    tools = [
        name for name in locks.build_tools() if not licences.is_allowed(KNOWN[name], licences.FOR_BUILDING)
    ]
    assert tools == []


@pytest.mark.parametrize(
    ("expression", "is_fine"),
    [
        ("GPL-3.0-only", False),
        ("MIT AND GPL-2.0-or-later", False),
        ("LGPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MPL-2.0", False),
        ("BSD-3-Clause AND MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("", False),
    ],
)
def test_a_licence_that_asks_for_more_is_refused(expression, is_fine):
    assert licences.is_allowed(expression, licences.PERMISSIVE) == is_fine


def test_a_package_without_a_known_licence_is_refused_with_what_to_do():
    with pytest.raises(SystemExit, match=r"licences\.toml lacks left-pad"):
        licences.licence_of("left-pad")


def test_the_table_lists_what_the_locks_pin_and_no_more():
    assert set(KNOWN) == set(listed())
    assert set(licences.known()["remarks"]) <= set(KNOWN)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_package_says_the_licence_that_the_table_does(name):
    """Packages that are not installed here are looked at where they are."""
    try:
        told: Any = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    if told.get("License-Expression"):
        assert told["License-Expression"] == KNOWN[name]
        return
    words = [
        told.get("License") or "",
        *(c for c in told.get_all("Classifier") or [] if c.startswith("License ::")),
    ]
    assert re.search(CALLED[KNOWN[name]], " ".join(words)), words
    assert not re.search(r"\bA?GPL|GNU (Affero )?General Public", " ".join(words[1:])), words


# Components.


def test_everybody_gets_what_the_lock_pins_but_for_the_tools():
    pinned = {f"pkg:pypi/{name}@{package.version}" for name, package in locks.read_lock("run").items()}
    assert purls("required") | purls("excluded") == pinned
    assert purls("required").isdisjoint(purls("excluded"))
    assert {purl.split("@")[0] for purl in purls("excluded")} >= {"pkg:pypi/hatchling", "pkg:pypi/editables"}
    assert any(purl.startswith("pkg:pypi/numpy@") for purl in purls("required"))
    assert any(
        purl.startswith("pkg:pypi/packaging@") for purl in purls("required")
    )  # matplotlib's, and a tool's


def test_every_extra_that_users_have_is_in_the_lists_with_all_it_names():
    """Read from pyproject.toml itself, so that a new extra, or a new package of one, cannot be left out."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(locks.EXTRAS) == set(declared) - {"bench", "docs", "test"}  # those are for developers
    parts = {part["name"]: part for part in sbom.document()["components"]}
    for extra in locks.EXTRAS:
        for name in (re.match(r"[\w.-]+", line)[0] for line in declared[extra]):
            assert parts[name]["scope"] == "required" or parts[name]["properties"] == [
                {"name": "rhocover:extra", "value": extra}
            ]


def test_what_stable_baselines_brings_is_listed_down_to_torch_and_what_torch_needs():
    found = locks.extra("sb3")
    assert {"stable-baselines3", "torch", "sympy", "networkx", "jinja2", "fsspec", "filelock"} <= set(found)
    assert all(name in found or name in locks.runtime() for name in pins_of("sb3"))
    for name, children in locks.needs().items():
        assert set(children) <= set(found) | set(locks.runtime()), name
    assert f"torch=={found['torch'].version}" in (ROOT / "Makefile").read_text("utf-8")
    graph = {entry["ref"]: entry["dependsOn"] for entry in sbom.document()["dependencies"]}
    torch = f"pkg:pypi/torch@{found['torch'].version}"
    assert len(graph[torch]) == len(locks.needs()["torch"])
    page = licences.page().split("extra `sb3`")[1].split("##")[0]
    assert all(f"| {name} |" in page for name in found)


def pins_of(name):
    return set(
        re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / f"{name}.txt").read_text("utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("name", sorted(locks.needs()))
def test_what_stands_in_no_lock_needs_what_its_metadata_says(name):
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    told = [Requirement(line) for line in lines]
    needed = {canonicalize_name(r.name) for r in told if r.marker is None or r.marker.evaluate({"extra": ""})}
    assert needed == set(locks.needs()[name])


def test_hashes_are_those_of_the_lock():
    text = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    told = {
        h["content"]
        for part in sbom.document()["components"]
        if part["scope"] != "optional"
        for h in part["hashes"]
    }
    assert told == set(re.findall(r"sha256:([0-9a-f]{64})", text))


def test_every_component_is_reached_from_the_project_unless_it_only_builds():
    document = sbom.document()
    graph = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    found, waiting = set(), {document["metadata"]["component"]["bom-ref"]}
    while waiting:
        found |= waiting
        waiting = {child for ref in waiting for child in graph[ref]} - found
    assert purls("required") | purls("optional") <= found
    assert not purls("excluded") & found


def test_the_document_says_nothing_of_times_or_places():
    text = json.dumps(sbom.document())
    assert not re.search(r"://|timestamp|serialNumber|\.(org|com|net|io)\b", text)


def test_the_document_is_valid_cyclonedx():
    validation = pytest.importorskip(
        "cyclonedx.validation.json", reason="cyclonedx-python-lib is not installed"
    )
    from cyclonedx.schema import SchemaVersion

    validator = validation.JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(sbom.document())) is None
    broken = sbom.document() | {"components": [{"type": "library"}]}
    assert validator.validate_str(json.dumps(broken)) is not None


def test_closure_follows_who_asked_for_whom():
    def package(name, *parents):
        return locks.Package(name, "1", (), parents, False)

    chain = {
        p.name: p for p in (package("a", "rhocover"), package("b", "a"), package("c", "b"), package("d", "x"))
    }
    assert locks.closure(chain, {"a"}) == {"a", "b", "c"}
