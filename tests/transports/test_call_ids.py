"""The ids of a call: taken over from the client where they are well-formed, answered, and in each line of the log."""

import json
import re
from pathlib import Path

import pytest
from support.chat_client import PATH, chat, check_exchange
from support.rest_client import error_of, plain_http, rest
from support.running_server import running_server
from support.server_process import serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAMED = {"X-Request-Id": "order-17/a", "traceparent": f"00-{TRACE}-{SPAN}-01"}
NEW_ID = re.compile(r"[0-9a-f]{32}")
MALFORMED = ["", "a b", 'quo"te', "x" * 129, "ünicode".encode("latin-1").decode("latin-1")]


def trace_of(traceparent: str) -> tuple[str, str]:
    """The ids of the trace and of the span."""
    found = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0[01]", traceparent)
    assert found is not None, traceparent
    return found[1], found[2]


async def test_a_request_keeps_the_ids_that_its_client_has_sent(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, rest(server, **NAMED) as client:
        for path, status in (("/agents", 200), ("/sessions/unknown", 404), ("/no/such/path", 404)):
            answer = await client.get(path)
            assert answer.status_code == status
            assert answer.headers["x-request-id"] == NAMED["X-Request-Id"]
            trace, span = trace_of(answer.headers["traceparent"])
            assert trace == TRACE and span != SPAN
            if status != 200:
                assert error_of(answer)["request_id"] == NAMED["X-Request-Id"]


@pytest.mark.parametrize("malformed", MALFORMED)
async def test_a_malformed_id_is_replaced_and_never_echoed(tmp_path: Path, malformed: str) -> None:
    sent = {"X-Request-Id": malformed.encode("latin-1"), "traceparent": b"00-" + malformed.encode("latin-1")}
    async with running_server(tmp_path) as server, plain_http() as client:
        answer = await client.get(f"{server.address}/agentic/v1/agents", headers=sent)
    assert NEW_ID.fullmatch(answer.headers["x-request-id"])
    assert trace_of(answer.headers["traceparent"])[0] != TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "00-" + "0" * 32 + f"-{SPAN}-01",
        f"00-{TRACE}-" + "0" * 16 + "-01",
        f"ff-{TRACE}-{SPAN}-01",
        TRACE,
        NAMED["traceparent"].upper(),
    ],
)
async def test_a_malformed_traceparent_begins_a_new_trace(tmp_path: Path, traceparent: str) -> None:
    async with running_server(tmp_path) as server, rest(server, traceparent=traceparent) as client:
        assert trace_of((await client.get("/agents")).headers["traceparent"])[0] != TRACE


async def test_refusals_before_any_route_are_answered_with_the_ids(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, rest(server, **NAMED) as client:
        foreign = await client.get("/agents", headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert foreign.headers["x-request-id"] == NAMED["X-Request-Id"]
        url = server.address.replace("http", "ws") + PATH
        for refused in ({"origin": "https://evil.example"}, {"subprotocols": ["chat.v9"]}):
            with pytest.raises(InvalidStatus) as raised:
                async with connect(url, additional_headers=NAMED, **refused):
                    pass
            headers = raised.value.response.headers
            assert headers["x-request-id"] == NAMED["X-Request-Id"]
            assert trace_of(headers["traceparent"])[0] == TRACE


async def test_an_upgrade_names_the_ids_of_all_that_is_asked_over_it(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        async with chat(server.address, additional_headers=NAMED) as client:
            assert client.socket.response is not None
            answered = client.socket.response.headers
            assert answered["x-request-id"] == NAMED["X-Request-Id"]
            assert trace_of(answered["traceparent"])[0] == TRACE
            events = await client.ask("hello")
            check_exchange(events)
            await client.send({"type": "stop"})
            assert (await client.until("error"))["request_id"] == NAMED["X-Request-Id"]
        assert await server.stop() == 0
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    of_exchange = [line for line in lines if line.get("exchange_id") == events[0]["exchange_id"]]
    assert {line["message"] for line in of_exchange} >= {"exchange started", "exchange ended"}
    ids = (NAMED["X-Request-Id"], TRACE)
    assert [line for line in of_exchange if (line["request_id"], line.get("trace_id")) != ids] == [], json.dumps(
        of_exchange[0]
    )


async def test_asks_of_a_socket_without_ids_have_ids_of_their_own(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, chat(server.address) as client:
        ids = set()
        for _ in range(2):
            await client.send({"type": "stop"})
            ids.add((await client.until("error"))["request_id"])
        assert len(ids) == 2
