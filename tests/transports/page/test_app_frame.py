"""The frame of a document of an MCP server: who asks for it can't widen what it may do."""

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest
import pytest_asyncio
from services.mcp_raw import raw_server
from support.rest_client import plain_http
from support.running_server import RunningServer, running_server

from agentic_backend.mcp.apps.app_hosts import frame_policy

pytestmark = pytest.mark.asyncio(loop_scope="module")

CDN, API = "https://cdn.example.org", "https://api.example.org"
SERVERS = {
    "wide": raw_server([], result={}) | {"app_hosts": [CDN, API]},
    "narrow": raw_server([], result={}) | {"app_hosts": [API]},
    "closed": raw_server([], result={}),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("frames"), settings={"mcp_servers": SERVERS}) as server:
        yield server


QUERIES: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "what is allowed": ({"server": "wide", "resourceDomains": [CDN, API]}, {"resourceDomains": [CDN, API]}),
    "what another server is allowed": ({"server": "narrow", "resourceDomains": [CDN, API]}, {"resourceDomains": [API]}),
    "of a server that is allowed none": ({"server": "closed", "connectDomains": API}, {}),
    "of no server": ({"server": "nobody", "connectDomains": API}, {}),
    "without a server": ({"connectDomains": API}, {}),
    "of two servers": ({"server": ["wide", "narrow"], "connectDomains": [CDN]}, {}),
    "all hosts": ({"server": "wide", "connectDomains": ["*", "https://*", "https:", "'self'", "'unsafe-eval'"]}, {}),
    "another directive": ({"server": "wide", "connectDomains": f"{API}; script-src *"}, {}),
    "another header": ({"server": "wide", "connectDomains": f"{API}\r\nset-cookie: a=b"}, {}),
    "markup": ({"server": "wide", "connectDomains": f'{API}"><script>alert(1)</script>'}, {}),
    "another kind": ({"server": "wide", "script-src": API, "sandbox": "allow-same-origin"}, {}),
    "many": ({"server": "wide", "frameDomains": [f"https://h{n}.example.org" for n in range(50)] + [API]}, {}),
}


@pytest.mark.parametrize(("query", "hosts"), QUERIES.values(), ids=QUERIES)
async def test_a_frame_allows_what_the_settings_say_of_its_server(
    server: RunningServer, query: dict[str, Any], hosts: dict[str, list[str]]
) -> None:
    async with plain_http(base_url=server.address) as http:
        found = re.search(r"static/[0-9a-f]{16}/", (await http.get("/")).text)
        assert found is not None
        path = f"/{found[0]}frame.html"
        plain, asked = await http.get(path), await http.get(path, params=query)
    assert plain.headers["content-security-policy"] == frame_policy()
    assert asked.headers["content-security-policy"] == frame_policy(hosts)
    assert (asked.headers["cache-control"], asked.headers.get("set-cookie")) == ("no-store", None)
    told = re.search(r'<meta name="csp" content="([^"]*)" />\n', asked.text)
    assert told is not None and json.loads(unescape(told[1])) == hosts
    # It is the same document otherwise.
    assert asked.text.replace(told[0], "") == plain.text
