"""Packages from npm, at the versions of a lock file, installed once per machine."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from services.cache import cached, run, version_of
from support.services import require

_INSTALL = ("npm", "ci", "--omit-lockfile-registry-resolved=true", "--ignore-scripts", "--no-audit", "--no-fund")
_INSTALL_S = 300


def installed(service: str, source: Path, names: Sequence[str] = ()) -> Path:
    """A directory with the files of `source` of these names (or all), whose lock file's packages are installed in it.

    `service` is in words. Skips or fails the test if it can't be had (see `require`).
    """
    available = shutil.which("node") is not None and shutil.which("npm") is not None
    require(service, available, "there is no `node` and `npm`")

    def install(directory: Path) -> None:
        for file in files:
            shutil.copy(file, directory)
        failure = run(_INSTALL, _INSTALL_S, cwd=directory)
        require(service, failure is None, f"npm can't fetch it: {failure}")

    files = [source / name for name in names] or sorted(source.iterdir())
    return cached(source.name.replace("_", "-"), version_of(*files), install)
