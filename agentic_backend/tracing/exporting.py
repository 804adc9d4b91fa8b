"""Sends spans by OTLP over HTTP, in a thread of its own.

The SDK is imported here only: few servers send traces. Nothing waits for the receiver: spans are queued up to a bound
and dropped beyond it, and the end of the server waits for it a moment only.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanContext, Tracer

from agentic_backend.config.topics.observability import TracingSettings
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem
from agentic_backend.tracing.spans import LONGEST_ATTRIBUTE

log = logging.getLogger(__name__)

NAME = "agentic_backend"
_EVERY_S, _TELL_EVERY_S = 2.0, 60.0
# The longest wait for the last spans to be sent, at the end of the server.
_LAST_S = 1.0


@asynccontextmanager
async def exporting(
    settings: TracingSettings, instance_id: str, given: Callable[[], SpanContext | None]
) -> AsyncIterator[Tracer]:
    """A tracer whose spans are sent while the context is open. A new span has the ids that are `given`, if any.

    Raises ConfigError if OpenTelemetry's own variables don't go together.
    """
    provider, exporter = await asyncio.to_thread(_provider, settings, instance_id, given)
    try:
        yield provider.get_tracer(NAME, version("agentic-backend"))
    finally:
        # A daemon: the receiver may hang, and the process must not wait for it.
        ending = threading.Thread(target=provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _LAST_S)
        exporter.give_up()


def _provider(
    settings: TracingSettings, instance_id: str, given: Callable[[], SpanContext | None]
) -> tuple[TracerProvider, "_Exporter"]:
    # The library's own lines quote the receiver's address and answers.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    service = {
        "service.name": settings.service,
        "service.version": version("agentic-backend"),
        "service.instance.id": instance_id,
    }
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
        resource=Resource.create(service),
        shutdown_on_exit=False,
        id_generator=_Ids(given),
        # A client chooses a path, and a model the name of a tool that it calls.
        span_limits=SpanLimits(max_attributes=64, max_events=0, max_links=4, max_attribute_length=LONGEST_ATTRIBUTE),
    )
    try:
        exporter = _Exporter(settings)
        # The bounds of the queue and of a batch are OpenTelemetry's own variables, OTEL_BSP_*.
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=_EVERY_S * 1000))
    except ValueError as error:
        raise ConfigError([ConfigProblem("environment", None, None, "OTEL_*", str(error))]) from None
    return provider, exporter


class _Ids(RandomIdGenerator):
    """Gives an exchange's span the ids that its client was told."""

    def __init__(self, given: Callable[[], SpanContext | None]) -> None:
        self._given = given

    def generate_trace_id(self) -> int:
        given = self._given()
        return super().generate_trace_id() if given is None else given.trace_id

    def generate_span_id(self) -> int:
        given = self._given()
        return super().generate_span_id() if given is None else given.span_id


class _Exporter(SpanExporter):
    """Tells the log, once a minute, that spans could not be sent."""

    def __init__(self, settings: TracingSettings) -> None:
        session = requests.Session()
        # The headers are for this receiver only.
        session.max_redirects = 0
        self._otlp = OTLPSpanExporter(
            endpoint=settings.endpoint,
            headers=settings.headers,
            compression=Compression.Gzip,
            session=session,
        )
        self._lost = 0
        """The spans that were lost since the last line."""
        self._tells_at = 0.0
        self._has_given_up = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._has_given_up:
            return SpanExportResult.FAILURE
        result = self._otlp.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._lost += len(spans)
            if (now := time.monotonic()) >= self._tells_at:
                log.warning("traces could not be sent", extra={"spans": self._lost})
                self._lost, self._tells_at = 0, now + _TELL_EVERY_S
        return result

    def give_up(self) -> None:
        """Drop what is left."""
        self._has_given_up = True

    def shutdown(self) -> None:
        self._otlp.shutdown()  # type: ignore[no-untyped-call]
