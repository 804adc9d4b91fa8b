"""What is refused at any door is counted by the door, and by one person if most of it is theirs."""

from pathlib import Path

import pytest
from support.chat_client import chat
from support.rest_client import metric_at, plain_http, rest
from support.running_server import running_server
from support.signing_realm import signing_realm
from websockets.exceptions import ConnectionClosed, InvalidStatus

FOREIGN = "https://elsewhere.example"


async def refusals(internal: str, door: str, reason: str) -> float:
    return await metric_at(internal, f'chat_door_refusals_total{{door="{door}",reason="{reason}"}}')


async def test_one_person_is_counted_at_each_door_and_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    settings = {"limits": {"sockets_per_user": 1}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address, token="dev:mallory") as own:
        async with rest(server, "dev:mallory") as http:
            for _ in range(58):
                assert (await http.get("/sessions/unknown")).status_code == 404
        with pytest.raises(ConnectionClosed):
            async with chat(server.address, token="dev:mallory") as second:
                await second.until("final")
        async with rest(server, "dev:alice") as http:
            assert (await http.get("/sessions/unknown")).status_code == 404
        for _ in range(2):
            await own.send({"type": "follow", "session_id": "unknown"})
            await own.until("error")
        assert await refusals(server.internal, "rest", "session_not_found") == 59
        assert await refusals(server.internal, "socket", "rate_limited") == 1
        assert await refusals(server.internal, "frame", "session_not_found") == 2
        # The minute may turn meanwhile.
        assert 58 < await metric_at(server.internal, "chat_refusals_of_one_person") <= 61
    lines = [vars(record) for record in caplog.records]
    assert [line["user_id"] for line in lines if line["message"] == "one person is refused often"] == ["mallory"]
    assert [line["user_id"] for line in lines if line["message"] == "socket refused"] == ["mallory"]


async def test_a_refused_frame_counts_as_what_it_would_have_been(tmp_path: Path) -> None:
    frames = {"{": "ask", '{"message": 7}': "ask", '{"type": "human_resume"}': "decision", '{"type": "stop"}': None}
    async with running_server(tmp_path) as server, chat(server.address) as client:
        counted = {"ask": 0.0, "decision": 0.0}
        for frame, call in frames.items():
            await client.send(frame)
            assert (await client.until("error"))["code"] == "bad_frame"
            if call is not None:
                counted[call] += 1
            name = 'chat_refused_total{{call="{}",code="bad_frame",whose="client"}}'
            assert {call: await metric_at(server.internal, name.format(call)) for call in counted} == counted
        assert await refusals(server.internal, "frame", "bad_frame") == len(frames)


async def test_a_foreign_page_and_name_are_counted_at_each_door(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, plain_http() as http:
        for headers in ({"Origin": FOREIGN}, {"Host": "elsewhere.example"}):
            assert (await http.get(f"{server.address}/agentic/v1/agents", headers=headers)).status_code in (400, 403)
        with pytest.raises(InvalidStatus):
            async with chat(server.address, origin=FOREIGN):
                pass
        assert await refusals(server.internal, "rest", "origin") == 1
        assert await refusals(server.internal, "rest", "host") == 1
        assert await refusals(server.internal, "socket", "origin") == 1


async def test_each_way_in_counts_what_becomes_of_its_token(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        settings = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}}
        right, wrong = realm.sign(), realm.sign(azp="somebody-else")
        async with running_server(tmp_path, settings=settings) as server, plain_http(base_url=server.address) as http:

            async def checked(door: str, outcome: str) -> float:
                name = f'chat_tokens_checked_total{{door="{door}",outcome="{outcome}"}}'
                return await metric_at(server.internal, name)

            path = "/agentic/v1/sessions"
            for header in (None, "Basic YTpi", f"Bearer {wrong}", f"Bearer {right}"):
                await http.get(path, headers={"Authorization": header} if header else {})
            for outcome in ("missing", "malformed", "azp", "accepted"):
                assert await checked("rest", outcome) == 1, outcome
            for first in ({"type": "ping"}, {"type": "authenticate", "access_token": "nonsense"}):
                with pytest.raises(ConnectionClosed):
                    async with chat(server.address) as client:
                        await client.send(first)
                        await client.until("final")
            async with chat(server.address, token=right) as client:
                await client.send({"type": "authenticate", "access_token": wrong})
                with pytest.raises(ConnectionClosed):
                    await client.until("final")
            for outcome in ("missing", "malformed", "accepted"):
                assert await checked("socket", outcome) == 1, outcome
            assert await checked("frame", "azp") == 1
