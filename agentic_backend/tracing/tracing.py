"""Tracing: makes the spans of calls and of runs of exchanges; owned by the application.

An exchange's trace and the id of its span are decided when it is asked for (see Origin), and kept with it: it is
beneath the call that asks. A run that goes on with it, here or on another instance, is a span beneath that one, linked
to the call that it follows from.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, SpanKind, Tracer

from agentic_backend.config.topics.observability import TracingSettings
from agentic_backend.telemetry.ids import logged_with
from agentic_backend.tracing.origin import Origin, current_origin, known_origin, read_traceparent
from agentic_backend.tracing.spans import (
    INTERNAL,
    SERVER,
    Attributes,
    NamedBy,
    OpenSpan,
    Recording,
    ending,
    opened,
    recorded_by,
)


class Traced(Protocol):
    """The record of an exchange, as far as its trace needs it."""

    @property
    def id(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def request_id(self) -> str: ...
    @property
    def traceparent(self) -> str | None: ...


_given: ContextVar[SpanContext | None] = ContextVar("given_ids", default=None)
"""The ids of the span that is about to begin, if they are decided already."""


class Tracing:
    """`tracer` is None where no traces are sent: then the ids go on all the same."""

    def __init__(self, tracer: Tracer | None = None, *, content: bool = False) -> None:
        self._tracer = tracer
        self._content = content

    @property
    def sends_content(self) -> bool:
        """Whether spans hold what was said."""
        return self._tracer is not None and self._content

    @property
    def sends(self) -> bool:
        """Whether traces are sent; if not, the attributes of a span need not be found out."""
        return self._tracer is not None

    @contextmanager
    def call(self, name: str, attributes: Attributes, named: NamedBy | None = None) -> Iterator[OpenSpan | None]:
        """What runs inside answers the current call, and its spans are beneath the call's; None if none are sent.

        `named`: see `ending`.
        """
        origin = known_origin()
        if self._tracer is None or origin is None:
            yield None
            return
        recording = Recording(self._tracer, self._content)
        with self._begun(name, SERVER, attributes, recording, parent=origin.caller, own=origin.trace) as span:
            with ending(span, named):
                yield span

    @contextmanager
    def _begun(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        recording: Recording,
        *,
        parent: SpanContext | None,
        own: SpanContext | None,
        links: tuple[SpanContext, ...] = (),
    ) -> Iterator[OpenSpan]:
        """Begin a span of `parent` with the ids of `own`, if it is decided already, and record beneath it."""
        with recorded_by(recording, NonRecordingSpan(parent) if parent is not None else INVALID_SPAN):
            token = _given.set(own)
            try:
                span = opened(name, kind, attributes, links)
            finally:
                _given.reset(token)
            assert span is not None
            yield span

    @contextmanager
    def run_of(self, record: Traced, *, begins: bool) -> Iterator[OpenSpan | None]:
        """What runs inside is a run of this exchange, the first one if it `begins`: its lines and spans have its ids.

        The span is ended with it; None if no traces are sent.
        """
        asked = known_origin()
        own = read_traceparent({"traceparent": record.traceparent or ""}) or current_origin().trace
        caller = asked.trace if asked is not None and asked.trace.trace_id == own.trace_id else None
        ids = {"exchange_id": record.id, "session_id": record.session_id or None, "agent_id": record.agent_id}
        with Origin(record.request_id, own, caller).entered(), logged_with(**ids):
            if self._tracer is None:
                with recorded_by(None, NonRecordingSpan(own)):
                    yield None
                return
            common: Attributes = {"gen_ai.conversation.id": record.session_id or None}
            recording = Recording(self._tracer, self._content, common)
            parent, given = (caller, own) if begins else (own, None)
            links = (asked.trace,) if asked is not None and not begins else ()
            facts = _facts(record)
            with self._begun("exchange", INTERNAL, facts, recording, parent=parent, own=given, links=links) as span:
                with ending(span):
                    yield span


def given_ids() -> SpanContext | None:
    return _given.get()


def _facts(record: Traced) -> Attributes:
    return {
        "agentic.exchange.id": record.id,
        "agentic.request.id": record.request_id,
        "gen_ai.agent.id": record.agent_id,
        "session.id": record.session_id or None,
    }


@asynccontextmanager
async def open_tracing(settings: TracingSettings, instance_id: str) -> AsyncIterator[Tracing]:
    """Tracing as the settings say. A receiver that can't be reached is no error."""
    if settings.endpoint is None:
        yield Tracing()
        return

    def sender() -> AbstractAsyncContextManager[Tracer]:
        from agentic_backend.tracing.exporting import exporting

        return exporting(settings, instance_id, given_ids)

    # Few servers send traces, and the import takes too long for the loop.
    async with await asyncio.to_thread(sender) as tracer:
        yield Tracing(tracer, content=settings.content)
