"""Recovery: what an instance that died was running is interrupted, and goes on by itself where its agent may."""

import logging
from collections.abc import Awaitable, Callable

from agentic_backend.errors import AgenticError, Interrupted
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.closing import Closing
from agentic_backend.sessions.outcome import Outcome
from agentic_backend.stores.base import FencedOut
from agentic_backend.stores.records import ExchangeRecord

log = logging.getLogger(__name__)


class Recovery:
    """`resume` lets an interrupted exchange go on by itself, where it may."""

    def __init__(self, closing: Closing, resume: Callable[[ExchangeRecord], Awaitable[None]]) -> None:
        self._closing = closing
        self._resume = resume

    async def recover(self, record: ExchangeRecord) -> bool:
        """Mark an exchange that nobody runs any more as interrupted; False where somebody else was faster."""
        names = {"exchange_id": record.id, "session_id": record.session_id, "request_id": record.request_id}
        try:
            await self._closing.close(record, Outcome(ExchangeStatus.INTERRUPTED, Interrupted()))
        except FencedOut:
            log.info("exchange was ended by another", extra=names)
            return False
        log.warning("exchange interrupted: its server went away", extra=names)
        try:
            await self._resume(record)
        except AgenticError as error:
            log.warning("an interrupted exchange does not go on by itself", extra={**names, "code": error.code})
        return True
