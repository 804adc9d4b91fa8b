"""Prints the software bill of materials of the server, in CycloneDX 1.6 JSON: `make sbom`, and the image's build.

`sbom.py [LOCK]` lists what the lock (`requirements.lock`) installs for the Python that runs this, and the chat page's
libraries of `vendor.lock`, with the hashes of both files. The same locks make the same bill: it has no time. Python
itself and the packages of the operating system are not in it.
"""

import base64
import json
import re
import sys
import tomllib
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from packaging.markers import Marker

ROOT = Path(__file__).parents[1]
VENDOR = ROOT / "agentic_backend" / "web" / "vendor.lock"
# Lines of the lock: what is pinned, and beneath it the hashes of its files and who asked for it.
_PINNED = re.compile(r"^(?P<name>[\w.-]+)(?:\[[^]]*\])?==(?P<version>[^\s;]+)(?: ; (?P<marker>.+?))?(?: \\)?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ASKED_BY = re.compile(r"^    #(?: via|  ) (?P<name>[\w.-]+)(?P<project> \(pyproject\.toml.*\))?$")

Json = dict[str, Any]


def main() -> None:
    lock = sys.argv[1] if len(sys.argv) > 1 else "requirements.lock"
    json.dump(bill(ROOT / lock), sys.stdout, indent=2)
    print()


def bill(requirements: Path) -> Json:
    """The document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    server = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{project['name']}@{project['version']}",
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
    }
    packages, asked_by = _python_packages(requirements.read_text())
    libraries = [_library(each) for each in json.loads(VENDOR.read_text())["packages"]]
    refs = {project["name"]: server["bom-ref"], **{each["name"]: each["bom-ref"] for each in packages}}
    needs: dict[str, set[str]] = defaultdict(set)
    for name, askers in asked_by.items():
        for asker in askers & refs.keys():
            needs[refs[asker]].add(refs[name])
    needs[server["bom-ref"]] |= {each["bom-ref"] for each in libraries}
    components = [*packages, *libraries]
    content = {
        "metadata": {"component": server},
        "components": components,
        "dependencies": [
            {"ref": each["bom-ref"], "dependsOn": sorted(needs[each["bom-ref"]])} for each in [server, *components]
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return {**head, **content}


def _python_packages(lock: str) -> tuple[list[Json], dict[str, set[str]]]:
    """The components, and by the name of each who asked for it."""
    packages: list[Json] = []
    asked_by: dict[str, set[str]] = {}
    # A package for another platform is not installed here: its lines are read and dropped.
    hashes: list[Json] = []
    askers: set[str] = set()
    for line in lock.splitlines():
        if pinned := _PINNED.match(line):
            hashes, askers = [], set()
            if pinned["marker"] and not Marker(pinned["marker"]).evaluate():
                continue
            packages.append(_package(pinned["name"], pinned["version"], hashes))
            asked_by[pinned["name"]] = askers
        elif found := _HASH.search(line):
            hashes.append({"alg": "SHA-256", "content": found[1]})
        elif asker := _ASKED_BY.match(line):
            askers.add(asker["name"])
    return packages, asked_by


def _package(name: str, version: str, hashes: list[Json]) -> Json:
    """`hashes` are those of the archives that may be installed: one of them is."""
    purl = f"pkg:pypi/{name}@{version}"
    archives = [{"type": "distribution", "url": purl, "hashes": hashes}]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "externalReferences": archives,
    }


def _library(locked: Json) -> Json:
    purl = f"pkg:npm/{locked['name'].replace('@', '%40')}@{locked['version']}"
    digest = base64.b64decode(locked["integrity"].removeprefix("sha512-")).hex()
    return {
        "type": "library",
        "bom-ref": purl,
        "name": locked["name"],
        "version": locked["version"],
        "purl": purl,
        "licenses": [{"expression": locked["licence"]}],
        "hashes": [{"alg": "SHA-512", "content": digest}],
    }


if __name__ == "__main__":
    main()
