"""What a client's tests read of an exchange."""

from typing import Any

from agentic_backend.client import AwaitingHuman, Exchange
from agentic_backend.offline.phrases import lorem
from support import paced_agent

WHOLE = lorem(paced_agent.WORDS)


async def until(events: Exchange, kind: type[Any]) -> Any:
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


async def waiting(exchange: Exchange) -> AwaitingHuman:
    event: AwaitingHuman = await until(exchange, AwaitingHuman)
    return event
