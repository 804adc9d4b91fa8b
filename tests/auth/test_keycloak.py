"""Keycloak itself: its tokens, its answers, and what goes on while it is away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from services.keycloak import BRIEF_CLIENT, CLIENT, SERVER_CLIENT, SERVER_SECRET, Keycloak
from support.chat_client import PATIENCE_S
from support.faulty_line import faulty_line
from support.further_cases import further

from agentic_backend.auth.jwks import ASK_AGAIN_S
from agentic_backend.auth.keycloak import KeycloakAuthenticator, keycloak_authenticator
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import AuthUnavailable, Unauthenticated

pytestmark = [pytest.mark.keycloak, pytest.mark.timeout(300, func_only=True)]


@dataclass(frozen=True)
class OwnKeycloak:
    """One that a test may stop and start: others may need the session's at any time."""

    keycloak: Keycloak
    stop: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]


@asynccontextmanager
async def behind_a_line(keycloak: Keycloak) -> AsyncIterator[OwnKeycloak]:
    """The session's, which nobody reaches at the line's port, neither its users nor the server, while it is stopped."""
    async with faulty_line(keycloak.port) as line:
        reached = copy(keycloak)
        reached.port = line.port
        yield OwnKeycloak(reached, line.close, line.open)


@asynccontextmanager
async def in_a_process_of_its_own(directory: Path) -> AsyncIterator[OwnKeycloak]:
    own = await asyncio.to_thread(Keycloak, directory)
    try:
        await asyncio.to_thread(own.start)
        yield OwnKeycloak(own, partial(asyncio.to_thread, own.stop), partial(asyncio.to_thread, own.start))
    finally:
        await asyncio.to_thread(own.stop)


@asynccontextmanager
async def opened(keycloak: Keycloak, **settings: object) -> AsyncIterator[KeycloakAuthenticator]:
    values = {"realm_url": keycloak.realm_url, "audience": SERVER_CLIENT, **settings}
    async with keycloak_authenticator(KeycloakSettings.model_validate(values), lambda call, why: None) as authenticator:
        yield authenticator


async def test_users_are_known_with_their_roles(keycloak: Keycloak) -> None:
    async with opened(keycloak) as authenticator:
        alice, bob, root = [
            await authenticator.authenticate((await keycloak.sign_in(name))["access_token"])
            for name in ("alice", "bob", "root")
        ]
    assert [user.name for user in (alice, bob, root)] == ["alice", "bob", "root"]
    assert len({user.id for user in (alice, bob, root)}) == 3
    assert [sorted({"analyst", "admin"} & user.roles) for user in (alice, bob, root)] == [["analyst"], [], ["admin"]]
    assert alice.expires_at is not None


async def test_users_are_known_with_their_groups_and_scopes(keycloak: Keycloak) -> None:
    scopes = {"organisation": "azp", "class": "realm_access.roles", "task": "no.such.claim"}
    async with opened(keycloak, groups_claim="realm_access.roles", scopes=scopes) as authenticator:
        token = (await keycloak.sign_in("alice"))["access_token"]
        alice = await authenticator.authenticate(token)
    assert "analyst" in alice.groups
    assert alice.scope == {"organisation": CLIENT}
    assert alice.scope_choices == {"class": alice.groups}
    assert alice.email == "alice@example.org"


async def test_other_tokens_of_keycloak_are_refused(keycloak: Keycloak) -> None:
    tokens = await keycloak.sign_in("alice")
    of_another_client = await keycloak.sign_in("alice", BRIEF_CLIENT)
    async with opened(keycloak) as authenticator:
        for token in (tokens["id_token"], tokens["refresh_token"], of_another_client["access_token"]):
            with pytest.raises(Unauthenticated):
                await authenticator.authenticate(token)
        assert (await authenticator.authenticate(tokens["access_token"])).name == "alice"
    async with opened(keycloak, audience="agentic-tools") as authenticator:
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(tokens["access_token"])


async def test_tokens_are_refreshed(keycloak: Keycloak) -> None:
    signed_in = await keycloak.sign_in("alice")
    async with opened(keycloak) as authenticator:
        alice = await authenticator.authenticate(signed_in["access_token"])
        newer = await authenticator.refresh(signed_in["refresh_token"], alice.id)
        assert newer.access_token != signed_in["access_token"]
        assert (await authenticator.authenticate(newer.access_token)).id == alice.id
        for refresh_token in (signed_in["access_token"], signed_in["refresh_token"][:-2], "nonsense"):
            with pytest.raises(Unauthenticated):
                await authenticator.refresh(refresh_token, alice.id)
        bobs = await keycloak.sign_in("bob")
        with pytest.raises(Unauthenticated):
            await authenticator.refresh(bobs["refresh_token"], alice.id)


async def test_tokens_are_exchanged_for_those_of_another_service(keycloak: Keycloak) -> None:
    token = (await keycloak.sign_in("alice"))["access_token"]
    exchanging = {"exchange_client_id": SERVER_CLIENT, "exchange_client_secret": SERVER_SECRET}
    tools = {"client_id": SERVER_CLIENT, "audience": "agentic-tools"}
    async with opened(keycloak, **exchanging) as authenticator, opened(keycloak, **tools) as of_the_tools:
        exchanged = await authenticator.exchange(token, "agentic-tools")
        alice = await authenticator.authenticate(token)
        assert (await of_the_tools.authenticate(exchanged.access_token)).id == alice.id
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(exchanged.access_token)
        for wrong in ("no-such-service", CLIENT):
            with pytest.raises(Unauthenticated):
                await authenticator.exchange(token, wrong)
    async with opened(keycloak) as authenticator:
        with pytest.raises(Unauthenticated):
            await authenticator.exchange(token, "agentic-tools")


@pytest.mark.parametrize("is_process", [False, further(True)], ids=["line", "process"])
async def test_known_keys_go_on_working_while_keycloak_is_stopped(
    keycloak: Keycloak, tmp_path: Path, is_process: bool
) -> None:
    async with in_a_process_of_its_own(tmp_path) if is_process else behind_a_line(keycloak) as own:
        await _known_keys_go_on_working(own)


async def _known_keys_go_on_working(own: OwnKeycloak) -> None:
    keycloak = own.keycloak
    alice, bob = await keycloak.sign_in("alice"), await keycloak.sign_in("bob")
    async with opened(keycloak) as authenticator:
        alice_id = (await authenticator.authenticate(alice["access_token"])).id
        await own.stop()
        assert authenticator.ready
        assert (await authenticator.authenticate(alice["access_token"])).name == "alice"
        assert (await authenticator.authenticate(bob["access_token"])).name == "bob"
        with pytest.raises(AuthUnavailable):
            await authenticator.refresh(alice["refresh_token"], alice_id)
        async with opened(keycloak) as started_meanwhile:
            assert not started_meanwhile.ready
            with pytest.raises(AuthUnavailable):
                await started_meanwhile.authenticate(alice["access_token"])
            await own.start()
            async with asyncio.timeout(ASK_AGAIN_S + PATIENCE_S):
                while not started_meanwhile.ready:
                    await asyncio.sleep(0.1)
            assert (await started_meanwhile.authenticate(alice["access_token"])).name == "alice"
        again = await keycloak.sign_in("alice")
        assert (await authenticator.authenticate(again["access_token"])).name == "alice"
