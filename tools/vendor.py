"""Fetches the chat page's libraries from npm and checks them: `make vendor`.

`agentic_backend/web/vendor.lock` names each package with its version, the integrity of its archive as npm states it
(SHA-512 in base64), and the files taken from it with their edits and the SHA-512 of the result. npm takes the archive
from the registry that its own configuration names. What differs from the lock is refused before anything is written.

To update a library, change its `version`, remove its `integrity` and its files' `sha512`, and run this: what is missing
in the lock is filled in, to be looked at and committed.
"""

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

WEB = Path(__file__).parent.parent / "agentic_backend" / "web"
LOCK = WEB / "vendor.lock"
TIMEOUT_S = 120

Package = dict[str, Any]


def main() -> None:
    packages: list[Package] = json.loads(LOCK.read_text())["packages"]
    with tempfile.TemporaryDirectory() as folder:
        archives = [_fetch(package, Path(folder)) for package in packages]
        files = {
            name: _file(package, archive, entry)
            for package, archive in zip(packages, archives, strict=True)
            for name, entry in package["files"].items()
        }
        texts = [_read(archive, package["licence_file"]) for package, archive in zip(packages, archives, strict=True)]

    vendor = WEB / "vendor"
    for name, content in files.items():
        (vendor / name).write_bytes(content)
    (vendor / "LICENSES.md").write_text(_notices(packages, texts))
    LOCK.write_text(json.dumps({"packages": packages}, indent=2) + "\n")


def _digest(content: bytes) -> str:
    """As npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def _fetch(package: Package, folder: Path) -> Path:
    """The package's archive in `folder`, with the locked integrity."""
    wanted = f"{package['name']}@{package['version']}"
    command = ["npm", "pack", wanted, "--json", "--ignore-scripts", "--pack-destination", str(folder)]
    packed = subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    name: str = json.loads(packed.stdout)[0]["filename"]
    archive = folder / name
    _check(package, "integrity", archive.read_bytes(), wanted)
    return archive


def _file(package: Package, archive: Path, entry: Package) -> bytes:
    """A file of the archive after its edits: pairs of a text that stands there exactly once, and what replaces it."""
    text = _read(archive, entry["from"])
    for found, replacement in entry.get("edits", []):
        if text.count(found) != 1:
            raise SystemExit(f"{package['name']}: {found!r} is there {text.count(found)} times in {entry['from']}")
        text = text.replace(found, replacement)
    # The maps that these comments name are not served.
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("//# sourceMappingURL=")]
    notice = f"/*! {package['name']} {package['version']}, {package['licence']}, see LICENSES.md */\n"
    content = (notice + "".join(lines)).encode()
    _check(entry, "sha512", content, f"{package['name']}: {entry['from']}")
    return content


def _check(locked: Package, field: str, content: bytes, what: str) -> None:
    if locked.setdefault(field, _digest(content)) != _digest(content):
        raise SystemExit(f"{what} is not what vendor.lock says: {_digest(content)}")


def _read(archive: Path, name: str) -> str:
    with tarfile.open(archive) as tar:
        # Packages differ in the name of their top folder.
        members = {member.name.split("/", 1)[-1]: member for member in tar.getmembers() if member.isfile()}
        content = tar.extractfile(members[name])
        assert content is not None
        return content.read().decode()


def _notices(packages: list[Package], texts: list[str]) -> str:
    """The notices that go with the files, each text once."""
    rows = [
        f"| {package['name']} | {package['version']} | {package['licence']} | {_where(package)} |"
        for package in packages
    ]
    of_text: dict[str, list[str]] = {}
    for package, text in zip(packages, texts, strict=True):
        of_text.setdefault(text.strip(), []).append(f"{package['name']} {package['version']}")
    sections = [f"## {', '.join(names)}\n\n```text\n{text}\n```" for text, names in of_text.items()]
    head = "# Licences of the vendored libraries\n\n| name | version | licence | file |\n|---|---|---|---|"
    return "\n\n".join(["\n".join([head, *rows]), *sections]) + "\n"


def _where(package: Package) -> str:
    """The files that hold a package: its own, or those of the one that it is bundled into."""
    return ", ".join(f"`{name}`" for name in package["files"]) or f"in `{package['bundled_into']}`"


if __name__ == "__main__":
    main()
