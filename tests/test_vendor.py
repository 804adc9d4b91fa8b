"""The chat page's vendored libraries are those that its lock names, and it names no registry."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from agentic_backend.transports.page.es_module import read_module

WEB = Path(__file__).parent.parent / "agentic_backend" / "web"
LOCK = (WEB / "vendor.lock").read_text()
PACKAGES: list[dict[str, Any]] = json.loads(LOCK)["packages"]
PINNED = re.compile(r"sha512-[A-Za-z0-9+/]{86}==")


def test_the_files_are_those_of_the_lock_and_no_others() -> None:
    locked = {name: entry["sha512"] for package in PACKAGES for name, entry in package["files"].items()}
    there = {path.name: path.read_bytes() for path in (WEB / "vendor").glob("*.js")}
    assert locked == {
        name: f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}" for name, content in there.items()
    }


def test_each_archive_is_pinned_by_version_and_integrity() -> None:
    for package in PACKAGES:
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"]), package["name"]
        assert PINNED.fullmatch(package["integrity"]), package["name"]


def test_the_lock_names_no_registry() -> None:
    assert not re.search(r"https?:|registry", LOCK)


def test_each_package_has_its_licence_among_the_notices() -> None:
    notices = (WEB / "vendor" / "LICENSES.md").read_text()
    headings = " ".join(re.findall(r"^## (.+)$", notices, re.MULTILINE))
    for package in PACKAGES:
        assert f"| {package['name']} | {package['version']} | {package['licence']} |" in notices
        assert f"{package['name']} {package['version']}" in headings


def test_a_library_imports_nothing_but_its_neighbours() -> None:
    for path in (WEB / "vendor").glob("*.js"):
        imported = [each.path for each in read_module(f"vendor/{path.name}", path.read_bytes()).imports]
        assert all(name.startswith("vendor/") and (WEB / name).is_file() for name in imported), (path.name, imported)
