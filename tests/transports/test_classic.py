"""Older clients: sockets without a subprotocol, and the REST calls that they know."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from graphs.parallel_models import first_words_together
from support.chat_client import ChatClient, chat, is_answer, text_of
from support.older_client import older_client
from support.rest_client import error_of, plain_http
from support.running_server import RunningServer, running_server

CLASSIC_TYPES = {"stream", "awaiting_human", "final", "error"}


def classic(server: RunningServer, **options: Any) -> Any:
    return chat(server.address, subprotocols=None, **options)


async def answer_to(client: ChatClient, **ask: Any) -> list[dict[str, Any]]:
    """All events until the final or an error, as an older client reads them."""
    await client.send(json.dumps(ask))
    events = [await client.receive()]
    while events[-1]["type"] not in ("final", "error"):
        events.append(await client.receive())
    return events


def is_delta(event: dict[str, Any]) -> bool:
    return event["type"] == "stream" and event["message"]["metadata"]["extras"].get("streaming_delta") is True


async def test_only_the_classic_events_arrive_and_none_has_a_seq(server: RunningServer) -> None:
    async with classic(server) as client:
        assert client.socket.subprotocol is None
        events = await answer_to(client, message="What time is it in Tokyo, and what is 12*34?")
        await client.send({"type": "ping"})
        await client.silent()
    assert {event["type"] for event in client.events} <= CLASSIC_TYPES
    assert not any("seq" in event for event in client.events)
    assert [e["message"] for e in events if e["type"] == "stream" and not is_delta(e)] == events[-1]["messages"]


async def test_deltas_name_the_rank_that_the_message_gets(server: RunningServer) -> None:
    async with classic(server) as client:
        events = await answer_to(client, message="think about cats and what is 2+3")
    written: dict[int, str] = {}
    for event in events:
        if is_delta(event):
            [part] = event["message"]["parts"]
            written[event["message"]["rank"]] = written.get(event["message"]["rank"], "") + part["text"]
    texts = {m["rank"]: text_of(m) for m in events[-1]["messages"] if m["role"] == "assistant" and text_of(m)}
    assert written == texts


async def test_the_first_text_comes_at_once_and_more_at_most_every_100_ms(server: RunningServer) -> None:
    async with classic(server) as client:
        events = await answer_to(client, message="count down slowly from 5")
        deltas = [event for event in events if is_delta(event)]
        assert 2 <= len(deltas) <= 7
        assert deltas[0]["message"]["parts"][0]["text"].startswith("5")


async def test_an_ask_of_the_earlier_protocol_is_understood(server: RunningServer) -> None:
    ask = {"agent_name": "echo", "message": "hello", "session_id": None, "client_exchange_id": None}
    async with classic(server) as client:
        events = await answer_to(client, **ask, runtime_context=None, access_token=None, refresh_token=None)
        session = events[-1]["session"]
        assert session["agent_id"] == "echo"
        again = await answer_to(client, message="again", session_id=session["id"], agent_name="echo")
        assert [m["rank"] for m in again[-1]["messages"]] == [2, 3]


async def test_a_bad_frame_gets_an_error_and_the_socket_stays_open(server: RunningServer) -> None:
    async with classic(server) as client:
        for bad in ("no json", "[]", '{"message": 5}', '{"message": "x", "foo": 1}'):
            await client.send(bad)
            refusal = await client.receive()
            assert (refusal["type"], refusal["code"]) == ("error", "bad_frame")
        events = await answer_to(client, message="hello", agent_name="echo")
        assert events[-1]["status"] == "ok"


async def test_an_exchange_has_the_id_that_its_client_gave_it(server: RunningServer) -> None:
    """Such a client shows its question under that id, and replaces it by the stored message of the same one."""
    async with classic(server) as client, plain_http(base_url=f"{server.address}/agentic/v1") as rest:
        events = await answer_to(client, message="think about cats and what is 2+3", client_exchange_id="mine")
        assert {event["exchange_id"] for event in events} == {"mine"}
        assert {event["message"]["exchange_id"] for event in events if event["type"] == "stream"} == {"mine"}
        session_id = events[-1]["session"]["id"]
        history = (await rest.get(f"/chatbot/session/{session_id}/history")).json()
        assert history == events[-1]["messages"]
        assert {message["exchange_id"] for message in history} == {"mine"}
        # Newer clients know an exchange by the server's id, wherever it was asked.
        [exchange_id] = {
            message["exchange_id"]
            for message in (await rest.get(f"/sessions/{session_id}/messages")).json()["messages"]
        }
        assert exchange_id != "mine"
        again = await answer_to(client, message="think about cats and what is 2+3", client_exchange_id="mine")
        assert again[-1]["messages"] == history
        unnamed = await answer_to(client, message="hello", session_id=session_id)
        both = (await rest.get(f"/chatbot/session/{session_id}/history")).json()
        assert both == [*history, *unnamed[-1]["messages"]]


async def test_two_users_may_give_the_same_id(server: RunningServer) -> None:
    async with classic(server, token="dev:alice") as alice, classic(server, token="dev:bob") as bob:
        one = await answer_to(alice, message="echo one", client_exchange_id="mine")
        two = await answer_to(bob, message="echo two", client_exchange_id="mine")
        assert {event["exchange_id"] for event in [*one, *two]} == {"mine"}
        assert [text_of(events[-1]["messages"][-1]) for events in (one, two)] == ["one", "two"]


async def test_a_failure_has_the_clients_id_too(server: RunningServer) -> None:
    async with classic(server) as client:
        await client.send({"message": "fail at once", "client_exchange_id": "mine"})
        error, final = await client.until("error"), await client.until("final")
        assert (error["exchange_id"], final["exchange_id"], final["status"]) == ("mine", "mine", "error")


async def test_an_exchange_is_stopped_and_followed_by_its_clients_id(server: RunningServer) -> None:
    async with classic(server) as client, classic(server) as other:
        await client.send({"message": "count down slowly from 500", "client_exchange_id": "mine"})
        began = await client.until("stream")
        await other.send({"type": "follow", "exchange_id": "mine"})
        assert (await other.until("stream"))["message"] == began["message"]
        await other.send({"type": "stop", "exchange_id": "mine"})
        finals = [await one.until("final") for one in (client, other)]
        assert [(final["exchange_id"], final["status"]) for final in finals] == [("mine", "stopped")] * 2


async def test_an_exchange_has_its_clients_id_also_on_a_new_socket_of_a_new_server(tmp_path: Path) -> None:
    agents = [{"id": "plain", "class_path": "graphs.older_questions:plain"}]
    async with running_server(tmp_path, agents=agents) as server, classic(server) as client:
        await client.send({"message": "go", "agent_id": "plain", "client_exchange_id": "mine"})
        session_id = (await client.until("awaiting_human"))["session_id"]
    async with running_server(tmp_path, agents=agents) as server:
        async with plain_http(base_url=f"{server.address}/agentic/v1") as rest:
            exchange_id = (await rest.get(f"/sessions/{session_id}")).json()["active_exchange_id"]
        assert exchange_id != "mine"
        for named in ({"session_id": session_id}, {"exchange_id": exchange_id, "after_seq": 1_000_000}):
            async with classic(server) as client:
                await client.send({"type": "follow", **named})
                await client.until("awaiting_human")
                await client.send({"type": "unfollow", "session_id": session_id})
                await client.send({"type": "follow", **named})
                await client.until("awaiting_human")
                assert {event["exchange_id"] for event in client.events} == {"mine"}
        async with classic(server) as client:
            await client.send({"type": "stop", "session_id": session_id})
            assert (await client.until("final"))["exchange_id"] == "mine"


async def test_texts_that_are_written_at_once_never_share_a_rank(tmp_path: Path) -> None:
    agents = [{"id": "parallel", "class_path": "graphs.parallel_models:graph"}]
    async with running_server(tmp_path, agents=agents) as server, older_client(server.address) as client:
        with first_words_together():
            await client.begin("go", agent_id="parallel")
            final = await client.until("final")
        assert sum(is_delta(event) for event in client.events) >= 2
        assert [message for _, message in client.shown.values()] == final["messages"]
        assert all(is_stored for is_stored, _ in client.shown.values())
        # The client fails where text is added to a stored message; here each rank's text is of one of the speakers.
        for event in filter(is_delta, client.events):
            assert len({"left", "right"} & set(text_of(event["message"]).split())) <= 1


async def test_two_sockets_in_one_session_never_mix_their_exchanges(server: RunningServer) -> None:
    async with classic(server) as one, classic(server) as two:
        first = await answer_to(one, message="remember that cats purr")
        session_id = first[-1]["session"]["id"]

        async def ask_until_admitted(client: ChatClient, text: str) -> list[dict[str, Any]]:
            while True:
                events = await answer_to(client, message=text, session_id=session_id)
                if events[-1]["type"] == "final":
                    return events
                assert events[-1]["code"] == "session_busy"
                await asyncio.sleep(0.01)

        both = await asyncio.gather(ask_until_admitted(one, "echo one"), ask_until_admitted(two, "echo two"))
        ranks = [message["rank"] for events in both for message in events[-1]["messages"]]
        assert len(set(ranks)) == len(ranks)
        for events in both:
            asked, answered = events[-1]["messages"][0], next(m for m in events[-1]["messages"] if is_answer(m))
            assert text_of(answered) == text_of(asked).removeprefix("echo ")


async def test_the_older_rest_calls(server: RunningServer) -> None:
    async with plain_http(base_url=f"{server.address}/agentic/v1/chatbot", timeout=10) as rest:
        opened = (await rest.post("/session", json={"agent_id": "echo", "title": "Old"})).json()
        assert (opened["agent_id"], opened["title"]) == ("echo", "Old")
        async with classic(server) as client:
            events = await answer_to(client, message="hello", session_id=opened["id"])
        assert [session["id"] for session in (await rest.get("/sessions")).json()] == [opened["id"]]
        assert (await rest.get(f"/session/{opened['id']}/history")).json() == events[-1]["messages"]
        assert (await rest.delete(f"/session/{opened['id']}")).status_code == 204
        assert (await rest.get(f"/session/{opened['id']}/history")).status_code == 404
        assert (await rest.get("/sessions")).json() == []


async def test_a_session_is_opened_with_keys_that_mean_nothing_here(server: RunningServer) -> None:
    body = {"agent_id": "echo", "title": None, "team_id": "a team", "whatever": {"x": 1}}
    async with plain_http(base_url=f"{server.address}/agentic/v1", timeout=10) as rest:
        assert (await rest.post("/chatbot/session", json=body)).json()["agent_id"] == "echo"
        named = {"agent_name": "echo"}
        assert (await rest.post("/chatbot/session", json=named)).json()["agent_id"] == "echo"
        assert (await rest.post("/chatbot/session")).status_code == 200
        assert (await rest.get("/chatbot/sessions", params={"team_id": "a team"})).status_code == 200
        for path, wrong in (("/chatbot/session", {"agent_id": 5}), ("/sessions", body)):
            refused = await rest.post(path, json=wrong)
            assert (refused.status_code, error_of(refused)["code"]) == (400, "bad_frame")


async def test_the_end_of_a_history_is_read_page_by_page(server: RunningServer) -> None:
    async with classic(server) as client, plain_http(base_url=f"{server.address}/agentic/v1/chatbot") as rest:
        session_id = (await answer_to(client, message="one", agent_id="echo"))[-1]["session"]["id"]
        for word in ("two", "three"):
            await answer_to(client, message=word, session_id=session_id)
        path = f"/session/{session_id}/history"

        async def ranks(**query: Any) -> list[int]:
            return [message["rank"] for message in (await rest.get(path, params=query)).json()]

        assert await ranks() == [0, 1, 2, 3, 4, 5]
        assert await ranks(limit=1) == [5]
        assert await ranks(limit=4) == [2, 3, 4, 5]
        assert await ranks(limit=100) == [0, 1, 2, 3, 4, 5]
        assert await ranks(limit=4, offset=4) == [0, 1]
        assert await ranks(limit=2, offset=2) == [2, 3]
        assert await ranks(limit=4, offset=6) == []
        for wrong in ("0", "-1", "x", "", "1.5", "9" * 30):
            refused = await rest.get(path, params={"limit": wrong})
            assert (refused.status_code, error_of(refused)["code"]) == (400, "bad_frame")
            assert error_of(refused)["content"].startswith("limit:")
        for wrong in ({"limit": 1, "offset": -1}, {"offset": "x"}, {"offset": 2}):
            refused = await rest.get(path, params=wrong)
            assert (refused.status_code, error_of(refused)["code"]) == (400, "bad_frame")
            assert error_of(refused)["content"].startswith("offset:")


@pytest.mark.parametrize("limit", [{}, {"limit": 5}])
async def test_the_history_of_an_empty_session_is_empty(server: RunningServer, limit: dict[str, int]) -> None:
    async with plain_http(base_url=f"{server.address}/agentic/v1/chatbot") as rest:
        session_id = (await rest.post("/session", json={})).json()["id"]
        assert (await rest.get(f"/session/{session_id}/history", params=limit)).json() == []
        assert (await rest.get("/session/nothing/history", params=limit)).status_code == 404


async def test_a_frame_without_type_is_refused_as_an_ask(server: RunningServer) -> None:
    async with classic(server) as older, chat(server.address) as newer:
        for client in (older, newer):
            for frame in ({"message": 5}, {"message": "x", "type": None, "foo": 1}):
                await client.send(frame)
                assert (await client.receive())["refused"] == "ask"
