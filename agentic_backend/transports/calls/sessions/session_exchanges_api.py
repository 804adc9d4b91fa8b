"""The REST call that lists the exchanges of a session: what their messages don't tell."""

from typing import Annotated, Any

from pydantic import Field

from agentic_backend.auth.user import User
from agentic_backend.errors import SessionNotFound
from agentic_backend.protocol.events import ActivityKind, ErrorInfo, HumanRequests
from agentic_backend.protocol.messages import ExchangeStatus, Timestamp, TokenUsage
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.sessions.reading.exchange_pages import ExchangePages, ListedExchange
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.stores.records import HumanDecision
from agentic_backend.transports.calls.sessions.exchanges_api import last_that_fit
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import PageSize, Query, WholeNumber


class ActivityView(Value):
    """An activity that was kept; `after_rank` is the rank of the message before it."""

    seq: int
    after_rank: int
    kind: ActivityKind
    data: dict[str, Any]


class ExchangeSummary(Value):
    """`pending`: the requests that wait for a person. `decisions`: those made. `resumable`: whether it can go on."""

    id: str = Field(examples=["9d27aa"])
    agent_id: str
    status: ExchangeStatus = Field(examples=["ok"])
    client_exchange_id: str | None = absent()
    resumes: str | None = absent()
    resumable: bool
    first_rank: int
    started_at: Timestamp
    ended_at: Timestamp | None = absent()
    usage: TokenUsage
    error: ErrorInfo | None = absent()
    pending: HumanRequests | None = absent()
    decisions: list[HumanDecision] | None = absent()
    activities: list[ActivityView]

    @classmethod
    def of(cls, listed: ListedExchange) -> "ExchangeSummary":
        record = listed.record
        own = {name: getattr(record, name, None) for name in cls.model_fields}
        is_waiting = record.status is ExchangeStatus.AWAITING_HUMAN
        return cls(
            **own
            | {
                "resumable": listed.resumable,
                "pending": remaining(record, ()) if is_waiting else None,
                "decisions": last_that_fit(record.decisions) or None,
                "activities": [
                    ActivityView(seq=one.seq, after_rank=one.after_rank, kind=one.kind, data=one.data)
                    for one in listed.activities
                ],
            }
        )


class ExchangesView(Value):
    """Exchanges by rank. `next_rank` is the first rank of the one that follows them, absent where none does."""

    exchanges: list[ExchangeSummary]
    next_rank: int | None = absent()


class PageOfExchanges(Query):
    from_rank: Annotated[int, WholeNumber(0, 2**53)] = Field(
        0, description="Only the exchange that has this rank, and later ones."
    )
    limit: Annotated[int, PageSize(200)] = 50


class SessionExchangesApi:
    def __init__(self, pages: ExchangePages) -> None:
        self._pages = pages

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/sessions/{{id}}/exchanges"
        return [Operation("GET", path, self.list_exchanges, errors=(SessionNotFound,))]

    async def list_exchanges(self, user: User, id: str, query: PageOfExchanges) -> ExchangesView:
        """The exchanges of a session, by rank: what their messages don't tell."""
        page = await self._pages.page(user, id, query.from_rank, query.limit)
        return ExchangesView(exchanges=[ExchangeSummary.of(one) for one in page.exchanges], next_rank=page.next_rank)
