"""A receiver of traces: OTLP over HTTP, as a collector, Langfuse or LangSmith takes them, over real sockets."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.server.process import Listener, address_of, bind

ERROR = 2
"""The code of a span's status."""


@dataclass(frozen=True)
class Received:
    """A span; ids are hexadecimal, `parent` is empty for a root."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    attributes: dict[str, Any]
    links: tuple[str, ...]
    is_error: bool
    began: int
    ended: int


@dataclass
class OtlpReceiver:
    """`status` is what each request is answered with; with `hangs` it is answered only once that is set."""

    url: str = ""
    status: int = 200
    hangs: asyncio.Event | None = None
    spans: list[Received] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: bytes = b""
    """All that was received, uncompressed."""

    def named(self, name: str) -> Received:
        """The only span whose name begins so."""
        [found] = self.all_named(name)
        return found

    def exchanges(self) -> list[Received]:
        """The spans of runs of exchanges, which operations of the store have in their names too."""
        return [span for span in self.spans if span.name == "exchange"]

    def all_named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name.startswith(name)]

    def path(self, span: Received) -> list[str]:
        """The names of the spans around it, from the root on, and its own."""
        by_id = {each.id: each for each in self.spans}
        names = [span.name]
        while (parent := by_id.get(span.parent)) is not None:
            span = parent
            names.insert(0, span.name)
        return names

    async def take(self, request: Request) -> Response:
        body = await request.body()
        self.headers.append(dict(request.headers))
        if self.hangs is not None:
            await self.hangs.wait()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.raw += body
        if self.status == 200:
            self._keep(ExportTraceServiceRequest.FromString(body))
        return Response(b"", self.status, media_type="application/x-protobuf")

    def _keep(self, told: ExportTraceServiceRequest) -> None:
        for resource in told.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                self.spans.append(
                    Received(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.kind,
                        _attributes(span.attributes),
                        tuple(link.trace_id.hex() for link in span.links),
                        span.status.code == ERROR,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                    )
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@asynccontextmanager
async def otlp_receiver(path: str = "/v1/traces") -> AsyncIterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    bound = bind("127.0.0.1", 0)
    receiver.url = address_of(bound) + path
    listener = Listener(Starlette(routes=[Route(path, receiver.take, methods=["POST"])]), bound, LimitsSettings())
    listening = asyncio.create_task(listener.listen())
    try:
        yield receiver
    finally:
        if receiver.hangs is not None:
            receiver.hangs.set()
        listener.close()
        listener.force_close()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        bound.close()
