"""Canaries: a secret that the server has for a neighbour reaches nobody, however the neighbour fails.

Each place of the configuration that a secret may stand in has its own canary: base URLs, queries, headers, arguments
and environments of MCP servers, files, variables. Each neighbour is real and fails in its own way, and most of them
repeat what they were sent. Also libraries are logged here, from level debug on, which is the most that one can ask for.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.chat_client import chat
from support.log_lines import log_lines, logging_as_before, problems, reasons
from support.providers.echoing import WAYS, echoing_neighbour
from support.refusing_mongodb import refusing_mongodb
from support.rest_client import PREFIX, plain_http
from support.server_process import PATIENCE_S, ServerProcess, command, serving
from support.signing_realm import signing_realm

from agentic_backend.cli import main

TESTS = Path(__file__).parent
LIBRARIES = ["openai", "httpx2", "httpx", "httpcore", "mcp", "opentelemetry", "redis", "keycloak", "pymongo"]
# A program that tells all that it was given, and ends before it says anything else.
DYING = """
import os, sys, time
print(dict(os.environ), sys.argv, file=sys.stderr, flush=True)
time.sleep(1)
sys.exit(3)
"""
PLACES = [
    *("user", "password", "path", "query", "key", "header", "parameter"),
    *("variable", "url", "file", "redis", "trace", "mcp-query", "mcp-header", "mcp-url-key"),
    *("mcp-variable", "mcp-place", "mcp-argument", "mcp-option"),
    *("mongodb", "realm-client", "realm-exchange"),
]
# Of a form that no pattern of the redaction knows: letters alone, without a prefix.
CANARIES = {place: f"quokka{place.replace('-', '')}zorblax" for place in PLACES}


def base_url(host: str, way: str, scheme: str = "http") -> str:
    user, password, path, query = (CANARIES[place] for place in ("user", "password", "path", "query"))
    return f"{scheme}://{user}:{password}@{host}/{way}/{path}/v1?gateway={query}"


def model(url: str) -> dict[str, Any]:
    headers, query = {"X-Gateway": CANARIES["header"]}, {"gate": CANARIES["parameter"]}
    options = {"base_url": url, "api_key": CANARIES["key"], "default_headers": headers, "default_query": query}
    return {"model": "openai:gpt-5.4-mini", "options": {**options, "max_retries": 0, "timeout": 20}}


def models(host: str, closed: str) -> dict[str, Any]:
    by_way = {way: model(base_url(host, way)) for way in WAYS}
    by_way["refused"] = model(base_url(closed, "refused"))
    by_way["tls"] = model(base_url(host, "tls", "https"))
    by_way["unknown-host"] = model(base_url("no-such-host.invalid", "unknown"))
    return {"default": {"model": "offline", "options": {"words_per_second": 0}}, **by_way}


def mcp_servers(host: str, closed: str) -> dict[str, Any]:
    def over_http(address: str, way: str, **more: Any) -> dict[str, Any]:
        # Their settings refuse a user and a password in it.
        signed = f"http://{address}/{way}/mcp?api_key={CANARIES['mcp-query']}"
        return {"url": signed, "connect_timeout_s": 20, **more}

    header = {"mode": "header", "header": "X-Desk", "environment": "DESK_BADGE"}
    by_way = {f"mcp-{way}": over_http(host, way, auth=header) for way in ("unauthorized", "broken", "garbage")}
    environment = {
        "DESK_TOKEN": CANARIES["mcp-variable"],
        "DESK_PLACE": CANARIES["mcp-place"],
        "DESK_URL": f"https://desk:{CANARIES['mcp-url-key']}@example.invalid/",
    }
    arguments = ["-c", DYING, "--api-key", CANARIES["mcp-argument"], f"--token={CANARIES['mcp-option']}"]
    dying = {"transport": "stdio", "command": sys.executable, "args": arguments, "env": environment}
    return {**by_way, "mcp-refused": over_http(closed, "refused"), "mcp-dying": dying}


def write_configuration(directory: Path, host: str, closed: str) -> list[str]:
    """Write the settings and the catalog; return the ids of the agents."""
    names, servers = models(host, closed), mcp_servers(host, closed)
    settings = {
        "models": names,
        "mcp_servers": servers,
        "broadcast": {"url": f"redis://:{CANARIES['redis']}@{closed}/0"},
        "tracing": {"endpoint": f"http://{host}/broken/v1/traces", "headers": {"X-Trace": CANARIES["trace"]}},
        "log": {"level": "debug", "packages": LIBRARIES},
    }
    agents = [
        {"id": f"on-{name}", "class_path": "support.leaking_agents:asks_its_model", "model": name}
        for name in names
        if name != "default"
    ]
    tools = "support.mcp_agents:ToolUser"
    agents += [
        {"id": f"with-{name}", "class_path": tools, "tuning": {"mcp_servers": [{"id": name}]}} for name in servers
    ]
    agents.append({"id": "quotes", "class_path": "support.leaking_agents:quotes_the_environment"})
    (directory / "settings.yaml").write_text(yaml.safe_dump(settings))
    (directory / "catalog.yaml").write_text(yaml.safe_dump({"agents": agents}))
    return [str(agent["id"]) for agent in agents]


def environment_of(directory: Path) -> Mapping[str, str]:
    (directory / "key").write_text(f"{CANARIES['file']}\n")
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent))),
        "DESK_BADGE": f"Token {CANARIES['mcp-header']}",
        "DESK_SECRET": CANARIES["variable"],
        "DESK_API_URL": f"https://ann:{CANARIES['url']}@example.invalid/",
        "SEARCH_API_KEY_FILE": str(directory / "key"),
        "OPENAI_LOG": "debug",
    }


@pytest.fixture
def closed() -> Iterator[str]:
    """A host and port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


