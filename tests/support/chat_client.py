"""A Chat Protocol v2 client for tests: a real socket, with the contract's invariants checked on every event."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

PATH = "/agentic/v1/chatbot/query/ws"
PATIENCE_S = 30
TOKEN_S = 6
"""How long a token lasts, in whole seconds of the clock: longer than a slow machine takes to use it."""

Event = dict[str, Any]


class ChatClient:
    """Keeps all received events in `events`. Seqs must rise within an exchange, except after a new `follow`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[Event] = []

    async def send(self, frame: dict[str, Any] | str | bytes) -> None:
        await self.socket.send(json.dumps(frame) if isinstance(frame, dict) else frame)

    async def receive(self, timeout_s: float = PATIENCE_S) -> Event:
        async with asyncio.timeout(timeout_s):
            event: Event = json.loads(await self.socket.recv())
        self.events.append(event)
        return event

    async def until(self, *types: str, exchange_id: str | None = None, timeout_s: float = PATIENCE_S) -> Event:
        """The next event of one of these types, and of `exchange_id` if it is given."""
        async with asyncio.timeout(timeout_s):
            while True:
                event = await self.receive(timeout_s)
                if event["type"] in types and exchange_id in (None, event.get("exchange_id")):
                    return event

    async def ask(self, message: str, **fields: Any) -> list[Event]:
        """Ask; return all events up to the final or a refusal, without `session` events."""
        before = len(self.events)
        await self.send({"type": "ask", "message": message, **fields})
        await self.ended()
        return [event for event in self.events[before:] if event["type"] != "session"]

    async def running(self, message: str, *, words: int, **fields: Any) -> Event:
        """Ask, and return the `started` once the deltas of the exchange hold this many words."""
        await self.send({"message": message, **fields})
        started = await self.until("started")
        said = ""
        while len(said.split()) < words:
            said += (await self.until("delta", exchange_id=started["exchange_id"]))["text"]
        return started

    async def named(self, session_id: str | None = None) -> None:
        """Wait until this session, or any one, is named; that comes after its first final."""
        while not any(
            event["type"] == "session" and session_id in (None, event["session"]["id"]) for event in self.events
        ):
            await self.receive()

    async def ended(self) -> Event:
        """The next final or refusal."""
        while True:
            event = await self.receive()
            if event["type"] == "final" or "refused" in event or is_refusal(event):
                return event

    async def silent(self, for_s: float = 0.2) -> None:
        """Check that nothing arrives for a while."""
        try:
            event = await self.receive(for_s)
        except TimeoutError:
            return
        raise AssertionError(f"expected silence, received {event['type']}")


@asynccontextmanager
async def chat(address: str, *, token: str | None = None, query: str = "", **options: Any) -> AsyncIterator[ChatClient]:
    """A client of the server at `address`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    options = {"subprotocols": ["chat.v2"], "additional_headers": headers, **options}
    async with connect(address.replace("http", "ws", 1) + PATH + query, **options) as socket:
        yield ChatClient(socket)


def is_refusal(event: Event) -> bool:
    return event["type"] == "error" and "seq" not in event


def text_of(message: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in message["parts"] if part["type"] == "text")


def final_text(events: list[Event]) -> str:
    """The text of the final message; the last event must be an exchange's final."""
    [final] = [message for message in events[-1]["messages"] if is_answer(message)]
    return text_of(final)


def is_answer(message: dict[str, Any]) -> bool:
    return bool(message["role"] == "assistant" and message["channel"] == "final")


def check_exchange(events: list[Event]) -> None:
    """Check the contract's invariants on the events of one exchange, from `started` to `final`."""
    events = [event for event in events if "seq" in event]
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs)), "seqs rise strictly"
    assert [event["type"] for event in events].count("final") == 1
    assert events[0]["type"] == "started"
    final = events[-1]
    assert final["type"] == "final"
    messages = final["messages"]
    streamed = [event["message"] for event in events if event["type"] == "stream"]
    assert streamed == messages, "every message is streamed before the final, in order"
    ranks = [message["rank"] for message in messages]
    assert ranks == list(range(ranks[0], ranks[0] + len(ranks))), "ranks have no gap"
    assert messages[0]["role"] == "user"
    answers = [message for message in messages if is_answer(message)]
    assert len(answers) <= 1
    if final["status"] == "ok":
        assert len(answers) == 1
        assert messages[-1] == answers[0]
        assert "error" not in final
    if final["status"] == "error":
        assert [event["type"] for event in events][-2] == "error"
        assert any(message["channel"] == "error" for message in messages)
    check_calls(messages)
    check_blocks(events)


def check_calls(messages: list[dict[str, Any]]) -> None:
    """Check that every call is followed by exactly one result."""
    calls: list[str] = []
    results: list[str] = []
    for message in messages:
        for part in message["parts"]:
            if part["type"] == "tool_call":
                assert message["channel"] == "tool_call"
                calls.append(part["call_id"])
            if part["type"] == "tool_result":
                assert message["channel"] == "tool_result" and message["parts"][0] is part
                assert part["call_id"] in calls, "a result comes after its call"
                results.append(part["call_id"])
    assert sorted(calls) == sorted(results)


def check_blocks(events: list[Event]) -> None:
    """Check that the joined deltas of a block are the text of its message."""
    texts: dict[int, str] = {}
    for event in events:
        if event["type"] == "delta":
            texts[event["block"]] = texts.get(event["block"], "") + event["text"]
        if event["type"] == "stream" and "block" in event:
            assert texts.pop(event["block"]) == text_of(event["message"])
    assert not texts, "every block is closed by its message"
