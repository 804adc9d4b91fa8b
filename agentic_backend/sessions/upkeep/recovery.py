"""Recovery: ends exchanges that run nowhere, and resumes those of dead instances whose agents have `auto_resume`."""

import logging
from collections.abc import Awaitable, Callable

from agentic_backend.errors import AgenticError
from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.exchange.lifecycle import INTERRUPTED, Outcome
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import FencedOut
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.telemetry.causes import because_of

log = logging.getLogger(__name__)


class Recovery:
    def __init__(
        self,
        closing: OrphanClosing,
        resume: Callable[[ExchangeRecord], Awaitable[None]],
        finish_quit: Callable[[ExchangeRecord], Awaitable[None]],
    ) -> None:
        """`resume` resumes an interrupted exchange if its agent allows that.

        `finish_quit` completes the session if the exchange was to do that.
        """
        self._closing = closing
        self._resume = resume
        self._finish_quit = finish_quit

    async def refuse(self, record: ExchangeRecord, error: AgenticError) -> bool:
        """End an exchange that never ran with the error that keeps it from running; False if another was faster."""
        await self._finish_quit(record)
        try:
            await self._closing.close(record, Outcome(ExchangeStatus.ERROR, error))
        except FencedOut:
            return False
        return True

    async def recover(self, record: ExchangeRecord) -> bool:
        """End an exchange that runs nowhere as interrupted; False if another instance was faster."""
        log_fields = {"exchange_id": record.id, "session_id": record.session_id, "request_id": record.request_id}
        # Before the exchange ends: it would not be recovered again.
        await self._finish_quit(record)
        try:
            await self._closing.close(record, INTERRUPTED)
        except FencedOut:
            log.info("exchange ended by another instance", extra=log_fields)
            return False
        log.warning("exchange interrupted: its server went away", extra=log_fields)
        try:
            await self._resume(record)
        except Exception as error:
            log.warning("interrupted exchange not resumed", **because_of(error, **log_fields))
        return True
