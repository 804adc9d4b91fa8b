"""The unit fits the server, and systemd understands it. No systemd runs it here."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.services import require

from agentic_backend.config.loading import documented_settings, environment_variable
from agentic_backend.config.settings import Settings

CHECKOUT = Path(__file__).parents[1]
UNIT = CHECKOUT / "config" / "systemd" / "agentic-backend.service"
# What systemd-analyze calls well protected; its scale ends at 10. The rest is said in the unit, or needs the network.
EXPOSED_AT_MOST = 15
ANALYSIS_S = 60


def service() -> dict[str, list[str]]:
    """The values of each option, in order."""
    options: dict[str, list[str]] = {}
    for line in UNIT.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        name, is_option, value = line.partition("=")
        if is_option and not line.startswith("#"):
            options.setdefault(name, []).append(value)
    return options


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit of a server that is installed where this Python is."""
    command = shutil.which("agentic-backend", path=Path(sys.executable).parent) or "/bin/true"
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/venv/bin/agentic-backend", command))
    return unit


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    require("systemd-analyze", shutil.which("systemd-analyze") is not None, "Debian's package is systemd")
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=ANALYSIS_S)


def test_systemd_understands_every_line(installed: Path) -> None:
    done = analyze("verify", installed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_says_so_where_it_does_not(installed: Path) -> None:
    installed.write_text(installed.read_text().replace("ProtectClock=", "ProtectClocks="))
    assert "ProtectClocks" in analyze("verify", installed).stderr


def test_it_may_do_little_more_than_it_needs(installed: Path) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={EXPOSED_AT_MOST}", "--no-pager", installed)
    assert done.returncode == 0, done.stdout


def test_mcp_servers_can_be_started_by_setpriv() -> None:
    """It calls capset, which is privileged; without it no MCP server over stdio would start. The last line wins."""
    assert service()["SystemCallFilter"][-1] == "capset"


def test_it_stops_only_when_all_that_runs_has_had_its_time() -> None:
    settings = Settings()
    [seconds] = service()["TimeoutStopSec"]
    assert int(seconds) > settings.server.grace_s + settings.agents.close_timeout_s


def test_it_is_ready_watched_and_reloaded_as_the_server_says_it() -> None:
    unit = service()
    assert unit["Type"] == ["notify"] and unit["NotifyAccess"] == ["main"]
    assert unit["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    # Health says that the loop is blocked before the server is ended for it.
    assert int(unit["WatchdogSec"][0]) > Settings().health.live_after_s


def test_each_secret_is_a_credential_and_a_file_of_a_setting() -> None:
    unit = service()
    credentials = {line.partition(":")[0] for line in unit["LoadCredential"]}
    files = dict(line.split("=", 1) for line in unit["Environment"])
    assert {path.removeprefix("%d/") for path in files.values()} == credentials
    settings = {environment_variable(key) for key in dict(documented_settings())}
    for name in files:
        assert name.removesuffix("_FILE") in settings | {"OPENAI_API_KEY"} and name.endswith("_FILE"), name
