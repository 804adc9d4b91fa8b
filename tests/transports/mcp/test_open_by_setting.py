"""The door is open only where a setting names it, and else costs nothing."""

import subprocess
import sys
from pathlib import Path

from support.rest_client import plain_http, rest
from support.running_server import running_server

_IMPORTED = """
import sys
import agentic_backend.app
print([name for name in sys.modules if name.startswith("agentic_backend.transports.mcp")])
"""


async def test_a_server_as_it_is_set_up_has_none_of_its_paths(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings={"server": {"port": 0}}) as server:
        async with plain_http(base_url=server.address) as http:
            for path in ("/mcp", "/.well-known/oauth-protected-resource/mcp"):
                assert (await http.get(path)).json()["error"]["code"] == "not_found"
        async with rest(server, "dev:alice") as http:
            assert "mcp" not in {door["name"] for door in (await http.get("/info")).json()["doors"]}


def test_nothing_of_it_is_loaded_before() -> None:
    told = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "[]"
