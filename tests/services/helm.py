"""Helm, and a strict reader of what it renders, built from their Go modules on first use."""

import shutil
from pathlib import Path

from services.cache import cached, run, version_of
from support.services import require

_SOURCE = Path(__file__).parent / "helm"
_SOURCES = [_SOURCE / name for name in ("main.go", "go.mod", "go.sum")]
_BUILD_S = 900
_GO = "a Go of version 1.24 or newer, or one that may fetch it"


def helm_build() -> Path:
    """The directory of `helm` and `manifests`. Skips or fails the test if it can't be built (see `require`)."""
    return cached("helm", version_of(*_SOURCES), _build)


def _build(directory: Path) -> None:
    require("Helm", shutil.which("go") is not None, f"there is no `go` to build it; it takes {_GO}")
    # Both at once, for what they have in common.
    command = ["go", "build", "-mod=mod", "-o", f"{directory}/", ".", "helm.sh/helm/v3/cmd/helm"]
    failure = run(command, _BUILD_S, cwd=_SOURCE)
    require("Helm", failure is None, f"building it takes {_GO}: {failure}")
