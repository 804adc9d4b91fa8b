"""A client as the chat page of Fred 1.5.4 is: a socket without a subprotocol, frames and answers in its form."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from support.chat_client import ChatClient, Event, chat


class OlderClient(ChatClient):
    """Shows messages by rank and by exchange; what it is told out of turn fails."""

    def __init__(self, client: ChatClient) -> None:
        super().__init__(client.socket)
        self.shown: dict[int, tuple[bool, dict[str, Any]]] = {}
        """By rank: whether the message is stored, and the message."""

    async def receive(self, *args: Any) -> Event:
        event = await super().receive(*args)
        if event["type"] == "stream":
            self._take(event["message"])
        return event

    def _take(self, message: dict[str, Any]) -> None:
        is_stored, before = self.shown.get(message["rank"], (False, None))
        if message["metadata"]["extras"].get("streaming_delta") is not True:
            self.shown[message["rank"]] = (True, message)
            return
        assert not is_stored, "no text is added to a stored message"
        text = "".join(part["text"] for part in [*(before["parts"] if before else ()), *message["parts"]])
        self.shown[message["rank"]] = (False, message | {"parts": [{"type": "text", "text": text}]})

    async def begin(self, message: str, *, agent_id: str, session_id: str | None = None) -> str:
        """Send an ask with all that such a client knows; its id for the exchange."""
        exchange_id = str(uuid4())
        ask = {"type": "ask", "message": message, "agent_id": agent_id, "session_id": session_id}
        context = {"language": "fr", "search_policy": "hybrid", "include_corpus_scope": True}
        await self.send({**ask, "runtime_context": context, "client_exchange_id": exchange_id})
        return exchange_id

    async def answer(self, event: Event, answer: Any = None, *, choice: str | None = None, note: str = "") -> None:
        """Answer an `awaiting_human` as the card does: a choice, or free text where there are no choices."""
        asked = event["payload"]
        choices = {one["id"]: one["label"] for one in asked.get("choices") or ()}
        assert bool(choices) is (choice is not None), "the card has buttons, or a field"
        assert choices or asked["free_text"] is True
        assert not note or asked["free_text"] is True, "there is no field for a note"
        payload = {
            "answer": {"yes": True, "no": False}.get(choice, choice) if choice is not None else answer,
            "choice_id": choice,
            "_hitl_choice_label": choices[choice] if choice is not None else None,
            "_hitl_title": asked.get("title"),
            "_hitl_stage": asked.get("stage"),
            "text": note or None,
            "checkpoint_id": asked.get("checkpoint_id"),
        }
        frame = {
            "type": "human_resume",
            "session_id": event["session_id"],
            "exchange_id": event["exchange_id"],
            "payload": {name: value for name, value in payload.items() if value is not None},
            "agent_id": "whichever is chosen",
        }
        await self.send(json.dumps(frame))


@asynccontextmanager
async def older_client(address: str, **options: Any) -> AsyncIterator[OlderClient]:
    async with chat(address, subprotocols=None, **options) as client:
        yield OlderClient(client)
