"""`validate --deep` with neighbours that are well, and with ones that are broken in every way.

What it finds is looked at in this process; as a process it is run for what it prints, its exit status and its end.
"""

import asyncio
import json
import re
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from services.keycloak import Keycloak
from services.mcp_echo import echo_over_stdio, echo_server
from services.mcp_raw import raw_server
from services.redis import Redis
from support.http_api import http_api
from support.ports import free_port
from support.providers.model_server import model_server
from support.providers.reply import Reply
from support.refusing_mongodb import refusing_mongodb
from support.server_process import command
from support.signing_realm import signing_realm
from support.skewed_clock import SkewedClock

from agentic_backend.agents.models.chat_models import load_models
from agentic_backend.command_line.neighbours import Found, check_all
from agentic_backend.server.reload.configuration import ConfigurationFiles
from agentic_backend.stores.opening import open_sqlite
from tests.stores.samples import a_record, added

SECRET = "hunter22-of-the-tests"
ASSISTANT = {"id": "assistant", "class_path": "agentic_backend.experts.assistant.assistant:Assistant"}
MCP_AGENT = "agentic_backend.experts.assistant.assistant:Assistant"
OFFLINE = {"default": {"model": "offline"}}
# A process imports the clients of all neighbours.
_SLOWEST_S = 110

Lines = dict[str, dict[str, Any]]


