"""Silence: how long a provider's stream may bring no event."""

from collections.abc import AsyncIterator, Callable

from agentic_backend.loop.loop_load import loop_load, served_timeout


class Silence:
    """Of one stream. In place of LangChain's bound, which makes a task of the wait for each event."""

    def __init__(self, longest_s: float | None, error: Callable[[float, int], Exception]) -> None:
        """`error` is made of `longest_s` and of the number of events before. None bounds nothing."""
        self._longest_s = longest_s
        self._error = error
        self._events = 0
        self._over_at_s: float | None = None
        """When the silence is too long, by the time in which the loop served; None until the next event is
        waited for.
        """

    def ends(self) -> None:
        """An event has come."""
        self._events += 1
        self._over_at_s = None

    async def bounded(self, packets: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The packets of the stream, which need not bring an event each. Raises the error."""
        longest_s = self._longest_s
        if not longest_s:
            async for packet in packets:
                yield packet
            return
        load = loop_load()
        while True:
            now = load.served_s()
            if self._over_at_s is None:
                self._over_at_s = now + longest_s
            try:
                async with served_timeout(self._over_at_s - now):
                    packet = await anext(packets)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise self._error(longest_s, self._events) from error
            yield packet
