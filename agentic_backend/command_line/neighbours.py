"""Neighbours: what the server talks to, each checked by a real connection for `agentic-backend validate --deep`.

All are checked in parallel, each within the time limit. No secret reaches what is printed.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

from agentic_backend.agents.agent_factory import secrets_among
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.models.model_check import check_embedding, check_model
from agentic_backend.apis.api_check import check_api
from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.disclosure.exception_detail import text_of, type_of
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.disclosure.redaction import redact
from agentic_backend.hosting.application_check import check_application, check_records
from agentic_backend.loop.event_loop import command_loop
from agentic_backend.mcp.server_check import check_mcp_server
from agentic_backend.server.reload.configuration import Configuration
from agentic_backend.stores.checking import check_journal, check_store, stored_kinds
from agentic_backend.telemetry.formatters import printable

# What a check may take beyond its limit, to close what it has opened: an MCP server's program is given six seconds.
_MORE_S = 7.0
# What a check that was given up may take to hear of it.
_GIVEN_UP_S = 1.0
# A neighbour's own words may be long.
_LONGEST = 500

Outcome = Literal["ok", "fault", "skipped"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a check has found; `said` is that in words, `change` what to change after a fault."""

    kind: str
    name: str
    outcome: Outcome
    ms: int
    said: str
    change: str = ""

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.kind, self.name)))
        took = f"{self.ms} ms, " if self.outcome != "skipped" else ""
        return "; ".join(filter(None, (f"{self.outcome:<8} {what}: {took}{self.said}", self.change)))

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Neighbour:
    kind: str
    name: str
    check: Callable[[], Awaitable[str]] | None
    """Says what it has found, or raises; None if there is nothing to check."""
    skipped: str = ""
    """Why there is nothing to check."""


def check_all(configuration: Configuration, models: ChatModels, limit_s: float) -> Sequence[Found]:
    """Connect to all neighbours; each has `limit_s` seconds, and all of them little more."""
    settings = configuration.settings
    known = {*secrets_among(models, settings.mcp_servers), *secrets_in(settings.model_dump())}
    # The longest first, since one may be part of another.
    secrets = sorted(known, key=len, reverse=True)
    neighbours = list(_neighbours(configuration, models, limit_s))
    with command_loop() as loop:
        return loop.run_until_complete(_check_all(neighbours, limit_s, secrets))


def _neighbours(configuration: Configuration, models: ChatModels, limit_s: float) -> Iterator[_Neighbour]:
    settings = configuration.settings
    yield _Neighbour("store", "", partial(_check_store, configuration, limit_s))
    yield _redis(settings, limit_s)
    yield _realm(settings, limit_s)
    for name in sorted({*settings.models, *configuration.models} - models.missing(configuration.models)):
        yield _Neighbour("model", name, partial(check_model, name, models.get(name)))
    for name, embedding in sorted(models.embeddings.models.items()):
        yield _Neighbour("embedding", name, partial(check_embedding, name, embedding))
    named = _named_tools(configuration)
    for server_id, server in sorted(settings.mcp_servers.items()):
        yield _mcp_server(server_id, server, named[server_id], limit_s)
    operations = _named_operations(configuration)
    for api_id, api in sorted(settings.apis.items()):
        yield _Neighbour("api", api_id, partial(check_api, api_id, api, operations[api_id]))
    for loaded in configuration.applications.loaded:
        yield _Neighbour("application", loaded.id, partial(check_application, loaded, models, limit_s))


async def _check_store(configuration: Configuration, limit_s: float) -> str:
    opened = await check_store(configuration.settings, limit_s)
    stored = await stored_kinds(configuration.settings, limit_s)
    journal = await check_journal(configuration.settings)
    return f"{opened}; {journal}{check_records(stored, configuration.applications.loaded)}"


def _redis(settings: Settings, limit_s: float) -> _Neighbour:
    url = settings.broadcast.url
    if url is None:
        return _Neighbour("redis", "", None, "broadcast.url is not set; one server needs none, whatever its workers")
    # Few servers have one; imported before its time runs.
    from agentic_backend.relay.redis.check import check_redis

    return _Neighbour("redis", "", partial(check_redis, url, limit_s))


def _realm(settings: Settings, limit_s: float) -> _Neighbour:
    if settings.auth.mode == "developer":
        return _Neighbour("realm", "", None, "auth.mode is developer, which asks nobody")
    # The import takes a quarter of a second.
    from agentic_backend.auth.realm_check import check_realm

    return _Neighbour("realm", "", partial(check_realm, settings.auth.keycloak, limit_s))


def _mcp_server(
    server_id: str, server: McpServerSettings, named: dict[str, Collection[str]], limit_s: float
) -> _Neighbour:
    if server.auth.is_of_user:
        return _Neighbour("mcp", server_id, None, "takes the user's token, and nobody is signed in")
    return _Neighbour("mcp", server_id, partial(check_mcp_server, server_id, server, named, limit_s))


def _named_tools(configuration: Configuration) -> dict[str, dict[str, Collection[str]]]:
    """The tools that each agent names, by the MCP server and the agent's id."""
    named: dict[str, dict[str, Collection[str]]] = defaultdict(dict)
    for agent in configuration.agents.served():
        for use in agent.settings.tuning.mcp_servers:
            named[use.id][agent.settings.id] = {*use.require_tools, *(use.tools or ())}
    return named


def _named_operations(configuration: Configuration) -> dict[str, dict[str, Sequence[str]]]:
    """The operations that each agent names, by the API and the agent's id."""
    named: dict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    for agent in configuration.agents.served():
        for use in agent.settings.apis:
            named[use.id][agent.settings.id] = use.operations
    return named


async def _check_all(neighbours: Sequence[_Neighbour], limit_s: float, secrets: Collection[str]) -> list[Found]:
    checks = [asyncio.create_task(_check(neighbour, limit_s, secrets)) for neighbour in neighbours]
    await asyncio.wait(checks, timeout=limit_s + _MORE_S)
    found = []
    for neighbour, check in zip(neighbours, checks, strict=True):
        if check.done():
            found.append(check.result())
        else:
            check.cancel()
            took_ms = round((limit_s + _MORE_S) * 1000)
            found.append(Found(neighbour.kind, neighbour.name, "fault", took_ms, "does not end, though its time is up"))
    # Code that ignores its cancellation ends with the process.
    await asyncio.wait({*checks}, timeout=_GIVEN_UP_S)
    return found


async def _check(neighbour: _Neighbour, limit_s: float, secrets: Collection[str]) -> Found:
    kind, name, began = neighbour.kind, neighbour.name, time.monotonic()
    if neighbour.check is None:
        return Found(kind, name, "skipped", 0, neighbour.skipped)

    def found(outcome: Outcome, said: str, change: str = "") -> Found:
        # A neighbour's words reach a terminal.
        told = printable(" ".join(redact(said, secrets).split()))[:_LONGEST].rstrip(".")
        return Found(kind, name, outcome, round((time.monotonic() - began) * 1000), told, change)

    try:
        async with asyncio.timeout(limit_s):
            return found("ok", await neighbour.check())
    except TimeoutError:
        return found("fault", f"no answer within {limit_s:g} s", "check its address, and the network to it")
    except CheckFailed as error:
        return found("fault", str(error), error.change)
    except Exception as error:
        # A library may raise anything; a person reads it here.
        return found("fault", f"{type_of(error)}: {text_of(error, secrets)}")
