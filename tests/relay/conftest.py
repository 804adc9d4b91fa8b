from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from support.session_fixtures import hold, mongodb, sessions

from agentic_backend.relay.redis import broadcast as redis_broadcast

__all__ = ["hold", "mongodb", "patient_with_redis", "sessions"]


@pytest.fixture
async def opened() -> AsyncIterator[AsyncExitStack]:
    """Closes what a test opens."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture(autouse=True)
def patient_with_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy for some seconds is no Redis that is away, and does not lose the last words."""
    for name in ("_ANSWER_S", "_LAST_WORDS_S"):
        monkeypatch.setattr(redis_broadcast, name, 20.0)
