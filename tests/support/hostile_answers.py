"""What a server of the test's own says to a client, and a client that asks it once."""

from typing import Any

from agentic_backend.client import Event, connect

PLACE = {"session_id": "s1", "exchange_id": "e1"}
STARTED = {"type": "started", **PLACE, "seq": 1, "client_exchange_id": "x1", "agent_id": "a", "session": None}
MESSAGE = {
    "session_id": "s1",
    "exchange_id": "e1",
    "rank": 0,
    "timestamp": "2026-11-23T00:00:00Z",
    "role": "assistant",
    "channel": "final",
    "parts": [{"type": "text", "text": "done"}],
}
REQUEST = {"kind": "question", "interrupt_id": "i1", "action": "ask", "args": {}, "args_sha256": "0" * 64}
AWAITING = {"type": "awaiting_human", **PLACE, "seq": 2, "payload": {"requests": [REQUEST]}}
FINAL = {"type": "final", **PLACE, "seq": 9, "status": "ok", "messages": [MESSAGE], "session": None, "usage": {}}


def delta(seq: int, text: str) -> dict[str, Any]:
    return {"type": "delta", **PLACE, "seq": seq, "block": 1, "channel": "final", "text": text}


def refusal(code: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "code": code, "content": "no", "retryable": False, "request_id": "r1", **more}


async def asked(address: str, **options: Any) -> list[Event]:
    """The events of one ask."""
    async with connect(address, **options) as chat:
        return [event async for event in chat.ask("hi", client_exchange_id="x1")]
