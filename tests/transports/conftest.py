"""What the tests of the transports may use: a tool that is held, and a realm that signs tokens."""

from collections.abc import AsyncIterator, Iterator

import pytest
from support import wire_agents
from support.held_agents import Hold
from support.signing_realm import SigningRealm, signing_realm


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """Holds the tool of the agent `unmoved` until the test releases it, or ends."""
    hold = Hold(ignores_cancel=True)
    monkeypatch.setattr(wire_agents, "unmoved", hold)
    yield hold
    hold.released.set()


@pytest.fixture
async def realm() -> AsyncIterator[SigningRealm]:
    async with signing_realm() as realm:
        yield realm
