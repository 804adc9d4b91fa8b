"""What people read after a reload has the order in which they saw it."""

from graphs.talk import ask
from support.chat_client import text_of
from support.rest_client import rest
from support.running_server import RunningServer

AGENTS = [{"id": "asides", "class_path": "graphs.asides:graph"}]


async def test_texts_are_read_in_the_order_in_which_they_streamed(server: RunningServer) -> None:
    events = await ask(server.address, "Go", agent_id="asides")
    shown: dict[int, str] = {}
    for event in events:
        if event["type"] == "delta":
            shown[event["block"]] = shown.get(event["block"], "") + event["text"]
    async with rest(server) as http:
        stored = (await http.get(f"/sessions/{events[0]['session_id']}/messages")).json()["messages"]
    assert list(shown.values()) == [text_of(message) for message in stored[1:]] == ["first", "second", "third"]
