"""Tokens are checked in the event loop: a call that blocks it fails these tests."""

from collections.abc import AsyncIterator, Iterator

import pytest
from blockbuster import blockbuster_ctx
from support.signing_realm import SigningRealm, signing_realm


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[None]:
    with blockbuster_ctx():
        yield


@pytest.fixture
async def realm() -> AsyncIterator[SigningRealm]:
    async with signing_realm() as realm:
        yield realm
