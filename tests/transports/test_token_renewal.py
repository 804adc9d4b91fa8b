"""A run that outlives its user's token goes on with newer ones, whoever brings them, in the same MCP session."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from services.mcp_echo import EchoServer, echo_server
from services.mcp_echo_server import fingerprint
from support import token_agents
from support.chat_client import ChatClient, chat, check_exchange, final_text
from support.further_cases import further
from support.mcp_agents import MODULE
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.token_agents import UNTIL_TOLD_AGAIN

TRANSPORTS = ["streamable_http", "sse"]
LATER = 4_102_444_800
LASTS_S = 3
REFRESHER = {
    "id": "refresher",
    "class_path": f"{MODULE}:Refresher",
    "tuning": {"mcp_servers": [{"id": "remote", "tools": ["whoami"]}]},
}


@pytest.fixture(scope="module", params=TRANSPORTS)
def echo(request: pytest.FixtureRequest) -> Iterator[EchoServer]:
    with echo_server(request.param) as server:
        yield server


@pytest.fixture
async def server(tmp_path: Path, echo: EchoServer) -> AsyncIterator[RunningServer]:
    servers = {"remote": echo.settings(auth={"mode": "user_token"})}
    agents = [*token_agents.ENTRIES, token_agents.ENDURING, REFRESHER]
    async with running_server(tmp_path, agents=agents, settings={"mcp_servers": servers}) as server:
        yield server


def brief() -> str:
    return f"dev:ann:{int(time.time()) + LASTS_S}"


def lasting() -> str:
    """A token that lasts longer than any other so far."""
    return f"dev:ann:{LATER}"


async def told(client: ChatClient) -> list[tuple[str, bool]]:
    """What the agent `enduring` has been told, once its exchange has ended."""
    await client.until("final")
    check_exchange(client.events)
    answers: list[tuple[str, bool]] = [(text, ok) for text, ok in json.loads(final_text(client.events))]
    return answers


async def test_a_run_renews_its_token_by_itself_in_the_same_mcp_session(
    server: RunningServer, echo: EchoServer
) -> None:
    first = brief()
    async with chat(server.address, token=first) as client:
        tokens = {"access_token": first, "refresh_token": lasting()}
        await client.send({"message": str(LASTS_S + 1), "agent_id": "enduring", **tokens})
        *callers, session, count = await told(client)
    assert {text for text, _ in callers} == {fingerprint(first), fingerprint(lasting())}
    assert all(ok for _, ok in callers), "no call has failed"
    assert count == ("1", True)
    assert session[1] and (session[0] != "none") == (echo.transport == "streamable_http")


async def by_authenticate(server: RunningServer, client: ChatClient) -> None:
    await client.send({"type": "authenticate", "access_token": lasting()})


async def by_an_ask_in_another_session(server: RunningServer, client: ChatClient) -> None:
    await client.send({"message": "0", "agent_id": "keeps-its-context", "access_token": lasting()})


async def by_a_refused_frame(server: RunningServer, client: ChatClient) -> None:
    await client.send({"message": "hello", "agent_id": "nobody", "access_token": lasting()})


async def by_another_socket(server: RunningServer, client: ChatClient) -> None:
    async with chat(server.address, token=lasting()):
        pass


async def by_rest(server: RunningServer, client: ChatClient) -> None:
    async with rest(server, lasting()) as http:
        assert (await http.get("/agents")).status_code == 200


BROUGHT = [by_an_ask_in_another_session, by_a_refused_frame, by_another_socket, by_rest]


# Who brings a token knows nothing of the MCP session, which takes the newest one in both transports.
@pytest.mark.parametrize(
    ("echo", "bring"),
    [
        ("streamable_http", by_authenticate),
        *(("streamable_http", bring) for bring in BROUGHT),
        ("sse", by_authenticate),
        *(further("sse", bring) for bring in BROUGHT),
    ],
    indirect=["echo"],
)
async def test_a_newer_token_reaches_what_runs_already(server: RunningServer, bring: Any) -> None:
    first = brief()
    mode = {"mode": "query"} if bring is by_rest else {}
    async with chat(server.address, token=first) as client, chat(server.address, token=first) as other:
        await client.send({"message": UNTIL_TOLD_AGAIN, "agent_id": "enduring", **mode})
        # A call comes every 0.3 s, so that some fail before there is another token.
        await asyncio.sleep(int(first.rpartition(":")[2]) + 1.5 - time.time())
        await bring(server, other)
        *callers, _, count = await told(client)
    failed = {text for text, ok in callers if not ok}
    assert failed == {
        "The MCP server 'remote' can't be asked in the user's name: "
        "The access token has expired, and there is no refresh token to renew it with."
    }
    assert callers[0] == (fingerprint(first), True)
    assert callers[-1] == (fingerprint(lasting()), True)
    assert count == ("1", True), "in the session that it began with"


async def test_a_renewal_with_an_access_token_alone_keeps_the_refresh_token(server: RunningServer) -> None:
    newer = f"dev:ann:{LATER - 1}"
    async with chat(server.address) as client:
        await client.send({"type": "authenticate", "access_token": f"dev:ann:{LATER - 2}", "refresh_token": lasting()})
        await client.send({"type": "authenticate", "access_token": newer})
        events = await client.ask("go", agent_id="refresher")
        check_exchange(events)
    assert final_text(events) == f"{fingerprint(newer)}, then {fingerprint(lasting())}"


async def test_code_that_kept_an_earlier_context_sees_the_newest_token(server: RunningServer) -> None:
    async with chat(server.address, token=f"dev:ann:{LATER - 1}") as client:
        first = await client.ask("x", agent_id="keeps-its-context")
        session = {"session_id": first[-1]["session_id"]}
        second = await client.ask("x", access_token=lasting(), **session)
    assert [final_text(first), final_text(second)] == [fingerprint(f"dev:ann:{LATER - 1}"), fingerprint(lasting())]


@pytest.mark.parametrize("echo", ["streamable_http", further("sse")], indirect=True)
async def test_the_token_of_one_user_reaches_no_run_of_another(server: RunningServer) -> None:
    first = brief()
    async with chat(server.address, token=first) as client, chat(server.address, token=f"dev:bob:{LATER}") as bob:
        await client.send({"message": str(LASTS_S + 2), "agent_id": "enduring"})
        await bob.send(
            {"type": "authenticate", "access_token": f"dev:bob:{LATER}", "refresh_token": f"dev:bob:{LATER}"}
        )
        *callers, _, _ = await told(client)
    assert {text for text, ok in callers if ok} == {fingerprint(first)}
    assert not callers[-1][1]
