"""Writes sbom.cdx.json: the components of rhocover as a CycloneDX 1.6 document.

    python -m tools.release.sbom FOLDER

Everything in it follows from the locks, so the same locks give the same bytes: there is no time, no random
serial number and no word of where packages were fetched. The hashes of a component are those of the files
that its lock admits, wheels and source; what stands in no lock (torch and what it needs) has none, and no
version where nothing pins it. `required` comes with every installation, `optional` with an
extra, `excluded` only builds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.release.licences import licence_of
from tools.release.locks import EXTRAS, PROJECT, ROOT, Package, build_tools, extra, needs, runtime

NAME = "sbom.cdx.json"


def document() -> dict[str, Any]:
    """Returns the document, components in order of their names."""
    found = {
        package.name: (f"optional, extra {name}", package)
        for name in reversed(EXTRAS)
        for package in extra(name).values()
    }
    extras = list(found.values())  # one that several extras bring is that of the first
    scoped = [("required", package) for package in runtime().values()]
    scoped += [*extras, *(("excluded", package) for package in build_tools().values())]
    scoped.sort(key=lambda pair: pair[1].name)
    packages = [package for _, package in scoped]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _self()},
        "components": [_component(scope, package) for scope, package in scoped],
        "dependencies": [
            {"ref": _purl(PROJECT, _version()), "dependsOn": _children(PROJECT, packages)},
            *({"ref": _ref(p), "dependsOn": _children(p.name, packages)} for p in packages),
        ],
    }


def _version() -> str:
    text = (ROOT / "src" / "rhocover" / "_version.py").read_text("utf-8")
    return text.split('__version__ = "')[1].split('"')[0]


def _self() -> dict[str, Any]:
    purl = _purl(PROJECT, _version())
    return {
        "type": "library", "bom-ref": purl, "name": PROJECT, "version": _version(), "purl": purl,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }  # fmt: skip


def _component(scope: str, package: Package) -> dict[str, Any]:
    word, _, why = scope.partition(", ")
    found = {
        "type": "library",
        "bom-ref": _ref(package),
        "name": package.name,
        **({"version": package.version} if package.version else {}),
        "scope": word,
        "hashes": [{"alg": "SHA-256", "content": content} for content in package.hashes],
        "licenses": [{"expression": licence_of(package.name)}],
        "purl": _ref(package),
    }
    return found | ({"properties": [{"name": "rhocover:extra", "value": why.split()[-1]}]} if why else {})


def _ref(package: Package) -> str:
    return _purl(package.name, package.version)


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name.lower().replace('_', '-')}{'@' * bool(version)}{version}"


def _children(name: str, packages: Iterable[Package]) -> list[str]:
    own = [package for package in packages if not package.is_build_tool]
    return [
        _ref(package) for package in own if name in package.parents or package.name in needs().get(name, ())
    ]


def write(folder: Path) -> None:
    """Writes the document to a folder."""
    (folder / NAME).write_text(json.dumps(document(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
