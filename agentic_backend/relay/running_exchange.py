"""RunningExchange: what the relay knows of an exchange that runs in this process."""

import asyncio
from typing import Protocol

from agentic_backend.relay.log.exchange_log import ExchangeLog


class RunningExchange(Protocol):
    @property
    def log(self) -> ExchangeLog: ...

    @property
    def client_exchange_id(self) -> str | None:
        """The client's id for the exchange, unique per user."""

    @property
    def settled(self) -> asyncio.Event:
        """Set when it has ended or paused and stores nothing more; a tool that ignores this may still run."""

    @property
    def began_at(self) -> float:
        """When this run began, in seconds of the monotonic clock."""

    @property
    def has_spoken(self) -> bool:
        """Whether its first token has come, in this run or before a pause."""

    @property
    def model_calls_begun_at(self) -> list[float]:
        """The same of its model calls that have not ended."""

    async def run(self) -> None:
        """Run until the exchange ends or waits for a person. Never raises: an error becomes the exchange's end."""

    def stop(self) -> None:
        """End it as stopped, soon."""

    def drain(self) -> None:
        """End it as interrupted after its current step, from where it can be resumed: the process shuts down."""

    def interrupt(self) -> None:
        """End it as interrupted, soon."""
