"""Checks an HTTP API: reads its OpenAPI document, looks for the operations that agents name, and connects to it."""

import asyncio
from collections.abc import Mapping, Sequence

import httpx

from agentic_backend.apis.api_client import tls
from agentic_backend.apis.api_documents import ApiDocuments
from agentic_backend.apis.openapi_document import MOST_SELECTED, OpenApi
from agentic_backend.apis.operation import NotUsable, operation_of
from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.credentials import fixed_headers
from agentic_backend.system_errors import summary_of


async def check_api(api_id: str, settings: ApiSettings, named: Mapping[str, Sequence[str]]) -> str:
    """What was found, in words. `named` are the operations that each agent names, by its id. Raises CheckFailed.

    No operation is called: a request without credentials to the base URL shows that somebody answers there.
    """
    try:
        fixed_headers(settings.auth)
        document = await ApiDocuments().get(api_id, settings)
    except AgentUnavailable as error:
        raise CheckFailed(str(error.content), f"check apis.{api_id}") from error
    unknown = [
        f"{reason} (agent {agent_id})"
        for agent_id, operations in named.items()
        for wanted in operations
        if (reason := document.unknown(wanted)) is not None
    ]
    if unknown:
        raise CheckFailed("; ".join(unknown), "correct the apis of these agents")
    left_out = await asyncio.to_thread(_left_out, document, settings, named)
    status = await _status_at(api_id, settings)
    return f"its document has {len(document.operations)} operations; its base URL answers {status}{left_out}"


def _left_out(document: OpenApi, settings: ApiSettings, named: Mapping[str, Sequence[str]]) -> str:
    """The operations of the agents that can't be tools, in words."""
    reasons: dict[str, str] = {}
    for operations in named.values():
        for raw in document.selected(operations)[:MOST_SELECTED]:
            try:
                operation_of(raw, document, settings.auth.header)
            except NotUsable as error:
                reasons[raw.id] = str(error)
    return "".join(f"; left out: {name}, {reason}" for name, reason in reasons.items())


async def _status_at(api_id: str, settings: ApiSettings) -> int:
    try:
        async with (
            httpx.AsyncClient(timeout=settings.timeout_s, trust_env=False, verify=tls()) as client,
            client.stream("GET", settings.base_url) as response,
        ):
            return response.status_code
    except (httpx.HTTPError, OSError) as error:
        told = f"its base URL can't be reached: {summary_of(error)}"
        raise CheckFailed(told, f"check apis.{api_id}.base_url, and whether that API runs") from error
