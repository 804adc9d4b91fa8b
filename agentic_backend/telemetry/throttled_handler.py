"""ThrottledHandler: a handler of log records that limits floods, and that never waits for itself.

A line may be logged while another one is on its way: by a signal's handler, or by a finalizer that the garbage
collector runs anywhere, such as that of a task whose error nobody has taken. So a thread can take each lock of this
package again, and holds it for a moment only. The standard library's lock around `emit` is left out: who holds it waits
for the others, and who holds one of these would wait for it.
"""

import logging

from agentic_backend.telemetry.throttle import Throttle


class ThrottledHandler(logging.Handler):
    """`put` is called in any thread, also in several at once."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._throttle = Throttle()
        self.limits_floods = True
        """Whether it leaves anything out."""

    def put(self, line: str) -> None:
        raise NotImplementedError

    def handle(self, record: logging.LogRecord) -> bool:
        if passes := self.filter(record):
            self.emit(record)
        return passes

    def filter(self, record: logging.LogRecord) -> bool:
        # Last, so that it counts only what would be written.
        return bool(super().filter(record)) and (not self.limits_floods or self._throttle.filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        # As in the standard library's handlers: a formatting error must not reach the caller.
        try:
            self._summarise()
            self.put(self.format(record))
        except Exception:
            self.handleError(record)

    def _summarise(self, *, at_end: bool = False) -> None:
        for record in self._throttle.summaries(at_end=at_end):
            self.put(self.format(record))
