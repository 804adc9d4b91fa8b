"""Spans of what is published: one for each exchange that a round trip to Redis tells of, in the exchange's own trace.

A round trip serves many exchanges, in the publisher's task: so each exchange's context is kept from where it began.
Text that goes on has no span, else a long answer would have one every few milliseconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context

from agentic_backend.protocol.events import Activity, Delta, ExchangeEvent
from agentic_backend.telemetry.ids import log_ids
from agentic_backend.tracing.spans import CLIENT, Attributes, OpenSpan, context_of_call, error_type, opened


class PublishedFor:
    """The call that a log was published in: its ids, for lines about the log, and the span that it is beneath."""

    def __init__(self) -> None:
        self.ids: Mapping[str, object] = log_ids()
        self.context: Context = context_of_call()

    def begin(self, events: Sequence[ExchangeEvent]) -> OpenSpan | None:
        """Begin the span of sending these; None if nothing records it."""
        if all(isinstance(event, Delta | Activity) for event in events):
            return None
        facts: Attributes = {
            "db.system.name": "redis",
            "db.operation.name": "XADD",
            "db.operation.batch.size": len(events),
        }
        return self.context.run(opened, "XADD", CLIENT, facts)


@contextmanager
def sending(batches: Sequence[tuple[PublishedFor, Sequence[ExchangeEvent]]]) -> Iterator[None]:
    """The round trip inside sends these batches."""
    begun = [(call, span) for call, events in batches if (span := call.begin(events)) is not None]
    try:
        yield
    except BaseException as error:
        for _, span in begun:
            span.fail(error_type(error))
        raise
    finally:
        for call, span in begun:
            call.context.run(span.end)
