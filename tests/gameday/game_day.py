"""GameDay: drills all faults. Those of a site follow each other; the sites run side by side, as drills mostly wait."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from itertools import groupby

import pytest
from gameday.drill import drill
from gameday.fault import Fault
from gameday.site import Site

# A server that starts takes a core.
_OPENED_AT_ONCE = 2
# Of the log of a server at which a drill has failed.
_LINES = 12
_FAILURES = (Exception, pytest.skip.Exception, pytest.fail.Exception)


class GameDay:
    """Begins in the running loop at once; `close` ends it."""

    def __init__(self, faults: Sequence[Fault], make: Callable[[str], AbstractAsyncContextManager[Site]]) -> None:
        """`faults` are sorted by their sites, which `make` opens by their names."""
        loop = asyncio.get_running_loop()
        self._make = make
        self._opening = asyncio.Semaphore(_OPENED_AT_ONCE)
        self._detected: dict[str, asyncio.Future[float]] = {fault.name: loop.create_future() for fault in faults}
        self._sites = [
            asyncio.create_task(self._drill_all(name, list(at_site)))
            for name, at_site in groupby(faults, key=lambda fault: fault.site)
        ]

    async def detected_s(self, fault: Fault) -> float:
        """Seconds from injection to the alert's expression, once the fault is over; raises what its drill raises."""
        return await self._detected[fault.name]

    async def close(self) -> None:
        if not all(detected.done() for detected in self._detected.values()):
            # The tests were ended early.
            for site in self._sites:
                site.cancel()
        await asyncio.wait(self._sites)
        for site in self._sites:
            if not site.cancelled():
                site.result()

    async def _drill_all(self, name: str, faults: Iterable[Fault]) -> None:
        async with AsyncExitStack() as stack:
            site: Site | None = None
            for fault in faults:
                try:
                    if site is None:
                        async with self._opening:
                            site = await stack.enter_async_context(self._make(name))
                    self._detected[fault.name].set_result(await drill(fault, site))
                except _FAILURES as failure:
                    if site is not None:
                        failure.add_note(f"The last lines of the log: {site.log()[-_LINES:]}")
                    self._detected[fault.name].set_exception(failure)
                    if not isinstance(failure, pytest.skip.Exception):
                        # What it has left behind must not fail the next one.
                        site = None
                        with suppress(Exception):
                            await stack.aclose()
