"""Each fault of the catalogue happens to a real server, and is found: by its alert, in the log, by its users."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest
import pytest_asyncio
from gameday.drill import drill
from gameday.fault import Fault
from gameday.faults import FAULTS
from gameday.figures import keep
from gameday.site import Site
from gameday.sites import SITES

# `make gameday` evaluates the alerts as they are shipped, over minutes.
IN_FULL = os.environ.get("GAMEDAY") == "long"
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(3000 if IN_FULL else 900),
    pytest.mark.mongodb,
    pytest.mark.redis,
]


class Sites:
    """Has one site at a time: the faults of a site follow each other."""

    def __init__(self, make: Callable[[str], AbstractAsyncContextManager[Site]]) -> None:
        self._make = make
        self._name = ""
        self._stack = AsyncExitStack()

    async def __call__(self, name: str) -> Site:
        if name != self._name:
            await self.close()
            self._name = name
            self._site = await self._stack.enter_async_context(self._make(name))
        return self._site

    async def close(self) -> None:
        self._name = ""
        await self._stack.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sites(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sites]:
    def mongodb() -> int:
        return int(request.getfixturevalue("mongo_java").port)

    sites = Sites(lambda name: SITES[name](tmp_path_factory.mktemp(name), IN_FULL, mongodb))
    yield sites
    await sites.close()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
async def test_a_fault_is_found(sites: Sites, fault: Fault) -> None:
    detected_s = await drill(fault, await sites(fault.site))
    print(f"{fault.name}: {detected_s:.1f} s")
    if IN_FULL:
        keep(fault, detected_s)
