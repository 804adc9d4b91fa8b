"""BackgroundReports: what a system prompt says of the tools that have ended in the background since the last one.

They are the session's records of calls that no prompt has reported yet, so they outlive the instance that ran the tool.
The exchange that reports one stores that together with its prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import PromptAddition
from agentic_backend.stores.trail import ToolCallRecord, TrailQuery

_AT_MOST = 20
"""So many are reported at once; the others in the session's next prompt."""


@dataclass(frozen=True, slots=True)
class BackgroundReports:
    ended: Sequence[ToolCallRecord] = ()
    """The records of the calls, the newest first."""

    @property
    def additions(self) -> list[PromptAddition]:
        return [PromptAddition(module="background", text=_text(record)) for record in reversed(self.ended)]

    def reported_in(self, exchange_id: str) -> list[ToolCallRecord]:
        """The records, once the exchange has reported them."""
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
    return BackgroundReports(ended)


def _text(record: ToolCallRecord) -> str:
    return (
        f"The tool {record.name!r}, which ran in the background as {record.exchange_id}.{record.call_id}, has ended "
        f"({record.state}). The tool background_result tells its result."
    )
