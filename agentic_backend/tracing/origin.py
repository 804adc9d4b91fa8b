"""Origin: the ids of one call of a client, which go with all that the call causes.

The request id and the trace come from the client where they are well-formed (W3C Trace Context, section 3.2); else they
are new. They stand in the log, in the answer, and in what is sent on to models and MCP servers. They are the same
whether or not traces are exported: `sampled` only says which are.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from random import getrandbits
from typing import Self
from uuid import uuid4

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceFlags, format_span_id, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentic_backend.telemetry.ids import logged_with

REQUEST_ID = "x-request-id"
TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_LONGEST_TRACESTATE = 512
# What proxies and libraries make: UUIDs, hexadecimal numbers, base64, names with a place. No space, no quotation mark.
_WELL_FORMED = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TRACE_CONTEXT, _NOWHERE = TraceContextTextMapPropagator(), Context()
_SAMPLED_FROM = 64
"""The bits of a trace id that decide whether it is sampled, as OpenTelemetry's TraceIdRatioBased takes them."""


@dataclass(frozen=True, slots=True)
class Origin:
    request_id: str
    trace: SpanContext
    """The trace, and the id of the span of the call."""
    caller: SpanContext | None = None
    """The client's own span, if it has sent one."""
    names_requests: bool = False
    """Whether the request id is the client's."""
    sample_ratio: float = 0.0

    @classmethod
    def of(cls, headers: Mapping[str, str], sample_ratio: float = 0.0) -> Self:
        """The origin of a call with these headers, whose names are in lower case."""
        named, caller = headers.get(REQUEST_ID, ""), read_traceparent(headers)
        is_named = _WELL_FORMED.fullmatch(named) is not None
        request_id = named if is_named else uuid4().hex
        return cls(request_id, _new_trace(caller, sample_ratio), caller, is_named, sample_ratio)

    @property
    def traceparent(self) -> str:
        return written(self.trace)

    def again(self) -> Self:
        """The origin of another call over the same connection: it has what the client has named, and else new ids."""
        request_id = self.request_id if self.names_requests else uuid4().hex
        return replace(self, request_id=request_id, trace=_new_trace(self.caller, self.sample_ratio))

    def next_span(self) -> SpanContext:
        """A new id in the trace, for what the call begins."""
        trace = self.trace
        return SpanContext(trace.trace_id, _new_span_id(), False, trace.trace_flags, trace.trace_state)

    @contextmanager
    def entered(self) -> Iterator[Self]:
        """What runs inside, and the tasks that it makes, belong to this call."""
        token = _origin.set(self)
        try:
            with logged_with(request_id=self.request_id, trace_id=format_trace_id(self.trace.trace_id)):
                yield self
        finally:
            _origin.reset(token)


_origin: ContextVar[Origin | None] = ContextVar("origin", default=None)


def current_origin() -> Origin:
    """That of the call which is answered now; a new one where nobody has called."""
    return _origin.get() or Origin.of({})


def known_origin() -> Origin | None:
    """That of the call which is answered now, if there is one."""
    return _origin.get()


def set_origin(origin: Origin) -> None:
    """Make it that of the current context, for good."""
    _origin.set(origin)


def read_traceparent(headers: Mapping[str, str]) -> SpanContext | None:
    """The span that these headers name; None if they name none, or are malformed."""
    carrier = {name: headers[name] for name in (TRACEPARENT, TRACESTATE) if name in headers}
    if len(carrier.get(TRACESTATE, "")) > _LONGEST_TRACESTATE:
        del carrier[TRACESTATE]
    # Into an empty context, else the library would give the current span instead.
    found = get_current_span(_TRACE_CONTEXT.extract(carrier, context=_NOWHERE)).get_span_context()
    return found if found.is_valid else None


def written(span: SpanContext) -> str:
    """The value of the header `traceparent`."""
    return f"00-{format_trace_id(span.trace_id)}-{format_span_id(span.span_id)}-{span.trace_flags & 1:02x}"


def _new_span_id() -> int:
    return getrandbits(64) or 1


def _new_trace(caller: SpanContext | None, sample_ratio: float) -> SpanContext:
    span_id = _new_span_id()
    if caller is not None:
        # The caller's decision holds, as in OpenTelemetry's ParentBased.
        return SpanContext(caller.trace_id, span_id, False, caller.trace_flags, caller.trace_state)
    trace_id = getrandbits(128) or 1
    is_sampled = trace_id % (1 << _SAMPLED_FROM) < round(sample_ratio * (1 << _SAMPLED_FROM))
    return SpanContext(trace_id, span_id, False, TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT))
