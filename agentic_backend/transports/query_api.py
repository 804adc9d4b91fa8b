"""The REST call of a question without a session: a thin adapter, as in `rest`."""

from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.turn import Turn
from agentic_backend.transports.credentials import seconds_left, tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest import PREFIX
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_input import AskQuery, body_of
from agentic_backend.transports.sse import EventStream, exchange_events


class QueryApi:
    def __init__(self, calls: RestCalls, services: DoorServices) -> None:
        self._calls = calls
        self._door = services

    def routes(self) -> list[Route]:
        return self._calls.routes(PREFIX, [("POST", "/query", self._ask)])

    async def _ask(self, request: Request, user: User) -> Response:
        """The events of the query, which stops when the client goes."""
        with self._door.kpi.refusals("ask"):
            body = await body_of(request, AskQuery, self._door.limits.frame_bytes)
            turn = Turn(
                parts=[TextPart(text=body.content)],
                mode="query",
                agent_id=body.agent_id,
                client_exchange_id=body.client_exchange_id,
                chat_profile=body.chat_profile,
                scope=body.scope,
                runtime_context=body.runtime_context,
            )
            with self._door.connections.stream(user.id) as place:
                query = await self._door.orchestrator.ask(user, turn, tokens_of(request, user), uuid4().hex)
                events = exchange_events(self._door.relay, query, seconds_left(user))
                return EventStream(events, place.pop_all(), self._door.limits.send_timeout_s)
