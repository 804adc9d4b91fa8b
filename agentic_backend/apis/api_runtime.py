"""ApiRuntime: the APIs of one agent, and the tools that their operations are.

An agent creates one in `async_init` and awaits `init()`; its `aclose()` closes the connections.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from langchain_core.tools import BaseTool

from agentic_backend.apis.api_client import ApiClient, tls
from agentic_backend.apis.api_documents import ApiDocuments
from agentic_backend.apis.api_tool import ApiTool
from agentic_backend.apis.openapi_document import MOST_SELECTED, OpenApi, operation_names
from agentic_backend.apis.operation import NotUsable, Operation, operation_of
from agentic_backend.auth.user import Tokens
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.topics.permissions import PERMISSIONS, needed_by
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import POLICY_NAMES, TITLE, policy_metadata
from agentic_backend.mcp.credentials import Credentials, HasTokens, header_value, of_header, request_auth

log = logging.getLogger(__name__)


class ApiUse(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def operations(self) -> Sequence[str]: ...


class ApiServices(Protocol):
    @property
    def apis(self) -> Mapping[str, ApiSettings]: ...
    @property
    def api_documents(self) -> ApiDocuments: ...
    @property
    def exchange_token(self) -> Callable[[str, str], Awaitable[Tokens]]: ...


class ApiRun(HasTokens, Protocol):
    def idempotency_key(self, call_id: str) -> str: ...


class ApiAgent(Protocol):
    """The part of an AgentFlow that its ApiRuntime uses. Each exchange has a new runtime context."""

    @property
    def services(self) -> ApiServices: ...
    @property
    def runtime_context(self) -> ApiRun: ...


class ApiRuntime:
    def __init__(self, agent: ApiAgent, uses: Sequence[ApiUse]) -> None:
        self._agent = agent
        """The agent in whose user's name the requests go out."""
        self._uses = uses
        """The APIs of its entry."""
        self._clients: list[ApiClient] = []
        """One for each API, open until `aclose()`."""

    async def init(self, taken: Collection[str] = ()) -> list[BaseTool]:
        """The tools of all operations. One whose name is `taken` gets the API's id as a prefix.

        An operation that can't be a tool is left out, with a line. Raises AgentUnavailable, which names the API and the
        operation that isn't there.
        """
        tools: list[BaseTool] = []
        for use in self._uses:
            names = [*taken, *(tool.name for tool in tools)]
            tools += await self._tools(use, names)
        return tools

    async def aclose(self) -> None:
        clients, self._clients = self._clients, []
        await asyncio.gather(*(client.aclose() for client in clients))

    async def _tools(self, use: ApiUse, taken: Sequence[str]) -> list[BaseTool]:
        settings = self._agent.services.apis.get(use.id)
        if settings is None:
            raise AgentUnavailable(f"There is no API '{use.id}'.")
        document = await self._agent.services.api_documents.get(use.id, settings)
        operations = await asyncio.to_thread(_operations, use, document, settings, taken)
        client = await self._client(use.id, settings)
        return [
            self._tool(name, operation, policy_metadata(use.id, id, name), client, settings)
            for id, name, operation in operations
        ]

    def _tool(
        self, name: str, operation: Operation, meant: dict[str, Any], client: ApiClient, settings: ApiSettings
    ) -> ApiTool:
        metadata = meant | {PERMISSIONS: needed_by(settings.permissions, meant[POLICY_NAMES])}
        if operation.title:
            metadata[TITLE] = operation.title
        return ApiTool(
            name=name,
            description=operation.description,
            args_schema=dict(operation.schema),
            metadata=metadata,
            client=client,
            operation=operation,
            key_of=lambda call_id: self._agent.runtime_context.idempotency_key(call_id),
        )

    async def _client(self, api_id: str, settings: ApiSettings) -> ApiClient:
        credentials = Credentials(of_header(header_value(settings.auth)))
        auth = request_auth(
            settings.auth,
            lambda: self._agent.runtime_context,
            self._agent.services.exchange_token,
            settings.timeout_s,
            credentials,
            may_renew=lambda: True,
        )
        client = ApiClient(api_id, settings, auth, credentials, await asyncio.to_thread(tls))
        self._clients.append(client)
        return client


def _operations(
    use: ApiUse, document: OpenApi, settings: ApiSettings, taken: Sequence[str]
) -> list[tuple[str, str, Operation]]:
    """The operations with their ids and the names of their tools. Raises AgentUnavailable.

    Takes a second for many of many.
    """
    for wanted in use.operations:
        if (reason := document.unknown(wanted)) is not None:
            raise AgentUnavailable(f"The API '{use.id}': {reason}.")
    selected = document.selected(use.operations)
    if len(selected) > MOST_SELECTED:
        raise AgentUnavailable(f"The API '{use.id}' would give {len(selected)} tools, more than {MOST_SELECTED}.")
    found = []
    for raw, name in zip(selected, operation_names(use.id, selected, taken), strict=True):
        try:
            found.append((raw.id, name, operation_of(raw, document, settings.auth.header)))
        except NotUsable as error:
            log.warning("API operation left out", extra={"api": use.id, "operation": raw.id, "reason": str(error)})
    return found
