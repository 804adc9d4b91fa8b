"""FerretDB, built from its Go module on first use: MongoDB's wire protocol over files, which outlive a kill.

It plans queries as MongoDB does, but changes a document in two steps, a read and a write: tests of concurrent changes
use `mongo_java`.
"""

import shutil
from pathlib import Path

from services.cache import cached, run, version_of
from services.program import Program
from support.services import require

_SOURCE = Path(__file__).parent / "ferretdb"
_SOURCES = [_SOURCE / name for name in ("main.go", "go.mod", "go.sum")]
_BUILD_S = 600
# Go's own releases since 1.21 fetch the toolchain that a module requires, if they are allowed to.
_GO = "a Go of version 1.24 or newer, or one that may fetch it"


class FerretDb(Program):
    """A server with its data in `directory`."""

    def __init__(self, directory: Path) -> None:
        """Skips or fails the test if FerretDB can't be built (see `require`)."""
        super().__init__(str(ferretdb_build() / "ferretdb"), "-directory", str(directory), "-port")


def ferretdb_build() -> Path:
    """The directory of the program. Skips or fails the test if it can't be built (see `require`)."""
    return cached("ferretdb", version_of(*_SOURCES), _build)


def _build(directory: Path) -> None:
    require("FerretDB", shutil.which("go") is not None, f"there is no `go` to build it; it takes {_GO}")
    failure = run(["go", "build", "-mod=mod", "-o", str(directory / "ferretdb"), "."], _BUILD_S, cwd=_SOURCE)
    require("FerretDB", failure is None, f"building it takes {_GO}: {failure}")
