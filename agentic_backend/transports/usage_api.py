"""The usage calls: what the caller's calls of models have used and cost, and for admins what all users' have."""

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.sessions.usage_reports import UsageReports
from agentic_backend.stores.usage_sums import USAGE_KEYS, UsageKey, UsageQuery
from agentic_backend.transports.rest import PREFIX
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_response
from agentic_backend.transports.rest_input import time_of


class UsageApi:
    def __init__(self, calls: RestCalls, reports: UsageReports) -> None:
        self._calls = calls
        self._reports = reports

    def routes(self) -> list[Route]:
        calls = [("GET", "/usage", self._own), ("GET", "/admin/usage", self._of_all)]
        return self._calls.routes(PREFIX, calls)

    async def _own(self, request: Request, user: User) -> Response:
        return json_response(await self._reports.sums(user.id, _query(request, user_id=user.id)))

    async def _of_all(self, request: Request, user: User) -> Response:
        user_id = request.query_params.get("user_id") or None
        return json_response(await self._reports.sums(user.id, _query(request, user_id=user_id)))


def _query(request: Request, *, user_id: str | None) -> UsageQuery:
    """The query in the URL, for one user or all. Raises BadFrame with the name of the wrong parameter."""
    named = request.query_params
    since, until = (time_of(request, name) if named.get(name) else None for name in ("start", "end"))
    if since is not None and until is not None and since >= until:
        raise BadFrame("end: expected a time after start")
    return UsageQuery(
        user_id=user_id,
        group=named.get("group") or None,
        session_id=named.get("session_id") or None,
        exchange_id=named.get("exchange_id") or None,
        agent_id=named.get("agent_id") or None,
        since=since,
        until=until,
        by=_keys(named.get("by", "")),
    )


def _keys(text: str) -> tuple[UsageKey, ...]:
    known: dict[str, UsageKey] = {key: key for key in get_args(UsageKey)}
    names = [name for name in text.split(",", len(known) + 1) if name]
    if any(name not in known for name in names) or len(set(names)) < len(names):
        raise BadFrame(f"by: expected some of {','.join(USAGE_KEYS)}, each once, with commas between them")
    return tuple(known[name] for name in names)
