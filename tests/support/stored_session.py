"""A stored session, read over REST, and the contract's rules for it."""

import asyncio
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import httpx

from support.chat_client import check_calls, is_answer, text_of
from support.rest_client import messages_of

ENDED = ("ok", "error", "stopped", "blocked", "interrupted")
_PATIENCE_S = 90
_PARTIAL = {"stopped": "cancelled", "error": "other", "interrupted": "other"}


@dataclass(frozen=True)
class StoredExchange:
    """The response of `GET /exchanges/{id}`, and the exchange's messages by rank.

    The KPIs are left out: calls of models may be told after the end.
    """

    record: dict[str, Any]
    messages: list[dict[str, Any]]

    @property
    def status(self) -> str:
        return str(self.record["status"])

    @property
    def answer(self) -> str | None:
        """The text of its final message."""
        return next((text_of(message) for message in self.messages if is_answer(message)), None)


async def stored_session(http: httpx.AsyncClient, session_id: str) -> list[StoredExchange]:
    """The exchanges of a session without a running or waiting one; each must be complete."""
    messages = await messages_of(http, session_id)
    session = await _get(http, f"/sessions/{session_id}")
    assert "active_exchange_id" not in session, "nothing is stuck"
    assert session["next_rank"] == session["message_count"] == len(messages)
    exchanges = []
    for exchange_id, group in groupby(messages, lambda message: message["exchange_id"]):
        record = await _get(http, f"/exchanges/{exchange_id}")
        record.pop("kpi", None)
        exchange = StoredExchange(record, list(group))
        check_stored(exchange)
        exchanges.append(exchange)
    ids = [exchange.record["id"] for exchange in exchanges]
    assert len(ids) == len(set(ids)), "the messages of an exchange stand together"
    return exchanges


async def ended(http: httpx.AsyncClient, exchange_id: str) -> str:
    """Wait until an exchange has ended; return its status."""
    async with asyncio.timeout(_PATIENCE_S):
        while (record := await _get(http, f"/exchanges/{exchange_id}"))["status"] not in ENDED:
            await asyncio.sleep(0.05)
    return str(record["status"])


def check_stored(exchange: StoredExchange) -> None:
    """Check the invariants of an ended exchange."""
    record, messages = exchange.record, exchange.messages
    assert exchange.status in ENDED and "pending" not in record and "ended_at" in record
    assert messages[0]["role"] == "user" and [message["role"] for message in messages].count("user") == 1
    check_calls(messages)
    answers = [message for message in messages if is_answer(message)]
    errors = [message for message in messages if message["channel"] == "error"]
    assert len(answers) <= 1, "one final at most"
    assert ("error" in record) == (len(errors) == 1) == (exchange.status in ("error", "interrupted"))
    if exchange.status == "ok":
        assert messages[-1] == answers[0]
    elif answers:
        assert answers[0]["metadata"]["finish_reason"] == _PARTIAL[exchange.status]


async def _get(http: httpx.AsyncClient, path: str) -> dict[str, Any]:
    response = await http.get(path)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body
