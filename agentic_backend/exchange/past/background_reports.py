"""BackgroundReports: what a system prompt says of the tools that have ended in the background since the last one.

They are the session's records of calls that no prompt has reported yet, so they outlive the instance that ran the tool.
The exchange that reports one stores that together with its prompt. A branch's first prompt also reports what had ended
of the calls that it shares, as that of its parent did or will; it leaves their records as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.stores.base import Store
from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.stores.records import PromptAddition, SessionRecord
from agentic_backend.stores.tables import EXCHANGES

_AT_MOST = 20
"""So many are reported at once; the others in the session's next prompt."""


@dataclass(frozen=True, slots=True)
class BackgroundReports:
    ended: Sequence[ToolCallRecord] = ()
    """The records of the session's own calls, the newest first."""
    shared: Sequence[ToolCallRecord] = ()
    """Those of the calls that a branch shares."""

    @property
    def additions(self) -> list[PromptAddition]:
        told = reversed([*self.ended, *self.shared])
        return [PromptAddition(module="background", text=_text(record)) for record in told]

    def reported_in(self, exchange_id: str) -> list[ToolCallRecord]:
        """The session's own records, once the exchange has reported them."""
        return [replace(record, reported_in=exchange_id) for record in self.ended]


NO_REPORTS = BackgroundReports()


async def background_reports(store: Store, start: ExchangeStart) -> BackgroundReports:
    """What this run is to report: nothing is read for a session in which no tool ever ran in the background."""
    session, record = start.session, start.record
    if session is None or not session.has_background:
        return NO_REPORTS
    # A run that goes on reports the same as before.
    reporting = [""] if start.resume_point is None else ["", record.id, *filter(None, [record.resumes])]
    ended: list[ToolCallRecord] = []
    for exchange_id in reporting:
        where = {"session_id": session.id, "reported_in": exchange_id}
        ended += (await store.trail(TrailQuery(ToolCallRecord, where, limit=_AT_MOST))).records
    is_first = session.parent is not None and start.opening.rank == session.parent.rank
    return BackgroundReports(ended, await _shared(store, session) if is_first else ())


async def _shared(store: Store, branch: SessionRecord) -> list[ToolCallRecord]:
    """What has ended of the calls that `branch` shares, and no exchange that it shares has reported."""
    [*lineage, _] = spans_of(branch)
    unreported = [{"session_id": span.session_id, "reported_in": ""} for span in lineage]
    if lineage:
        # What the branch's first exchange takes the place of has reported what had ended then.
        parent = lineage[-1]
        following = await store.page(EXCHANGES, parent.below_rank - 1, 1, session_id=parent.session_id)
        unreported += [{"session_id": parent.session_id, "reported_in": one.id} for one in following]
    shared: list[ToolCallRecord] = []
    below = {span.session_id: span.below_rank for span in lineage}
    for where in reversed(unreported):
        for record in (await store.trail(TrailQuery(ToolCallRecord, where, limit=_AT_MOST))).records:
            exchange = await store.get_exchange(record.exchange_id)
            if exchange is not None and exchange.first_rank < below[record.session_id]:
                shared.append(record)
    return shared[:_AT_MOST]


def _text(record: ToolCallRecord) -> str:
    return (
        f"The tool {record.name!r}, which ran in the background as {record.exchange_id}.{record.call_id}, has ended "
        f"({record.state}). The tool background_result tells its result."
    )
