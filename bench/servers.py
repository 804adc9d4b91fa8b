"""Server processes that the benchmark starts, measures and ends."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_ADDRESSES = re.compile(r"at (http://[\d.]+:\d+)(?:, metrics and health at (http://[\d.]+:\d+))?")


@dataclass(frozen=True)
class Server:
    """A server process at `address`, its metrics at another one."""

    address: str
    pid: int
    internal: str | None = None

    def cpu_s(self) -> float:
        """Processor time so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_kib(self) -> int:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])


@contextmanager
def product(
    data: Path,
    *options: str,
    catalog: str = "catalog.yaml",
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "agentic_backend"),
) -> Iterator[Server]:
    """The product with its default settings and the benchmark's agents, on a free port.

    `environment` has the variables that it gets besides those of this process; `program` starts it.
    """
    command = [*program, "serve", "--port", "0", "--data", str(data), "--catalog", catalog]
    command += options
    with _process(command, data / "server.log", environment) as server:
        yield server


@contextmanager
def bare(directory: Path) -> Iterator[Server]:
    with _process(["bare_server.py"], directory / "bare.log") as server:
        yield server


@contextmanager
def provider(directory: Path) -> Iterator[Server]:
    """A local provider of models."""
    with _process(["provider_server.py"], directory / "provider.log") as server:
        yield server


@contextmanager
def recorded_provider(directory: Path, events: int) -> Iterator[Server]:
    """A local provider whose streams have so many events of text."""
    with _process(["recorded_provider.py", str(events)], directory / "recorded.log") as server:
        yield server


@contextmanager
def mongo_proxy(directory: Path, port: int, delay_ms: float) -> Iterator[Server]:
    """A proxy of the MongoDB at this port of loopback; what it counts is at its internal address."""
    with _process(["mongo_proxy.py", str(port), str(delay_ms)], directory / "proxy.log") as server:
        yield server


@contextmanager
def _process(arguments: list[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, *arguments],
            cwd=HERE,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        addresses = _ADDRESSES.search(process.stdout.readline())
        if addresses is None:
            raise SystemExit(f"a server did not start; see {log}")
        try:
            yield Server(addresses[1], process.pid, addresses[2])
        finally:
            process.terminate()
            process.wait(timeout=60)
