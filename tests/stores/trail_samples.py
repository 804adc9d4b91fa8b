"""Records of the trail for the tests of the stores, each with an id that nothing else has."""

from datetime import datetime, timedelta
from typing import Any

from agentic_backend.stores.protocol.trail import (
    ActivityRecord,
    AdminReadRecord,
    AuditRecord,
    ExtractionRecord,
    FeedbackRecord,
    ModuleErrorRecord,
    PromptRecord,
    PromptSection,
    ShareRecord,
    SummaryRecord,
    ToolCallRecord,
    TrailRecord,
    UsageRecord,
)
from tests.stores.samples import EPOCH, new_id


def _at(minute: int) -> datetime:
    return EPOCH + timedelta(minutes=minute)


def an_audit(session_id: str, *, minute: int = 0, **fields: Any) -> AuditRecord:
    values = {
        "id": new_id(),
        "at": _at(minute),
        "session_id": session_id,
        "exchange_id": "e",
        "user_id": "ann",
        "rank": None,
        "point": "chat:before_ai",
        "module": "pii",
        "action": "modified",
        "original": "My number is 0151.",
    }
    return AuditRecord(**(values | fields))


def a_usage(user_id: str = "ann", *, minute: int = 0, **fields: Any) -> UsageRecord:
    values = {
        "id": new_id(),
        "at": _at(minute),
        "day": _at(minute).date().isoformat(),
        "user_id": user_id,
        "group": "7b",
        "session_id": "s",
        "exchange_id": "e",
        "agent_id": "assistant",
        "purpose": "answer",
        "model": "scripted",
        "input_tokens": 100,
        "output_tokens": 10,
        "cost": 0.5,
        "currency": "EUR",
        "priced_on": "2026-01-01",
    }
    return UsageRecord(**(values | fields))


def a_feedback(session_id: str, *, minute: int = 0, **fields: Any) -> FeedbackRecord:
    values = {
        "id": new_id(),
        "at": _at(minute),
        "session_id": session_id,
        "exchange_id": "e",
        "user_id": "ann",
        "agent_id": "assistant",
        "rank": 1,
        "rating": "up",
    }
    return FeedbackRecord(**(values | fields))


def one_of_each(
    session_id: str, user_id: str = "ann", text: str = "text", *, minute: int = 0, exchange_id: str = "e"
) -> list[TrailRecord]:
    """A record of each kind; those that hold texts hold `text`."""
    own: dict[str, Any] = {"at": _at(minute), "session_id": session_id, "user_id": user_id}
    of_exchange = own | {"exchange_id": exchange_id}
    section = PromptSection(name="core", source="catalog", version="1", text=text, tokens=1)
    call = {"agent_id": "assistant", "call_id": "c", "name": "search", "state": "success"}
    summed = {"from_rank": 0, "to_rank": 4, "tokens": 2, "model": "scripted", "chat_profile": "default"}
    return [
        an_audit(session_id, minute=minute, user_id=user_id, original=text, patterns=[text], exchange_id=exchange_id),
        ExtractionRecord(id=new_id(), **of_exchange, point="p", module="m", type="t", data={"text": [text]}),
        ModuleErrorRecord(
            id=new_id(),
            at=_at(minute),
            session_id=session_id,
            exchange_id="e",
            point="p",
            module="m",
            error="timeout",
            duration_ms=3,
            outcome="continued",
        ),
        a_usage(user_id, minute=minute, session_id=session_id),
        ToolCallRecord(id=new_id(), **of_exchange, **call, args={"text": text}, result=text, approved_by=user_id),
        ActivityRecord(id=new_id(), **of_exchange, seq=3, after_rank=0, kind="progress", data={"text": text}),
        PromptRecord(id=new_id(), **of_exchange, agent_id="assistant", sections=[section]),
        SummaryRecord(id=new_id(), **own, **summed, text=text),
        AdminReadRecord(id=new_id(), at=_at(minute), user_id="root", request_id="r", path="/p", subject=user_id),
        a_feedback(session_id, minute=minute, user_id=user_id, exchange_id=exchange_id, comment=text),
        ShareRecord(id=new_id(), **own, up_to_rank=2, expires_at=_at(minute + 60)),
    ]
