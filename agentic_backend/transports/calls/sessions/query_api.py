"""The REST call of a question without a session: a thin adapter, as in `rest`."""

from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.asking.turn import Turn, past_messages
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import PREFIX, QUERYING, Operation
from agentic_backend.transports.rest.rest_input import AskQuery
from agentic_backend.transports.sse import EVENTS, ChatV2Renderer, EventStream, ask_streamed


class QueryApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/query"
        return [Operation("POST", path, self.ask_query, answer=EVENTS, errors=QUERYING, refused_as="ask")]

    async def ask_query(self, request: Request, user: User, body: AskQuery) -> EventStream:
        """Ask without a session: nothing of it is stored, and it stops when the client goes."""
        turn = Turn(
            parts=[TextPart(text=body.content)],
            mode="query",
            agent_id=body.agent_id,
            client_exchange_id=body.client_exchange_id,
            chat_profile=body.chat_profile,
            scope=body.scope,
            runtime_context=body.runtime_context,
            history=past_messages(body.history),
        )
        return await ask_streamed(self._door, request, user, turn, ChatV2Renderer(), current_origin().request_id)
