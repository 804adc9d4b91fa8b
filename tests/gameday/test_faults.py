"""Each fault of the catalogue happens to a real server, and is found: by its alert, in the log, by its users."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from gameday.fault import Fault
from gameday.faults import FAULTS
from gameday.figures import keep
from gameday.game_day import GameDay
from gameday.sites import ON_MONGODB, SITES
from support.further_cases import LONG

# `make gameday` evaluates the alerts as they are shipped, over minutes.
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(3000 if LONG else 900),
    pytest.mark.mongodb,
    pytest.mark.redis,
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def day(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GameDay]:
    chosen = {item.name for item in request.session.items if item.path == request.path}
    faults = [fault for fault in FAULTS if f"{test_a_fault_is_found.__name__}[{fault.name}]" in chosen]
    # Before the day begins: its start takes seconds in which the loop stands still.
    mongodb = request.getfixturevalue("mongo_java").port if {fault.site for fault in faults} & ON_MONGODB else 0
    day = GameDay(faults, lambda name: SITES[name](tmp_path_factory.mktemp(name), LONG, mongodb))
    yield day
    await day.close()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
async def test_a_fault_is_found(day: GameDay, fault: Fault) -> None:
    detected_s = await day.detected_s(fault)
    print(f"{fault.name}: {detected_s:.1f} s")
    if LONG:
        keep(fault, detected_s)
