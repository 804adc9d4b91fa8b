"""FerretDB, built from its Go module on first use: MongoDB's wire protocol, for machines without a MongoDB."""

import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from support.services import require

_SOURCE = Path(__file__).parent / "ferretdb"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "agentic-backend", "ferretdb")
_BUILD_S, _END_S = 600, 10
# Go's own releases since 1.21 fetch the toolchain that a module asks for, where they may.
_GO = "a Go of version 1.24 or newer, or one that may fetch it"


class FerretDb:
    """A server on a loopback port, the same one each time it starts, with its data in `directory`.

    `direct` is the port of FerretDB itself, without the relay that lets one command through at a time.
    """

    def __init__(self, program: Path, directory: Path) -> None:
        self.port = self.direct = 0
        self._program = program
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and return once it listens."""
        arguments = [str(self._program), "-port", str(self.port), "-directory", str(self._directory)]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"FerretDB ended with {self._process.wait(_END_S)}"
        self.port, self.direct = map(int, line.split())

    def pause(self) -> None:
        """From now on it answers nothing, and its connections stay."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill it, as a machine that loses its power does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate(timeout=_END_S)


def ferretdb_program() -> Path:
    """The server's program. Skips the test where it can't be built, or fails it (see `require`)."""
    sources = [_SOURCE / name for name in ("main.go", "go.mod", "go.sum")]
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    program = _CACHE / version / "ferretdb"
    if not program.is_file():
        require("FerretDB", shutil.which("go") is not None, f"there is no `go` to build it; it takes {_GO}")
        program.parent.mkdir(parents=True, exist_ok=True)
        # Under a name of its own first: another run may build it at the same time.
        built = program.with_name(f"{program.name}-{os.getpid()}")
        command = ["go", "build", "-mod=mod", "-o", str(built), "."]
        build = subprocess.run(command, cwd=_SOURCE, capture_output=True, text=True, timeout=_BUILD_S)
        require("FerretDB", build.returncode == 0, f"building it takes {_GO}: {build.stderr[-300:]}")
        built.rename(program)
    return program
