"""Who runs an exchange on MongoDB: pauses, decisions, and what its owner keeps in between.

The exchange's document says whether it runs, and for whom; the session's says who may write for it. One
compare-and-set on the exchange's document decides who gets an exchange that waits, and that each decision counts once:

- A pause ends its owner's run. The session keeps that owner, who has nothing left to write, until somebody claims it.
- A claim is the exchange's document first, with the decisions and the owner, then the session. When the process dies
  between the two, the exchange runs for a dead owner, and the session still names the one before; `fence` tells that
  one, so whoever finds the owner dead can end the exchange. The decisions are kept.
- No other claim comes in between, since the exchange waits no more. Only an end can, once the owner is taken for dead;
  the session names the exchange no more then, and the claim is refused.
- A pause and a claim leave their token in the exchange's document, by which they are known when they come again.
- Partial texts change only what still runs for their owner.
"""

from collections.abc import Mapping, Sequence

from pymongo import UpdateOne

from agentic_backend.errors import ApprovalNotFound, Internal
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.stores.base import Fence, FencedOut, Pause
from agentic_backend.stores.mongo_documents import LARGEST_STATE, Database, Document, checkpoint_changes, held_by
from agentic_backend.stores.records import ExchangeRecord, HumanDecision
from agentic_backend.stores.rows import json_text, rfc3339


async def set_waiting(database: Database, fence: Fence, pause: Pause, token: str | None) -> None:
    """Where the exchange ends in between, its end is written over this. Raises Internal: the state is too large."""
    kept = checkpoint_changes(fence.exchange_id, pause.checkpoint)
    if not kept:
        raise Internal("The agent can't wait for a person: its state is too large to be kept.")
    waiting = {
        "status": ExchangeStatus.AWAITING_HUMAN.value,
        "owner": None,
        "deadline": None if pause.deadline is None else rfc3339(pause.deadline),
        "partial": None,
        "pending": json_text(pause.pending),
        "usage": json_text(pause.usage),
        "last_seq": pause.last_seq,
        "ran_ms": pause.ran_ms,
        "first_token_ms": pause.first_token_ms,
        "last_write": token,
        **kept,
    }
    if await database["sessions"].find_one(held_by(fence), {"_id": 1}) is None:
        raise FencedOut
    running = {"_id": fence.exchange_id, **_run_by(fence.owner)}
    if (await database["exchanges"].update_one(running, {"$set": waiting})).matched_count:
        return
    if not await _is_last_write(database, fence.exchange_id, token):
        raise FencedOut


async def decide(
    database: Database,
    waiting: ExchangeRecord,
    decisions: Sequence[HumanDecision],
    owner: str | None,
    token: str | None,
) -> None:
    active = {"_id": waiting.session_id, "active_exchange_id": waiting.id}
    if await database["sessions"].find_one(active, {"_id": 1}) is None:
        # Its end counts, and only its own document doesn't say so yet.
        raise ApprovalNotFound
    undecided = {
        "_id": waiting.id,
        "status": ExchangeStatus.AWAITING_HUMAN.value,
        "last_seq": waiting.last_seq,
        "decisions": json_text(waiting.decisions),
    }
    changes: Document = {"decisions": json_text([*waiting.decisions, *decisions]), "last_write": token}
    if owner is not None:
        changes |= _run_by(owner) | {"deadline": None, "last_seq": next_epoch(waiting.last_seq)}
    decided = (await database["exchanges"].update_one(undecided, {"$set": changes})).matched_count
    if not decided and not await _is_last_write(database, waiting.id, token):
        raise ApprovalNotFound
    if owner is not None:
        claimed = await database["sessions"].update_one(active, {"$set": {"active_owner": owner}})
        if claimed.matched_count == 0:
            raise ApprovalNotFound


async def keep_partials(database: Database, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
    kept = {exchange_id: json_text(texts) for exchange_id, texts in partials.items()}
    updates = [
        UpdateOne({"_id": exchange_id, **_run_by(owner)}, {"$set": {"partial": text}})
        for exchange_id, text in kept.items()
        # One that no document can hold would keep the others' from being written.
        if text is None or len(text.encode()) <= LARGEST_STATE
    ]
    if updates:
        await database["exchanges"].bulk_write(updates, ordered=False)


async def _is_last_write(database: Database, exchange_id: str, token: str | None) -> bool:
    written = {"_id": exchange_id, "last_write": token}
    return token is not None and await database["exchanges"].find_one(written, {"_id": 1}) is not None


def _run_by(owner: str | None) -> Document:
    return {"owner": owner, "status": ExchangeStatus.RUNNING.value}
