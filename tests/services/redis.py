"""A Redis without persistence: a separate process, which a test may stop and start."""

import shutil
import subprocess
import time
from pathlib import Path

from redis import Redis as Client
from redis.exceptions import RedisError
from support.ports import free_port
from support.services import require

_START_S, _END_S = 40, 30


class Redis:
    """A server on a loopback port, with the same port and no data at each start."""

    def __init__(self, directory: Path) -> None:
        """Skips or fails the test if Redis is missing (see `require`)."""
        program = shutil.which("redis-server")
        require("Redis", program is not None, "there is no `redis-server` on the PATH")
        self._program = program or ""
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Client:
        """A blocking client, for tests that read or write keys themselves."""
        return Client.from_url(self.url, socket_timeout=_START_S)

    def start(self) -> None:
        """Start it; return when it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [self._program, *options, "--dir", str(self._directory)], stdout=subprocess.DEVNULL
        )
        give_up_at = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None, f"Redis ended with {self._process.returncode}"
            assert time.monotonic() < give_up_at, "Redis did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, as a power failure would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(_END_S)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except RedisError:
            return False
