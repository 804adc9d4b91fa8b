"""The WebSocket, driven over real sockets."""

from support.chat_client import chat, check_exchange, final_text
from support.running_server import RunningServer


async def test_an_ask_streams_an_answer_and_ends_with_one_final(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("my name is Zorblax")
        check_exchange(events)
        assert "Zorblax" in final_text(events)
        session_id = events[0]["session_id"]
        events = await client.ask("what is my name?", session_id=session_id)
        check_exchange(events)
        assert final_text(events) == "Your name is Zorblax."


async def test_tools_called_in_one_message_each_have_a_result(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("What time is it in Tokyo, and what is 12*34?")
    check_exchange(events)
    [calls] = [e["message"] for e in events if e["type"] == "stream" and e["message"]["channel"] == "tool_call"]
    assert [part["name"] for part in calls["parts"]] == ["current_time", "calculate"]
    assert "408" in final_text(events)


async def test_a_graph_that_raises_tells_of_its_exception_in_the_detail_only(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", agent_id="raising")
    check_exchange(events)
    error = events[-1]["error"]
    assert error["code"] == "internal"
    assert "secret" not in str(events).replace(str(error["detail"]), "")


async def test_an_interrupt_waits_until_it_is_stopped(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
        [request] = waiting["payload"]["requests"]
        assert request["question"] == "Which one?"
        assert [choice["id"] for choice in request["choices"]] == ["left", "right"]
        await client.send({"type": "stop", "session_id": waiting["session_id"]})
        final = await client.until("final")
        assert final["status"] == "stopped"
        events = await client.ask("hello again", agent_id="echo", session_id=waiting["session_id"])
        assert final_text(events) == "echo: hello again"


async def test_the_title_of_a_session_never_shows_up_in_its_exchange(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("write 300 words")
        check_exchange(events)
        await client.named()
        [named] = [event for event in client.events if event["type"] == "session"]
    assert len(events[-1]["messages"]) == 2
    assert named["session"]["title"] not in str(events[-1]["messages"])
