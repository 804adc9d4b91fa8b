"""The internal listener: metrics and health from a thread with an event loop of its own.

Whatever blocks the server's event loop, a probe is answered and tells so, and a scrape costs that loop nothing.
"""

import asyncio
import logging
import threading
from typing import Protocol

log = logging.getLogger(__name__)

_LOOK_S = 0.01


class Listening(Protocol):
    """What is run, as `Listener`."""

    async def listen(self) -> None: ...

    def close(self) -> None: ...

    def force_close(self) -> None: ...

    @property
    def open_count(self) -> int: ...


class InternalListener:
    """Runs a listener in a thread, from `start` until its end is awaited by `ended`."""

    def __init__(self, listener: Listening) -> None:
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name="internal-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def open_count(self) -> int:
        """The number of open connections."""
        return self._listener.open_count

    def close(self) -> None:
        """Start to close every connection."""
        self._listener.close()

    def force_close(self) -> None:
        """Drop what is still open."""
        self._listener.force_close()

    async def ended(self) -> None:
        # Not in the default executor, whose threads agents may all hold.
        while self._thread.is_alive():
            await asyncio.sleep(_LOOK_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._listener.listen())
        except Exception:
            log.exception("internal listener ended")
