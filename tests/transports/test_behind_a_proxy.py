"""The settings and the proxy of docs/production.md: what comes through TLS is let in, and nothing else is."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from services.nginx import Nginx
from support.attached_files import a_png
from support.chat_client import PATIENCE_S, ChatClient, chat
from support.production_guide import fenced, largest_body
from support.rest_client import error_of, rest
from support.running_server import RunningServer, running_server
from websockets.exceptions import InvalidStatus

from agentic_backend.config.loading import load_settings
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.server.process import Listener, bind

CHECKOUT = Path(__file__).parents[2]
PRODUCTION = CHECKOUT / "config" / "production.yaml"
NAME, ORIGIN = "chat.example.org", "https://chat.example.org"
# What the guide's proxy hands on of a browser's request.
PROXIED = {"Host": NAME, "Origin": ORIGIN}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that is told what config/production.yaml tells of its names."""
    production: dict[str, Any] = yaml.safe_load(PRODUCTION.read_text())["server"]
    told = {key: production[key] for key in ("allowed_origins", "allowed_hosts")}
    async with running_server(tmp_path, settings={"server": {"port": 0, "grace_s": 0.2, **told}}) as server:
        yield server


def socket(server: RunningServer, headers: dict[str, str]) -> AbstractAsyncContextManager[ChatClient]:
    """A handshake as the proxy hands it on: to the server's address, under the name in `Host`."""
    address = urlsplit(server.address)
    others = {name: value for name, value in headers.items() if name not in ("Host", "Origin")}
    return chat(
        f"http://{headers['Host']}",
        host=address.hostname,
        port=address.port,
        origin=headers["Origin"],
        additional_headers=others,
    )


async def test_a_browser_behind_the_proxy_gets_page_calls_and_socket(server: RunningServer) -> None:
    async with rest(server, **PROXIED) as client:
        assert (await client.get(f"{server.address}/")).status_code == 200
        assert (await client.get("/agents")).status_code == 200
        assert (await client.post("/sessions", json={})).status_code == 201
    async with socket(server, PROXIED) as client:
        assert (await client.ask("hello"))[-1]["type"] == "final"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": NAME, "Origin": "http://chat.example.org"}, 403),
        ({"Host": NAME, "Origin": "https://chat.example.org.evil.example"}, 403),
        ({"Host": NAME, "Origin": "https://chat.example.org:8443"}, 403),
        ({"Host": "evil.example", "Origin": ORIGIN}, 400),
        # A proxy that hands on its own name for the server.
        ({"Host": "agentic-backend", "Origin": ORIGIN}, 400),
        ({"Host": "evil.example", "Origin": ORIGIN, "X-Forwarded-Host": NAME}, 400),
    ],
)
async def test_whoever_else_comes_through_the_proxy_is_refused(
    server: RunningServer, headers: dict[str, str], status: int
) -> None:
    async with rest(server, **headers) as client:
        refused = await client.get("/agents")
    assert refused.status_code == status
    error_of(refused)
    with pytest.raises(InvalidStatus) as handshake:
        async with socket(server, headers):
            pass
    assert handshake.value.response.status_code == status


def test_the_guide_the_settings_and_the_proxy_speak_of_the_same_names() -> None:
    settings = load_settings(PRODUCTION, {})
    shown = yaml.safe_load(fenced("yaml", "allowed_origins"))["server"]
    assert tuple(shown["allowed_origins"]) == settings.server.allowed_origins == (ORIGIN,)
    assert tuple(shown["allowed_hosts"]) == settings.server.allowed_hosts == (NAME,)
    proxy = fenced("nginx", "proxy_pass")
    assert f"server_name {NAME};" in proxy
    assert f"server {settings.server.host}:{settings.server.port};" in proxy
    assert "proxy_set_header Host $host;" in proxy


@pytest.mark.nginx
async def test_the_largest_file_comes_through_and_a_larger_one_is_refused_by_the_server(tmp_path: Path) -> None:
    most = LimitsSettings().attachment_bytes
    async with running_server(tmp_path) as server, rest(server) as client:
        nginx = Nginx(tmp_path, server.address)
        nginx.start()
        try:
            for size, status in ((most, 201), (most + 1, 413)):
                files = {"file": ("large.png", a_png(64, 48).ljust(size, b"\0"))}
                sent = await client.post(f"{nginx.address}/agentic/v1/attachments", files=files, timeout=PATIENCE_S)
                assert (sent.status_code, sent.headers["content-type"]) == (status, "application/json"), sent.text
        finally:
            nginx.stop()


def test_the_proxy_takes_what_the_server_takes_and_waits_longer_than_it_pings() -> None:
    proxy, limits = fenced("nginx", "proxy_pass"), LimitsSettings()
    assert f"client_max_body_size {largest_body(limits)};" in proxy
    patience = re.search(r"proxy_read_timeout (\d+)s;.* every (\d+) s$", proxy, re.MULTILINE)
    assert patience
    with bind("127.0.0.1", 0) as bound:
        pings_every_s = Listener(lambda scope, receive, send: None, bound, limits).config.ws_ping_interval
    assert pings_every_s is not None and int(patience[2]) == pings_every_s
    assert int(patience[1]) >= 2 * pings_every_s