async def ask_all(server: ServerProcess, agents: list[str]) -> str:
    """Ask each agent; return all that clients were sent, by every way of asking what happened."""
    async with chat(server.address) as client, plain_http() as http:
        for agent_id in agents:
            await client.ask("hello", agent_id=agent_id)
        paths = ("/agents", "/sessions", "/metrics/chatbot/numerical", "/health")
        said = [(await http.get(f"{server.address}{PREFIX}{path}")).text for path in paths]
        for session in (await http.get(f"{server.address}{PREFIX}/sessions")).json()["sessions"]:
            said.append((await http.get(f"{server.address}{PREFIX}/sessions/{session['id']}/messages")).text)
        inside = [(await http.get(f"{server.internal}{path}")).text for path in ("/log", "/metrics", "/health/ready")]
        assert "exchange failed" in inside[0]
        return "\n".join([str(client.events), *said, *inside])


def found(text: str) -> list[str]:
    """The places whose canary is in the text, in any case."""
    return [place for place, canary in CANARIES.items() if canary in text.lower()]


def stored_bytes(directory: Path) -> bytes:
    """The database as it lies on the disk, its journal included."""
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def test_no_secret_reaches_a_log_a_client_a_metric_or_the_store(tmp_path: Path, closed: str) -> None:
    async with echoing_neighbour() as host:
        agents = write_configuration(tmp_path, host, closed)
        arguments = ["--config", tmp_path / "settings.yaml", "--catalog", tmp_path / "catalog.yaml"]
        async with serving(*arguments, cwd=tmp_path, environment=environment_of(tmp_path)) as server:
            shown = await ask_all(server, agents)
            assert await server.stop() == 0
    log = server.stdout + server.stderr
    lines = log_lines(server.stderr)
    failed = {line["agent_id"] for line in lines if line["message"] == "exchange failed"}
    assert {agent for agent in agents if agent.startswith("on-") or agent == "quotes"} - {"on-garbage"} <= failed
    assert "MCP server says" in log and "DESK_PLACE" in log, "the program's last words are there, without its secrets"
    assert any(line["logger"].startswith(("openai", "httpx2")) for line in lines), "the libraries are heard"
    assert log.count("[redacted]") > 20
    assert found(log) == []
    assert found(shown) == []
    stored = await asyncio.to_thread(
        lambda: b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*.sqlite3*"))
    )
    assert b"on-broken" in stored, "the exchanges are there"
    assert found(stored.decode("latin-1")) == []


