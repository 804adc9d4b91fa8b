"""PostgreSQL with pgvector, from the package `pgserver`, of which only the programs are used."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

from support.ports import free_port
from support.services import require

_START_S, _END_S = 60, 30


class Postgres:
    """A server on a loopback port, with the same port at each start, and its data in `directory`."""

    def __init__(self, directory: Path) -> None:
        """`directory` is empty, and stands where any user of the machine may look: where root tests, nobody runs it.

        Skips or fails the test if the package is missing (see `require`).
        """
        package = find_spec("pgserver")
        origin = None if package is None else package.origin
        require(
            "PostgreSQL",
            origin is not None,
            "`pgserver` is not installed, which there is for Python 3.11 and 3.12 on x86",
        )
        installed = Path(origin or "").parent
        self._directory = directory / "data"
        self._directory.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        # It does not run as root.
        self._user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if self._user is not None:
            # What is installed may lie where only root may look.
            for beside in installed.parent.glob("pgserver*"):
                if beside.suffix != ".dist-info":
                    shutil.copytree(beside, directory / beside.name)
            installed = directory / installed.name
            directory.chmod(0o755)
            os.chown(self._directory, self._user.pw_uid, self._user.pw_gid)
        self._programs = installed / "pginstall" / "bin"

    def url(self, driver: str = "postgresql") -> str:
        """Of a database, for a user who needs no password."""
        return f"{driver}://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it; return when it answers."""
        if not os.listdir(self._directory):
            # Nothing of it has to outlive the machine.
            made = self._begun("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
            assert made.wait(_START_S) == 0, "PostgreSQL could not be set up"
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"]
        self._process = self._begun("postgres", "-p", str(self.port), *options)
        give_up_at = time.monotonic() + _START_S
        while self._begun("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)).wait(_START_S) != 0:
            assert self._process.poll() is None, f"PostgreSQL ended with {self._process.returncode}"
            assert time.monotonic() < give_up_at, "PostgreSQL did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once, as a power failure would."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(_END_S)

    def _begun(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._programs / program, *arguments],
            cwd=self._directory,
            env={**os.environ, "PGDATA": str(self._directory)},
            user=None if self._user is None else self._user.pw_uid,
            group=None if self._user is None else self._user.pw_gid,
            extra_groups=None if self._user is None else [],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
