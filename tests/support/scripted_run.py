"""An exchange in a relay that the test controls."""

import asyncio
import time

from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from support.broadcasting import end, start


class ScriptedRun:
    """Runs until `finish`, or until it is stopped; both end it."""

    def __init__(self, log: ExchangeLog) -> None:
        self.log = log
        self.client_exchange_id: str | None = None
        self.settled = asyncio.Event()
        self.was_stopped = False
        self.began_at = time.monotonic()
        self.has_spoken = False
        self.task_may_end = asyncio.Event()
        """Set before the exchange has settled, unless a test keeps its task running."""

    @classmethod
    def begin(cls, relay: Relay, exchange_id: str, session_id: str | None = "s") -> "ScriptedRun":
        run = cls(relay.new_log(session_id, exchange_id, "ann"))
        start(run.log)
        relay.start(run)
        return run

    async def run(self) -> None:
        await self.settled.wait()
        await self.task_may_end.wait()

    def finish(self) -> None:
        end(self.log)
        self.task_may_end.set()
        self.settled.set()

    def stop(self) -> None:
        self.was_stopped = True
        self.finish()

    def drain(self) -> None:
        self.finish()

    def interrupt(self) -> None: ...
