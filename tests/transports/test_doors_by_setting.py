"""Doors that are open only where a setting names them, and else cost nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.rest_client import plain_http, rest
from support.running_server import running_server

PACKAGES = {"mcp": "agentic_backend.transports.mcp", "ag-ui": "agentic_backend.transports.ag_ui"}
PATHS = ("/mcp", "/.well-known/oauth-protected-resource/mcp", "/ag-ui/agents/assistant")


async def test_a_server_as_it_is_set_up_has_none_of_their_paths(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings={"server": {"port": 0}}) as server:
        async with plain_http(base_url=server.address) as http:
            for path in PATHS:
                assert (await http.post(path, json={})).json()["error"]["code"] == "not_found"
        async with rest(server, "dev:alice") as http:
            opened = {door["name"] for door in (await http.get("/info")).json()["doors"]}
    assert not opened & PACKAGES.keys()


@pytest.mark.parametrize("package", PACKAGES.values())
def test_nothing_of_it_is_loaded_before(package: str) -> None:
    imported = f"import sys, agentic_backend.app; print([name for name in sys.modules if name.startswith({package!r})])"
    told = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "[]"
