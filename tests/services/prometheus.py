"""A Prometheus that scrapes servers each second and evaluates the shipped rules as often."""

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import yaml
from support.services import require

RULES = sorted((Path(__file__).parents[2] / "config" / "prometheus" / "rules").glob("*.yaml"))
_START_S, _END_S, _QUERY_S = 60, 30, 30
_LISTENING = re.compile(r'msg="?Listening on"? address=(\S+)')

Sample = tuple[Mapping[str, str], float]
"""Labels and value."""


class Prometheus:
    """Listens on a port of its own choice."""

    def __init__(self, directory: Path, targets: Sequence[str], rules: Sequence[Path] = RULES) -> None:
        """`targets` are `host:port` of internal listeners. Skips or fails the test if Prometheus is missing."""
        program = shutil.which("prometheus")
        require("Prometheus", program is not None, "there is no `prometheus` on the PATH")
        self._directory = directory
        self._log = directory / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None
        configuration = {
            "global": {
                "scrape_interval": "1s",
                "evaluation_interval": "1s",
                "external_labels": {"runbooks": "https://runbooks.example"},
            },
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": "agentic", "static_configs": [{"targets": list(targets)}]}],
        }
        file = directory / "prometheus.yaml"
        file.write_text(yaml.safe_dump(configuration))
        self._command = [
            str(program),
            f"--config.file={file}",
            f"--storage.tsdb.path={directory / 'prometheus'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        self.url = ""

    def start(self) -> None:
        """Start it; return when it answers."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up_at = time.monotonic() + _START_S
        # It listens before it has opened its storage, and refuses queries until then.
        while not self._is_ready():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < give_up_at, "Prometheus did not start"
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        if not (listening := _LISTENING.search(self._log.read_text())):
            return False
        self.url = f"http://{listening[1]}"
        return httpx.get(f"{self.url}/-/ready", timeout=_QUERY_S, trust_env=False).is_success

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(_END_S)

    async def query(self, expression: str) -> list[Sample]:
        """The vector that the expression has now."""
        async with httpx.AsyncClient(timeout=_QUERY_S, trust_env=False) as client:
            answer = (await client.get(f"{self.url}/api/v1/query", params={"query": expression})).json()
        assert answer["status"] == "success", answer
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]]