def write_files(directory: Path, settings: dict[str, Any], agents: list[dict[str, Any]] | None) -> Path:
    """Write the settings and the catalog; return the settings' file."""
    file = directory / "settings.yaml"
    (directory / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": agents or [ASSISTANT]}))
    catalog = {"catalog": str(directory / "agents_catalog.yaml"), "data": {"directory": str(directory / "data")}}
    file.write_text(yaml.safe_dump({"models": OFFLINE, **catalog, **settings}))
    return file


async def checked(
    directory: Path,
    settings: dict[str, Any],
    *,
    faulty: bool = False,
    limit_s: float = 30,
    agents: list[dict[str, Any]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Lines:
    """What is found of each neighbour, by its kind and name, and whether any is `faulty`."""
    files = ConfigurationFiles(write_files(directory, settings, agents), {})

    def look() -> Sequence[Found]:
        configuration = files.read(files.settings())
        models = load_models(configuration.settings.models, configuration.settings.openai_model, configuration.models)
        return check_all(configuration, models, limit_s)

    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        found = await asyncio.to_thread(look)
    assert SECRET not in str(found) + "".join(map(str, found))
    assert any(each.outcome == "fault" for each in found) is faulty, found
    return by_name([each.as_json() for each in found])


async def printed(
    directory: Path,
    settings: dict[str, Any],
    *arguments: object,
    expected: int,
    agents: list[dict[str, Any]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Lines:
    """What the command prints of each neighbour, by its kind and name; `expected` is its exit status."""
    options = ["--deep", "--json", "--config", write_files(directory, settings, agents), *arguments]
    async with command("validate", *options, cwd=directory, environment=environment) as process:
        status = await process.ended(_SLOWEST_S)
        assert SECRET not in process.stdout + process.stderr
        assert status == expected, process.stdout + process.stderr
        return by_name(json.loads(process.stdout)["neighbours"])


def by_name(found: Sequence[dict[str, Any]]) -> Lines:
    return {" ".join(filter(None, (each["kind"], each["name"]))): each for each in found}


def outcomes(found: Lines) -> dict[str, str]:
    return {name: each["outcome"] for name, each in found.items()}


async def test_a_server_for_one_person_has_few_neighbours(tmp_path: Path) -> None:
    found = await printed(tmp_path, {}, expected=0)
    assert outcomes(found) == {"store": "ok", "redis": "skipped", "realm": "skipped", "model default": "ok"}
    assert "is not there yet" in found["store"]["said"] and not (tmp_path / "data").exists()
    assert found["model default"]["said"] == "built in; nothing was called"
    assert found["redis"]["said"] == "broadcast.url is not set; one server needs none, whatever its workers"


async def test_each_neighbour_has_a_line(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"broadcast": {"url": f"redis://127.0.0.1:{free_port()}/0"}, "models": OFFLINE}))
    async with command("validate", "--deep", "--config", settings, cwd=tmp_path) as process:
        assert await process.ended(_SLOWEST_S) == 1
        lines = process.stdout.splitlines()[-4:]
    assert [line.split()[0] for line in lines] == ["ok", "fault", "skipped", "ok"]
    assert " ms, Error 111 connecting to 127.0.0.1:" in lines[1]
    assert lines[1].endswith("; check broadcast.url, and whether that Redis runs")


async def test_each_application_is_started_asked_and_closed(tmp_path: Path) -> None:
    paths = ["NeverStarts", "FailsToStart", "Unreachable", "TwoFaced"]
    applications = [{"class_path": f"support.hostile_applications:{path}"} for path in paths]
    settings = {"applications": [*applications, {"class_path": "support.glossary:Glossary"}]}
    found = await checked(tmp_path, settings, faulty=True, limit_s=2)
    said = {name.split()[1]: each["said"] for name, each in found.items() if name.startswith("application")}
    assert said["never-starts"] == "start: timeout"
    assert "start: SystemExit at " in said["fails-to-start"] and "hostile_applications.py:" in said["fails-to-start"]
    assert "; close: KeyboardInterrupt" in said["fails-to-start"]
    assert said["two-faced"].startswith("close: SystemExit")
    assert said["unreachable"].startswith("check: ConnectionRefusedError")
    assert said["glossary"] == "version 1.2.0 starts, and has what it needs"


async def test_records_that_nobody_declares_or_that_are_newer_are_named(tmp_path: Path) -> None:
    file = tmp_path / "records.sqlite3"
    async with aclosing(await open_sqlite(file, 10)) as store:
        kinds = {"notes:word": 1, "notes:gone": 1, "gone:note": 2}
        records = [a_record(kind, id=kind, kind=kind, version=version) for kind, version in kinds.items()]
        await store.write_application_records(added(*records))
    settings = {"store": {"url": f"sqlite:{file}"}, "applications": [{"class_path": "support.notes:Notes"}]}
    found = await checked(tmp_path, settings)
    assert found["store"]["said"].endswith("; records that no application declares stay: gone:note, notes:gone")
    assert found["application notes"]["said"] == "version 1.0.0 starts, and has what it needs"
    async with aclosing(await open_sqlite(file, 10)) as store:
        await store.write_application_records(added(a_record("newer", kind="notes:word", version=7)))
    found = await checked(tmp_path, settings, faulty=True)
    assert found["store"]["said"].startswith("A record of kind notes:word has version 7, and this application knows")


async def test_a_problem_of_the_catalog_counts_more_than_a_neighbour(tmp_path: Path) -> None:
    settings = {"broadcast": {"url": f"redis://127.0.0.1:{free_port()}/0"}}
    found = await printed(tmp_path, settings, expected=2, agents=[ASSISTANT, {"id": "wrong", "class_path": "no:agent"}])
    assert outcomes(found)["redis"] == "fault"


async def test_a_file_is_opened_and_keeps_nothing_of_the_check(tmp_path: Path) -> None:
    file = tmp_path / "chat.sqlite3"
    settings = {"store": {"url": f"sqlite:{file}"}}
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 3")
    found = await checked(tmp_path, settings)
    assert "schema version 3, which the server migrates to" in found["store"]["said"]
    assert db.execute("PRAGMA user_version").fetchone() == (3,), "it has migrated nothing"
    assert db.execute("SELECT count(*) FROM write_proofs").fetchone() == (0,)
    db.execute("PRAGMA user_version = 999")
    found = await checked(tmp_path, settings, faulty=True)
    assert "schema version 999, and this server knows" in found["store"]["said"]
    db.close()
    file.write_bytes(b"no database at all" * 100)
    found = await checked(tmp_path, settings, faulty=True)
    assert "file is not a database" in found["store"]["said"]


@pytest.mark.mongodb
@pytest.mark.redis
async def test_a_mongodb_and_a_redis_that_are_well(mongodb_url: str, redis: Redis, tmp_path: Path) -> None:
    found = await checked(tmp_path, {"store": {"url": mongodb_url}, "broadcast": {"url": redis.url}})
    assert "no schema yet" in found["store"]["said"] and "written" not in found["store"]["said"]
    assert found["redis"]["said"] == "a message was published"


@pytest.mark.redis
async def test_a_redis_that_answers_but_takes_no_writes(own_redis: Redis, tmp_path: Path) -> None:
    with own_redis.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
    found = await checked(tmp_path, {"broadcast": {"url": own_redis.url}}, faulty=True)
    assert outcomes(found)["redis"] == "fault"
    assert "read only replica" in found["redis"]["said"]


@pytest.mark.redis
async def test_a_redis_that_refuses_the_password(own_redis: Redis, tmp_path: Path) -> None:
    with own_redis.client() as client:
        client.config_set("requirepass", "another")
    url = own_redis.url.replace("://", f"://:{SECRET}@")
    found = await checked(tmp_path, {"broadcast": {"url": url}}, faulty=True)
    assert "invalid username-password pair" in found["redis"]["said"]
    assert found["redis"]["change"] == "check the user and the password in broadcast.url"


async def test_a_mongodb_that_refuses_the_password(tmp_path: Path) -> None:
    async with refusing_mongodb() as host:
        settings = {"store": {"url": f"mongodb://desk:{SECRET}@{host}/agentic"}}
        found = await checked(tmp_path, settings, faulty=True)
    assert found["store"]["said"] == "the server refused (AuthenticationFailed)"
    assert "its user and password" in found["store"]["change"]


def everything_at(port: int) -> dict[str, Any]:
    """Settings by which every neighbour is on one port, with secrets wherever there may be one."""
    at = f"127.0.0.1:{port}"
    return {
        "store": {"url": f"mongodb://user:{SECRET}@{at}/agentic"},
        "broadcast": {"url": f"redis://:{SECRET}@{at}/0"},
        "auth": {"mode": "keycloak", "keycloak": {"realm_url": f"http://{at}/realms/it", "client_secret": SECRET}},
        "models": {"default": {"model": "openai:gpt-5.4-mini"}, "other": {"model": "anthropic:claude-sonnet-5-5"}},
        "mcp_servers": {
            "remote": {"url": f"http://{at}/mcp?key={SECRET}"},
            "users": {"url": f"http://{at}/mcp", "auth": {"mode": "user_token"}},
        },
    }


def keys_for(address: str) -> dict[str, str]:
    keys = {"OPENAI_API_KEY": f"sk-{SECRET}", "ANTHROPIC_API_KEY": f"sk-{SECRET}"}
    return {**keys, "OPENAI_BASE_URL": f"{address}/v1", "ANTHROPIC_BASE_URL": address}


BROKEN = ["store", "redis", "realm", "model default", "model other", "mcp remote"]


async def test_all_that_refuse_the_connection_are_told_at_once(tmp_path: Path) -> None:
    port = free_port()
    environment = keys_for(f"http://127.0.0.1:{port}")
    # A MongoDB that does not listen is waited for until the time is up.
    found = await checked(tmp_path, everything_at(port), faulty=True, limit_s=3, environment=environment)
    assert outcomes(found) == {**dict.fromkeys(BROKEN, "fault"), "mcp users": "skipped"}
    assert "no server answers there" in found["store"]["said"]
    assert "no connection" in found["realm"]["said"]
    assert "can't be reached" in found["model default"]["said"]
    assert "can't be reached" in found["mcp remote"]["said"]
    assert all(found[name]["change"] for name in BROKEN)


async def test_all_that_never_answer_are_given_up_in_time(tmp_path: Path) -> None:
    with black_hole() as port:
        environment = keys_for(f"http://127.0.0.1:{port}")
        arguments = ["--time-limit", 3]
        found = await printed(tmp_path, everything_at(port), *arguments, expected=1, environment=environment)
    assert outcomes(found) == {**dict.fromkeys(BROKEN, "fault"), "mcp users": "skipped"}
    assert found["model default"]["said"] == "no answer within 3 s"


@contextmanager
def black_hole() -> Iterator[int]:
    """A port on which connections are taken, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield listening.getsockname()[1]


async def test_models_are_looked_up_or_called(tmp_path: Path) -> None:
    names = {"default": "openai:gpt-5.4-mini", "other": "anthropic:claude-sonnet-5-5"}
    models = {"models": {name: {"model": model} for name, model in names.items()}}
    async with model_server() as provider:
        environment = keys_for(provider.url)
        found = await checked(tmp_path, models, environment=environment)
        assert found["model default"]["said"] == "gpt-5.4-mini has answered a call, which costs a few tokens"
        assert found["model other"]["said"] == "claude-sonnet-5-5 has answered a call, which costs a few tokens"
        assert len(provider.received) == 2
        provider.listed = {"gpt-5.4-mini"}
        found = await checked(tmp_path, models, environment=environment)
        assert found["model default"]["said"] == "gpt-5.4-mini looked up at the provider, at no cost"
        assert len(provider.received) == 3, "the other one is called again"


@pytest.mark.parametrize(
    ("status", "body", "said", "change"),
    [
        (401, {"error": {"message": "no", "code": "invalid_api_key"}}, "refused the server's key", "set the key"),
        (404, {"error": {"message": "no", "code": "model_not_found"}}, "has no language model", "correct the name"),
        (500, None, "language model", "check models.default"),
    ],
    ids=["key", "name", "broken"],
)
async def test_a_model_that_refuses_is_told_with_what_to_change(
    tmp_path: Path, status: int, body: dict[str, Any] | None, said: str, change: str
) -> None:
    async with model_server() as provider:
        provider.reply = lambda messages: Reply(status=status, refusal=body)
        models = {"models": {"default": {"model": "openai:gpt-9"}}}
        found = await checked(tmp_path, models, faulty=True, environment=keys_for(provider.url))
    assert said in found["model default"]["said"] and change in found["model default"]["change"]


async def test_mcp_servers_are_asked_for_the_tools_that_agents_name(tmp_path: Path) -> None:
    def agent(agent_id: str, *tools: str) -> dict[str, Any]:
        uses = [{"id": "http", "require_tools": list(tools)}, {"id": "program", "tools": list(tools)}]
        return {"id": agent_id, "class_path": MCP_AGENT, "tuning": {"mcp_servers": uses}}

    with echo_server("streamable_http", "--open") as server:
        settings = {"mcp_servers": {"http": server.settings(), "program": echo_over_stdio()}}
        found = await checked(tmp_path, settings, agents=[agent("one", "echo")])
        assert "initialised; it lists " in found["mcp http"]["said"]
        agents = [agent("one", "echo"), agent("two", "echo", "ecko")]
        found = await checked(tmp_path, settings, faulty=True, agents=agents)
        for name in ("mcp http", "mcp program"):
            assert found[name]["said"] == "has no tool ecko (agent two)"
            assert found[name]["change"] == "correct tuning.mcp_servers of these agents"
    bad = {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nope"}}}}
    raw = {"mcp_servers": {"raw": raw_server([{"name": "good"}, bad], result={})}}
    said = (await checked(tmp_path, raw))["mcp raw"]["said"]
    assert said == "initialised; it lists 1 tools; left out: bad, the reference '#/$defs/Nope' leads nowhere"
    found = await checked(tmp_path, settings, faulty=True, agents=[agent("one", "echo")])
    assert outcomes(found)["mcp http"] == "fault" and outcomes(found)["mcp program"] == "ok"


async def test_mcp_servers_that_refuse_or_are_no_program(tmp_path: Path) -> None:
    async with refusing() as address:
        servers = {
            "key": {"url": address, "auth": {"mode": "header", "header": "X-Key", "environment": "THE_KEY"}},
            "unset": {"url": address, "auth": {"mode": "header", "header": "X-Key", "environment": "NO_KEY"}},
            "program": {"transport": "stdio", "command": str(tmp_path / "missing")},
        }
        environment = {"THE_KEY": SECRET}
        found = await checked(tmp_path, {"mcp_servers": servers}, faulty=True, environment=environment)
    assert "401" in found["mcp key"]["said"] or "refused the server's credentials" in found["mcp key"]["said"]
    assert "The environment variable NO_KEY is not set" in found["mcp unset"]["said"]
    assert outcomes(found)["mcp program"] == "fault"


async def test_a_program_that_never_answers_and_does_not_end_is_given_up(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    servers = {"deaf": {"transport": "stdio", "command": sys.executable, "args": ["-c", program]}}
    found = await checked(tmp_path, {"mcp_servers": servers}, faulty=True, limit_s=2)
    assert found["mcp deaf"]["said"] == "no answer within 2 s"


async def test_what_a_neighbour_says_is_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    program = """
import json, sys
asked = json.loads(sys.stdin.readline())
error = {"code": -1, "message": "no \\x1b]0;x\\x07\\x1b[31mred\\u202e"}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
sys.stdin.read()
"""
    servers = {"odd": {"transport": "stdio", "command": sys.executable, "args": ["-c", program]}}
    found = await checked(tmp_path, {"mcp_servers": servers}, faulty=True)
    assert r"no \x1b]0;x\x07\x1b[31mred\x202e" in found["mcp odd"]["said"]


async def test_apis_are_asked_for_the_operations_that_agents_name_and_none_is_called(tmp_path: Path) -> None:
    def agent(*operations: str) -> dict[str, Any]:
        return {"id": "one", "model": "default", "apis": [{"id": "crm", "operations": list(operations)}]}

    async with http_api() as api:
        document = f"{api.url}/openapi.json"
        auth = {"mode": "header", "header": "X-Key", "environment": "THE_KEY"}
        gone = f"http://127.0.0.1:{free_port()}"
        settings = {
            "crm": api.settings(document, auth=auth),
            "users": api.settings(document, auth={"mode": "user_token"}),
            "undescribed": api.settings(f"{gone}/openapi.json"),
            "gone": {"document": document, "base_url": gone},
        }
        environment = {"THE_KEY": SECRET}
        found = await checked(
            tmp_path, {"apis": settings}, agents=[agent("getCustomer", "*")], faulty=True, environment=environment
        )
        for name in ("api crm", "api users"):
            assert found[name]["said"] == "its document has 7 operations; its base URL answers 200"
        assert "The OpenAPI document of 'undescribed' can't be fetched" in found["api undescribed"]["said"]
        why = "ConnectError: [Errno 111] Connection refused (127.0.0.1)"
        assert found["api gone"]["said"] == f"its base URL can't be reached: {why}"
        assert found["api gone"]["change"] == "check apis.gone.base_url, and whether that API runs"
        assert {(call["method"], call["path"]) for call in api.seen} == {("GET", "/v1")}
        assert SECRET not in str(api.seen)
        only = {"apis": {"crm": settings["crm"]}}
        found = await checked(tmp_path, only, agents=[agent("getCustomer", "getCustomr")], faulty=True)
        assert found["api crm"]["said"] == "The environment variable THE_KEY is not set"
        found = await checked(tmp_path, only, agents=[agent("getCustomr")], faulty=True, environment=environment)
    assert found["api crm"]["said"].startswith("there is no operation 'getCustomr'")
    assert found["api crm"]["said"].endswith("(agent one)")


@asynccontextmanager
async def refusing() -> AsyncIterator[str]:
    """A server that answers 401 to everything, and quotes what it was sent."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(head) + head)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


@pytest.mark.keycloak
async def test_a_realm_is_read(keycloak: Keycloak, tmp_path: Path) -> None:
    settings = realm_at(keycloak.realm_url)
    found = await checked(tmp_path, settings)
    assert "signing keys read; it tells no time, so the clocks were not compared" in found["realm"]["said"]
    settings = realm_at(f"{keycloak.realm_url}-that-is-not-there")
    found = await checked(tmp_path, settings, faulty=True)
    assert "HTTP 404" in found["realm"]["said"]


async def test_the_clock_of_a_realm_that_tells_its_time_is_compared(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        settings = realm_at(realm.url)
        found = await checked(tmp_path, settings)
        assert "signing keys read; the clocks differ by " in found["realm"]["said"]
        skewed = SkewedClock(tmp_path / "clock", 300)
        skewed.ahead_s = 300
        found = await printed(tmp_path, settings, "--time-limit", 30, expected=1, environment=skewed.environment)
    assert re.search(r"this machine's clock is (?:29|30)\d s ahead of the realm's", found["realm"]["said"])


def realm_at(url: str) -> dict[str, Any]:
    return {"auth": {"mode": "keycloak", "keycloak": {"realm_url": url}}}
