"""The events of a session in the server's log: created, turn added, compacted, shared, terminated. No texts."""

import logging

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.protocol.trail import ShareRecord, SummaryRecord
from agentic_backend.stores.records import SessionRecord

log = logging.getLogger(__name__)


def session_created(session: SessionRecord) -> None:
    log.info("chat_session_created", extra={**_ids(session), "chat_profile": session.chat_profile})


def turn_added(session: SessionRecord, exchange_id: str, status: ExchangeStatus) -> None:
    """The session's last exchange has ended, and its end is stored."""
    told = {"exchange_id": exchange_id, "turn_number": session.turn_count, "status": status.value}
    log.info("chat_turn_added", extra={**_ids(session), **told})


def history_compacted(session: SessionRecord, summary: SummaryRecord) -> None:
    log.info("chat_compacted", extra={**_ids(session), "turn_number": session.turn_count, **compaction_of(summary)})


def session_terminated(session: SessionRecord, reason: str) -> None:
    log.info("chat_session_terminated", extra={**_ids(session), "turn_number": session.turn_count, "reason": reason})


def session_shared(session: SessionRecord, share: ShareRecord) -> None:
    told = {"share_id": share.id, "up_to_rank": share.up_to_rank, "expires_at": share.expires_at.isoformat()}
    log.info("chat_session_shared", extra={**_ids(session), **told})


def share_revoked(session: SessionRecord, share: ShareRecord) -> None:
    log.info("chat_share_revoked", extra={**_ids(session), "share_id": share.id})


def compaction_of(summary: SummaryRecord) -> dict[str, object]:
    """What clients and the log are told about a compaction."""
    return {
        "from_rank": summary.from_rank,
        "to_rank": summary.to_rank,
        "turns": summary.turns,
        "tokens_before": summary.tokens_before,
        "tokens_after": summary.tokens_after,
        "summary": summary.is_wanted and bool(summary.text),
        "dropped": summary.is_wanted and summary.dropped_from is not None,
    }


def _ids(session: SessionRecord) -> dict[str, object]:
    return {"session_id": session.id, "user_id": session.user_id, "agent_id": session.agent_id}
