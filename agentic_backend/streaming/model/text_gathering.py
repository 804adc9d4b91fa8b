"""TextGathering: hands on the text of a model call in a few large chunks instead of one for each token.

People see new text at intervals anyway (see Pacer), but each chunk costs the way through transcoder, outbox and log. So
after the first text of a call, its further text gathers for an interval that nobody notices. Everything else is handed
on at once, after the text before it. No text waits longer than the interval, nor at all after a pause.
"""

import asyncio
from collections.abc import Callable

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.streaming.content.conversion import is_only_text

# The most chunks that gather, however fast they come.
_MOST = 512


class TextGathering:
    """Owned by one run; `sink` gets the parts in order. Only in the event loop's thread."""

    def __init__(self, sink: Callable[[StreamPart], None], interval_s: Callable[[], float]) -> None:
        """`interval_s` returns how long text gathers, in seconds."""
        self._sink = sink
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._last: StreamPart | None = None
        """The last part with text, if nothing else has come since: text that goes on from it may gather."""
        self._texts: list[str] = []
        """The texts that gather, which go on from it."""
        self._next_at = 0.0
        """When the next text is handed on, in the event loop's time."""
        self._timer: asyncio.TimerHandle | None = None
        """Hands it on then, while text gathers."""
        self._error: Exception | None = None
        """Why the sink has failed when the timer called it: an error of the run, so the next call raises it."""

    def take(self, part: StreamPart) -> None:
        """Hand on a part, now or after some time. Raises the errors of the sink."""
        if self._last is not None and _goes_on(self._last, part):
            if self._texts or self._loop.time() < self._next_at:
                self._gather(part[2][0].content)
                return
        else:
            self.flush()
        self._hand_on(part)

    def flush(self) -> None:
        """Hand on the text that has gathered. Raises the errors of the sink."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._texts and self._last is not None:
            namespace, mode, (message, call) = self._last
            text, self._texts = "".join(self._texts), []
            self._hand_on((namespace, mode, (message.model_copy(update={"content": text}), call)))

    def _gather(self, text: str) -> None:
        self._texts.append(text)
        if len(self._texts) >= _MOST:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._next_at, self._due)

    def _due(self) -> None:
        self._timer = None
        try:
            self.flush()
        except Exception as error:
            self._error = error

    def _hand_on(self, part: StreamPart) -> None:
        if part[1] == "messages" and is_only_text(part[2][0]):
            self._last, self._next_at = part, self._loop.time() + self._interval_s()
        else:
            self._last = None
        self._sink(part)


def _goes_on(last: StreamPart, part: StreamPart) -> bool:
    """Whether `part` is nothing but further text of the message whose text `last` is."""
    if part[1] != "messages":
        return False
    (before, call), (message, its_call) = last[2], part[2]
    return (
        its_call is call
        and is_only_text(message)
        and message.id == before.id
        and message.response_metadata == before.response_metadata
    )
