"""The REST calls of this door: the one path that all messages go to, and where tokens for it come from."""

import asyncio
from importlib.metadata import version
from typing import Any

from pydantic import ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgenticError,
    ApprovalNotFound,
    BadFrame,
    ExchangeNotFound,
    MethodNotAllowed,
    NotFound,
)
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.mcp.agent_tools import exposed, tools_of
from agentic_backend.transports.mcp.client_session import ClientSession
from agentic_backend.transports.mcp.conversations import TEMPLATES, Conversations
from agentic_backend.transports.mcp.elicitations import ElicitationId, decisions_of
from agentic_backend.transports.mcp.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REFUSED,
    ClientMessage,
    Json,
    RpcError,
    RpcErrorData,
    RpcRefusal,
    ServerMessage,
)
from agentic_backend.transports.mcp.resume_point import HEADER, ResumePoint
from agentic_backend.transports.mcp.tool_calls import ToolCalls
from agentic_backend.transports.rest.operation import ATTACHING, RESUMING, Header, Operation, Streamed
from agentic_backend.transports.rest.rest_errors import json_response

PATH = "/mcp"
METADATA_PATH = f"/.well-known/oauth-protected-resource{PATH}"
"""RFC 9728 §3.1."""
_SESSION = Header("Mcp-Session-Id", "What `initialize` has answered with.", "9d27aa4e4f7c19a0c3b1d8e7f6a5b4c3f")
_VERSION = Header("MCP-Protocol-Version", "The version that `initialize` has answered with.", "2025-11-25")
_POINT = ResumePoint(exchange_id="4f7c19", seq=3, told=1, request_id=1, progress_token=None)
_LAST_EVENT = Header(HEADER, "The id of the last event of the stream of a call.", _POINT.encode())
_INSTRUCTIONS = (
    "Each tool is an agent that answers in words. A result's session_id goes on with the conversation; get_answer "
    "waits for an answer that was not there yet."
)


class ProtectedResource(Value):
    """Who issues tokens for this door (RFC 9728)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "resource": "https://chat.example.org/mcp",
                    "authorization_servers": ["https://login.example.org/realms/agentic"],
                    "bearer_methods_supported": ["header"],
                    "resource_name": "Agentic Backend",
                }
            ]
        }
    )

    resource: str
    authorization_servers: list[str] | None = absent()
    """Absent where users don't sign in."""
    bearer_methods_supported: list[str]
    resource_name: str


class McpApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._calls = ToolCalls(services)
        self._conversations = Conversations(services)
        self._orchestrator = services.sessions.orchestrator

    def operations(self) -> list[Operation]:
        of_all: dict[str, Any] = {"error_form": RpcRefusal, "challenge": _challenge}
        return [
            Operation(
                "POST",
                PATH,
                self.send_to_mcp,
                answer=Streamed("application/json", ServerMessage, or_events=ServerMessage, plain_data=""),
                accepts=True,
                headers=(_SESSION, _VERSION),
                errors=(*ATTACHING, *RESUMING, NotFound),
                refused_as="ask",
                **of_all,
            ),
            Operation(
                "GET",
                PATH,
                self.resume_mcp_stream,
                answer=Streamed("text/event-stream", ServerMessage, plain_data=""),
                headers=(_SESSION, _VERSION, _LAST_EVENT),
                errors=(ExchangeNotFound, MethodNotAllowed, NotFound),
                **of_all,
            ),
            Operation("GET", METADATA_PATH, self.describe_mcp_resource, public=True),
        ]

    async def send_to_mcp(self, request: Request, user: User, body: ClientMessage) -> Response:
        """Take a message of MCP: a request is answered, by JSON or by a stream; anything else is accepted with 202."""
        client = _client(request)
        if body.method is None:
            await self._answered(request, user, body)
            return _accepted()
        if body.id is None:
            if body.method == "notifications/cancelled":
                await self._calls.cancel(user, body, client)
            return _accepted()
        try:
            if body.method == "tools/call":
                return await self._calls.call(request, user, body, client)
            if body.method == "initialize":
                return self._initialized(body)
            return json_response(ServerMessage(id=body.id, result=await self._result(user, body)))
        except RpcError as error:
            return json_response(ServerMessage(id=body.id, error=error.info))

    async def resume_mcp_stream(self, request: Request, user: User) -> Response:
        """Take up the stream of a call again after its last event. There is no other stream."""
        client, last = _client(request), request.headers.get(HEADER)
        if last is None:
            raise MethodNotAllowed("The server tells a client nothing but what it asks for.")
        return await self._calls.resume(user, ResumePoint.decode(last), client)

    async def describe_mcp_resource(self, request: Request) -> ProtectedResource:
        """Where a client of MCP gets the tokens for this server."""
        issuer = self._door.sign_in.realm_url
        return ProtectedResource(
            resource=f"{_address(request)}{PATH}",
            authorization_servers=None if issuer is None else [issuer],
            bearer_methods_supported=["header"],
            resource_name="Agentic Backend",
        )

    def _initialized(self, body: ClientMessage) -> Response:
        client, spoken = ClientSession.begin(body.params)
        result: Json = {
            "protocolVersion": spoken,
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {
                "name": "agentic-backend",
                "title": "Agentic Backend",
                "version": version("agentic-backend"),
            },
            "instructions": _INSTRUCTIONS,
        }
        headers = {_SESSION.name: str(client.id)}
        return json_response(ServerMessage(id=body.id, result=result), headers=headers)

    async def _result(self, user: User, body: ClientMessage) -> Json:
        try:
            match body.method:
                case "ping":
                    return {}
                case "tools/list":
                    return {"tools": tools_of(exposed(self._door.agents.served_for(user), self._door.mcp_agents))}
                case "resources/list":
                    return await self._conversations.list(user, body.params)
                case "resources/templates/list":
                    return {"resourceTemplates": TEMPLATES}
                case "resources/read":
                    return await self._conversations.read(user, body.params)
        except AgenticError as error:
            info = RpcErrorData.of(ErrorInfo.of(error, current_origin().request_id))
            raise RpcError(INVALID_PARAMS if isinstance(error, BadFrame) else REFUSED, error.content, info) from None
        raise RpcError(METHOD_NOT_FOUND, "There is no such method.")

    async def _answered(self, request: Request, user: User, body: ClientMessage) -> None:
        """Take the answer to an elicitation. Where that decides nothing, the client of the call is told so.

        It is no refusal, since clients take that for the end of their session. Raises BadFrame for any other answer.
        """
        named = ElicitationId.decode(body.id)
        try:
            asked = named.request_in(await self._calls.waiting(user, named.exchange_id))
            if asked is None:
                # It was decided on another door.
                raise ApprovalNotFound
        except AgenticError as error:
            self._calls.note(error, request, user)
            return
        try:
            decided = None if body.result is None else await asyncio.to_thread(decisions_of, asked, body.result)
            if decided is None:
                self._calls.give_up(named.exchange_id)
                return
            await self._orchestrator.human_resume(user, None, named.exchange_id, decided, tokens_of(request, user))
        except ApprovalNotFound as error:
            self._calls.note(error, request, user)
        except AgenticError as error:
            self._calls.note(error, request, user)
            self._calls.give_up(named.exchange_id, error.content)


def _accepted() -> Response:
    return Response(status_code=202)


def _client(request: Request) -> ClientSession:
    """Raises BadFrame and NotFound."""
    return ClientSession.of(request.headers.get(_SESSION.name), request.headers.get(_VERSION.name))


def _address(request: Request) -> str:
    """As the client knows it. The gate has checked the host, and a proxy that ends TLS names the scheme."""
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme)
    return f"{'https' if scheme == 'https' else 'http'}://{request.headers.get('host', request.url.netloc)}"


def _challenge(request: Request) -> str:
    """RFC 9728 §5.1."""
    return f'Bearer resource_metadata="{_address(request)}{METADATA_PATH}"'
