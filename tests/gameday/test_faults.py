"""Each fault of the catalogue happens to a real server, and is found: by its alert, in the log, by its users."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from gameday.faults import FAULTS
from gameday.figures import keep
from gameday.game_day import GameDay
from gameday.sites import ON_MONGODB, SITES
from support.further_cases import LONG, further_but

# `make gameday` evaluates the alerts as they are shipped, over minutes.
BY_NAME = {fault.name: fault for fault in FAULTS}
# One of the process itself, and one of each neighbour. That each alert is true when it should be is promtool's to show
# (tests/test_docs_alerts.py).
EVERY_TIME = [
    "full disk",
    "application that can't start",
    "model 500",
    "MCP server dead, and back again",
    "store refused",
    "Redis refused",
    "two catalogs",
    "Keycloak dead later",
    "file descriptors short",
    "killed worker",
]
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


@pytest.mark.parametrize("name", further_but(EVERY_TIME, BY_NAME))
async def test_a_fault_is_found(day: GameDay, name: str) -> None:
    fault = BY_NAME[name]
    detected_s = await day.detected_s(fault)
    print(f"{fault.name}: {detected_s:.1f} s")
    if LONG:
        keep(fault, detected_s)
