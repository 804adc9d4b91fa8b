"""The usage calls: what the caller's calls of models have used and cost, and for admins what all users' have."""

from typing import Annotated, get_args

from pydantic import Field, WithJsonSchema

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.sessions.reading.usage_reports import UsageReports, UsageView
from agentic_backend.stores.protocol.usage_sums import USAGE_KEYS, UsageKey, UsageQuery
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import Name, Query, Time

_Keys = Annotated[
    str,
    Field(max_length=200),
    WithJsonSchema({"type": "array", "items": {"enum": list(USAGE_KEYS)}, "uniqueItems": True, "explode": False}),
]
"""Keys with commas between them: an array that isn't exploded, as OpenAPI says it."""


class UsageFilter(Query):
    """Which calls of models are summed, and by what. Without times, and of no one session or exchange: 31 days."""

    start: Time | None = Field(None, description="Only calls from this time on.", examples=["2026-11-01T00:00:00Z"])
    end: Time | None = Field(
        None, description="Only calls before this time, which is after `start`.", examples=["2026-12-01T00:00:00Z"]
    )
    group: Name | None = Field(None, description="Only calls for users of this group.", examples=["teachers"])
    session_id: Name | None = Field(None, description="Only calls of this session.")
    exchange_id: Name | None = Field(None, description="Only calls of this exchange.")
    agent_id: Name | None = Field(None, description="Only calls of this agent.")
    by: _Keys | None = Field(
        None,
        description="Keys, each once, with commas between them: one sum for each of their values.",
        examples=[["day", "agent_id"]],
    )

    def usage_query(self, user_id: str | None) -> UsageQuery:
        """The query for one user or all. Raises BadFrame with the name of the wrong parameter."""
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise BadFrame("end: expected a time after start")
        return UsageQuery(
            user_id=user_id,
            group=self.group,
            session_id=self.session_id,
            exchange_id=self.exchange_id,
            agent_id=self.agent_id,
            since=self.start,
            until=self.end,
            by=_keys(self.by or ""),
        )


class UsageOfUsersFilter(UsageFilter):
    user_id: Name | None = Field(None, description="Only calls for this user.")


class UsageApi:
    def __init__(self, reports: UsageReports) -> None:
        self._reports = reports

    def operations(self) -> list[Operation]:
        return [
            Operation("GET", f"{PREFIX}/usage", self.sum_usage),
            Operation("GET", f"{PREFIX}/admin/usage", self.sum_usage_of_users),
        ]

    async def sum_usage(self, user: User, query: UsageFilter) -> UsageView:
        """What the caller's calls of models have used and cost."""
        return await self._reports.sums(user.id, query.usage_query(user.id))

    async def sum_usage_of_users(self, user: User, query: UsageOfUsersFilter) -> UsageView:
        """What the calls of models of one user, or of all, have used and cost."""
        return await self._reports.sums(user.id, query.usage_query(query.user_id))


def _keys(text: str) -> tuple[UsageKey, ...]:
    known: dict[str, UsageKey] = {key: key for key in get_args(UsageKey)}
    names = [name for name in text.split(",", len(known) + 1) if name]
    if any(name not in known for name in names) or len(set(names)) < len(names):
        raise BadFrame(f"by: expected some of {','.join(USAGE_KEYS)}, each once, with commas between them")
    return tuple(known[name] for name in names)
