"""Asking a graph, and reading what an exchange told."""

from collections.abc import Sequence
from typing import Any

from support.chat_client import Event, chat, check_exchange, text_of


async def ask(address: str, message: str, **fields: Any) -> list[Event]:
    """The events of one exchange, asked over a socket of its own; it ends well and keeps the contract."""
    async with chat(address) as client:
        events = await client.ask(message, **fields)
    check_exchange(events)
    assert events[-1]["status"] == "ok", events[-1]
    return events


async def stop_at(
    address: str, channel: str, message: str, agent_id: str, *, count: int = 1, then: str | None = None
) -> Event:
    """Ask, and stop when so many messages of `channel` have come (and `then` an event of this type); the final."""
    async with chat(address) as client:
        await client.send({"message": message, "agent_id": agent_id})
        while count:
            streamed = await client.until("stream")
            count -= streamed["message"]["channel"] == channel
        if then is not None:
            await client.until(then)
        await client.send({"type": "stop", "session_id": streamed["session_id"]})
        final = await client.until("final")
    check_exchange([event for event in client.events if event.get("exchange_id") == final["exchange_id"]])
    assert final["status"] == "stopped"
    return final


def told(events: Sequence[Event]) -> list[tuple[str, str]]:
    """The messages of an exchange after the person's: the channel of each, and its text, calls or result."""
    return [(message["channel"], _content(message)) for message in events[-1]["messages"][1:]]


def _content(message: dict[str, Any]) -> str:
    parts = message["parts"]
    if message["channel"] == "tool_call":
        return ", ".join(part["name"] for part in parts)
    return str(parts[0]["content"]) if message["channel"] == "tool_result" else text_of(message)


def activities(events: Sequence[Event], kind: str) -> list[Any]:
    """The data of the activities of this kind."""
    return [event["data"] for event in events if event["type"] == "activity" and event["kind"] == kind]


def moves(events: Sequence[Event], kind: str) -> list[tuple[str, str]]:
    """Who gave over to whom."""
    return [(data["from"], data["to"]) for data in activities(events, kind)]
