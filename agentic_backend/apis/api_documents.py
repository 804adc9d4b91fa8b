"""ApiDocuments: the OpenAPI documents of the settings' APIs, read when an agent first needs one.

The composition root makes one for all agents. A file is read again when it has changed, a URL after some minutes.
"""

import asyncio
import logging
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import httpx

from agentic_backend.apis.api_client import tls
from agentic_backend.apis.openapi_document import MOST_BYTES, DocumentError, OpenApi, parsed, read_document
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.errors import AgentUnavailable
from agentic_backend.system_errors import summary_of

log = logging.getLogger(__name__)

_FRESH_S = 300.0


@dataclass(frozen=True, slots=True)
class _Kept:
    document: OpenApi
    stamp: object
    """What changes if the file does; None of a URL."""
    until: float
    """Until when that of a URL is used, in seconds of the monotonic clock."""


class ApiDocuments:
    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        """By path or URL; as many as the settings name."""
        self._reading: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a document is read: agents that start at the same time read it once. By path or URL."""

    async def get(self, api_id: str, settings: ApiSettings) -> OpenApi:
        """Raises AgentUnavailable."""
        async with self._reading[settings.document]:
            kept = self._kept.get(settings.document)
            stamp = None if settings.is_fetched else _stamp(settings.document)
            if kept is not None and kept.stamp == stamp and (stamp is not None or time.monotonic() < kept.until):
                return kept.document
            try:
                document = await _read(settings)
            except DocumentError as error:
                log.warning("OpenAPI document not usable", extra={"api": api_id, "reason": str(error)})
                raise AgentUnavailable(f"The OpenAPI document of '{api_id}' {error}.") from error
            self._kept[settings.document] = _Kept(document, stamp, time.monotonic() + _FRESH_S)
            return document


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def _read(settings: ApiSettings) -> OpenApi:
    if not settings.is_fetched:
        return await asyncio.to_thread(read_document, Path(settings.document))
    content = await _fetched(settings)
    return await asyncio.to_thread(parsed, content)


async def _fetched(settings: ApiSettings) -> bytes:
    body = bytearray()
    try:
        context = await asyncio.to_thread(tls)
        async with (
            asyncio.timeout(settings.timeout_s),
            httpx.AsyncClient(timeout=settings.timeout_s, trust_env=False, verify=context) as client,
            client.stream("GET", settings.document, headers={"Accept-Encoding": "identity"}) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise DocumentError(f"can't be fetched: {response.status_code}")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    break
    except TimeoutError:
        raise DocumentError("can't be fetched in time") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise DocumentError(f"can't be fetched: {summary_of(error, with_host=False)}") from None
    return bytes(body)