async def test_no_secret_of_a_realm_reaches_anybody_though_the_realm_quotes_it(tmp_path: Path) -> None:
    servers = {"desk": {"url": "http://127.0.0.1:9/mcp", "auth": {"mode": "token_exchange", "audience": "desk"}}}
    agents = [
        {"id": "desk", "class_path": "support.mcp_agents:ToolUser", "tuning": {"mcp_servers": [{"id": "desk"}]}},
        {"id": "refreshing", "class_path": "support.token_agents:Refreshing"},
    ]
    (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": agents}))
    async with signing_realm() as realm:
        keycloak = {"realm_url": realm.url, "client_secret": CANARIES["realm-client"]}
        keycloak |= {"exchange_client_id": "server", "exchange_client_secret": CANARIES["realm-exchange"]}
        # It is in OAuth's own error code too, which the log has.
        quoted = " ".join((CANARIES["realm-client"], CANARIES["realm-exchange"]))
        realm.token_answer = {"error": CANARIES["realm-exchange"], "error_description": f"client_secret={quoted}"}
        settings = {
            "auth": {"mode": "keycloak", "keycloak": keycloak},
            "mcp_servers": servers,
            "log": {"level": "debug", "packages": LIBRARIES},
        }
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
        environment = {"PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent)))}
        async with serving("--config", "settings.yaml", cwd=tmp_path, environment=environment) as server:
            async with chat(server.address, token=realm.sign()) as client, plain_http() as http:
                await client.send(
                    {"type": "authenticate", "access_token": realm.sign(), "refresh_token": realm.sign(typ="Refresh")}
                )
                for agent in agents:
                    # The seconds after which it asks for newer tokens.
                    await client.ask("0", agent_id=agent["id"])
                shown = [str(client.events), (await http.get(f"{server.internal}/log")).text]
            assert await server.stop() == 0
        sent = {form["client_secret"] for form in realm.token_forms}
    assert sent == {CANARIES["realm-client"], CANARIES["realm-exchange"]}, "the realm has got both"
    refusals = [line for line in log_lines(server.stderr) if line["message"] == "Keycloak gave no tokens"]
    assert refusals and all("[redacted]" in line["error"] for line in refusals)
    assert found(server.stdout + server.stderr + "".join(shown)) == []
    assert found(stored_bytes(tmp_path / "data").decode("latin-1")) == []


async def test_no_secret_of_a_mongodb_that_refuses_it_reaches_the_log(tmp_path: Path) -> None:
    async with refusing_mongodb() as host:
        url = f"mongodb://desk:{CANARIES['mongodb']}@{host}/agentic?appname={CANARIES['query']}"
        settings = {"store": {"url": url}, "log": {"level": "debug", "packages": LIBRARIES}}
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
        async with command("serve", "--port", 0, "--config", "settings.yaml", cwd=tmp_path) as server:
            assert await server.ended(2 * PATIENCE_S) == 1
    lines = log_lines(server.stderr)
    assert any(line["logger"].startswith("pymongo") for line in lines), "the driver is heard"
    [reason] = reasons(server.stderr)
    assert "AuthenticationFailed" in reason
    assert found(server.stdout + server.stderr) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"mcp_servers": {"desk": {"url": f"http://ann:{CANARIES['mcp-query']}@example.org/mcp"}}},
        {"models": {"default": {"model": "openai:x", "options": [base_url("example.org", "x")]}}},
        {"broadcast": {"url": f"http://:{CANARIES['redis']}@example.org"}},
        {"mcp_servers": {"desk": {"transport": "stdio", "command": "x", "env": {"PLACE": [CANARIES["mcp-place"]]}}}},
        {"store": {"url": f"mysql://desk:{CANARIES['mongodb']}@example.org/x"}},
        {"auth": {"mode": "keycloak", "keycloak": {"client_secret": [CANARIES["realm-client"]]}}},
        {"tracing": {"endpoint": f"ftp://{CANARIES['trace']}@example.org", "headers": {"X-A": [CANARIES["trace"]]}}},
    ],
)
def test_no_secret_stands_in_what_is_wrong_with_the_settings(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    with logging_as_before():
        assert main(["validate", "--config", "settings.yaml"]) == 2
    output = capfd.readouterr()
    assert problems(output.err)
    assert found(output.out + output.err) == []
