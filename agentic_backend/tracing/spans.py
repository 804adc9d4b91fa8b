"""Spans of what an exchange does, after OpenTelemetry's semantic conventions; they nest by the context.

Tracing puts the tracer into the context of an exchange; where there is none, nothing is recorded. A span never holds an
exception's text, and what was said only if `records_content()`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer

from agentic_backend.errors import OTHER, AgenticError
from agentic_backend.telemetry.ids import log_ids, set_log_ids
from agentic_backend.text.normal_form import clean
from agentic_backend.tracing.origin import REQUEST_ID, TRACEPARENT, TRACESTATE, known_origin, set_origin, written

CLIENT, INTERNAL, SERVER = SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.SERVER
Attributes = Mapping[str, str | int | float | bool | tuple[str, ...] | None]
"""Those that are None are left out."""

NamedBy = Callable[[BaseException], str | None]
"""The `error.type` of what has left a span; None if it is no error."""

# One for all: where no traces are sent, a span costs next to nothing.
_NO_SPAN = nullcontext(None)
LONGEST_ATTRIBUTE = 16_384
"""Characters of what was said, and of any other text."""
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Recording:
    """What records the spans of an exchange. `common` are attributes of each."""

    tracer: Tracer
    content: bool = False
    common: Attributes = field(default_factory=dict)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


class OpenSpan:
    """A span that is the current one from here on, until it ends."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._outer = context.get_current()
        context.attach(trace.set_span_in_context(span))

    def note(self, attributes: Attributes) -> None:
        if self._span.is_recording():
            self._span.set_attributes(_present(attributes))

    def fail(self, error: str) -> None:
        """`error` is one of a fixed set of names: see `error_type`."""
        if self._span.is_recording():
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        """It may end in another context than it began in, and more than once."""
        if trace.get_current_span() is self._span:
            context.attach(self._outer)
        if self._span.is_recording():
            self._span.end()


def opened(name: str, kind: SpanKind, attributes: Attributes, links: tuple[SpanContext, ...] = ()) -> OpenSpan | None:
    """Begin a span inside the current one; None if nothing records spans here."""
    recording = _recording.get()
    if recording is None:
        return None
    span = recording.tracer.start_span(
        clean(name[:_LONGEST_NAME]),
        kind=kind,
        attributes=_present({**recording.common, **attributes}),
        links=[Link(each) for each in links],
        record_exception=False,
        set_status_on_exception=False,
    )
    return OpenSpan(span)


def spanned(
    name: str, kind: SpanKind, attributes: Attributes, named: NamedBy | None = None
) -> AbstractContextManager[OpenSpan | None]:
    """Begin a span, to be entered at once: what runs inside is the span, an exception that leaves it is its error as
    `named`. None if nothing records spans here.
    """
    span = opened(name, kind, attributes)
    return _NO_SPAN if span is None else ending(span, named)


@contextmanager
def ending(span: OpenSpan, named: NamedBy | None = None) -> Iterator[OpenSpan]:
    """The end of this context is the span's end; an exception that leaves it is its error as `named`."""
    try:
        yield span
    except BaseException as raised:
        if (error := (named or error_type)(raised)) is not None:
            span.fail(error)
        raise
    finally:
        span.end()


@contextmanager
def recorded_by(recording: Recording | None, span: Span) -> Iterator[None]:
    """The spans of what runs inside, and of the tasks that it makes, go to `recording`, beneath `span`."""
    recorder, current = _recording.set(recording), context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(current)
        _recording.reset(recorder)


def agent_span(agent_id: str, name: str, named: NamedBy) -> AbstractContextManager[OpenSpan | None]:
    """The span of a run of an agent."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": agent_id, "gen_ai.agent.name": name}
    return spanned(f"invoke_agent {name}", INTERNAL, attributes, named)


def context_of_call() -> Context:
    """A new context for work of the call that is answered, or of the exchange that runs: it has their ids and span.

    It has nothing else of the current context.
    """
    origin, recording, span, ids = known_origin(), _recording.get(), trace.get_current_span(), log_ids()

    def enter() -> None:
        if origin is not None:
            set_origin(origin)
        _recording.set(recording)
        context.attach(trace.set_span_in_context(span))
        set_log_ids(ids)

    made = Context()
    made.run(enter)
    return made


@contextmanager
def without_content(*, only_if: bool = True) -> Iterator[None]:
    """The spans of what runs inside don't hold what was said."""
    recording = _recording.get()
    if recording is None or not only_if:
        yield
        return
    token = _recording.set(replace(recording, content=False))
    try:
        yield
    finally:
        _recording.reset(token)


def records_content() -> bool:
    """Whether spans hold what was said."""
    recording = _recording.get()
    return recording is not None and recording.content


def content(text: str) -> str:
    """As much of a text as a span holds."""
    return text[:LONGEST_ATTRIBUTE]


def sent_on() -> dict[str, str]:
    """The headers by which a model or an MCP server is told of the current span and of the call that caused it."""
    headers: dict[str, str] = {}
    span, origin = trace.get_current_span().get_span_context(), known_origin()
    if span.is_valid:
        headers[TRACEPARENT] = written(span)
        if state := span.trace_state.to_header():
            headers[TRACESTATE] = state
    if origin is not None:
        headers[REQUEST_ID] = origin.request_id
    return headers


def error_type(error: BaseException) -> str:
    """A value of `error.type`: the code of our own errors, `cancelled`, `timeout`, or `_OTHER`."""
    if isinstance(error, AgenticError):
        return error.code
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timeout"
    return OTHER


def _present(attributes: Attributes) -> dict[str, Any]:
    """In a form that can be sent: one text that can't would cost all spans that are sent with it."""
    return {name: _sendable(value) for name, value in attributes.items() if value is not None}


def _sendable(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_sendable, value))
    return clean(value) if isinstance(value, str) else value
