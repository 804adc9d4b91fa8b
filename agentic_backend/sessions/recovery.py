"""Recovery: ends the exchanges that a dead process left running or waiting.

The process that recovers is the only one on its store: what it doesn't run itself, nobody runs.
"""

import logging

from agentic_backend.errors import Interrupted
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    MessageDraft,
    MessageMetadata,
    Role,
    utc_now,
)
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.sessions.delivery import error_message
from agentic_backend.stores.base import ExchangeEnd, ExchangeRecord, Fence, FencedOut, Store

log = logging.getLogger(__name__)

# The seqs of the dead process are unknown; a jump leaves every place that it could have given behind.
_SEQ_JUMP = 1_000_000


async def recover_exchanges(store: Store) -> int:
    """Mark every unended exchange as interrupted and give its open calls a result; how many there were."""
    unended = await store.unended_exchanges()
    for record in unended:
        try:
            await recover_exchange(store, record)
        except FencedOut:
            log.warning("exchange was ended by another", extra={"exchange_id": record.id})
        else:
            log.info("exchange interrupted", extra={"exchange_id": record.id, "session_id": record.session_id})
    return len(unended)


async def recover_exchange(store: Store, record: ExchangeRecord) -> None:
    """Mark an exchange that nobody runs any more as interrupted. Raises FencedOut where somebody does."""
    session = await store.get_session(record.session_id)
    if session is None:
        raise FencedOut
    error = ErrorInfo.of(Interrupted(), record.request_id)
    drafts = _results_of_open_calls(record, await store.exchange_messages(record.id))
    drafts.append(error_message(record.agent_id, error).message)
    end = ExchangeEnd(
        status=ExchangeStatus.INTERRUPTED,
        ended_at=utc_now(),
        usage=record.usage,
        last_seq=record.last_seq + _SEQ_JUMP,
        error=error,
    )
    await store.append(Fence(session.id, record.id, session.next_rank), drafts, end)


def _results_of_open_calls(record: ExchangeRecord, messages: list[ChatMessage]) -> list[MessageDraft]:
    parts = [part for message in messages for part in message.parts]
    settled = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    content = "The server went away before the tool gave a result."
    return [
        MessageDraft(
            role=Role.TOOL,
            channel=Channel.TOOL_RESULT,
            parts=[ToolResultPart(call_id=part.call_id, ok=False, content=content)],
            metadata=MessageMetadata(agent_id=record.agent_id),
        )
        for part in parts
        if isinstance(part, ToolCallPart) and part.call_id not in settled
    ]
