"""The chat page and tokens that end: renewed silently while that is possible, and then back through Keycloak."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import pytest_asyncio
from playwright.async_api import Browser, WebSocket, expect
from services.keycloak import BRIEF_CLIENT, Keycloak
from support import paced_agent
from support.further_cases import LONG
from support.keycloak_page import KeycloakPage, end_sessions, keycloak_page
from support.paced_agent import ASK, Pace
from support.running_server import RunningServer, running_server

from agentic_backend.transports import credentials
from agentic_backend.transports.credentials import EXPIRY_LEEWAY_S

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.keycloak,
    # Keycloak may have to be fetched first, which is not the test's time.
    pytest.mark.timeout(240, func_only=True),
    pytest.mark.asyncio(loop_scope="module"),
]

TOKEN_ENDPOINT = "**/protocol/openid-connect/token"
REFUSED = r"status of 40[0-3]"
RENEWALS = 6 if LONG else 3


def settings(keycloak: Keycloak, **more: Any) -> dict[str, Any]:
    realm = {"realm_url": keycloak.realm_url, "client_id": BRIEF_CLIENT, "leeway_s": 0, **more}
    return {"auth": {"mode": "keycloak", "keycloak": realm}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, keycloak: Keycloak) -> AsyncIterator[RunningServer]:
    """Its users' tokens end after seconds."""
    directory = tmp_path_factory.mktemp("server")
    async with running_server(directory, agents=[paced_agent.ENTRY], settings=settings(keycloak)) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: RunningServer, keycloak: Keycloak) -> AsyncIterator[KeycloakPage]:
    """Alice's."""
    async with keycloak_page(browser, server.address, keycloak, "alice") as page:
        yield page


@pytest.fixture
def leeway_s(monkeypatch: pytest.MonkeyPatch) -> int:
    """How long the server waits for the next token once one has ended; set before the page shows its first."""
    leeway_s = EXPIRY_LEEWAY_S if LONG else 6
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", leeway_s)
    return leeway_s


class Sockets:
    """The sockets that a tab opens from here on, and the tokens that it shows there."""

    def __init__(self, page: KeycloakPage) -> None:
        self.urls: list[str] = []
        self.tokens: list[str] = []
        page.tab.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        self.urls.append(socket.url)
        socket.on("framesent", self._sent)

    def _sent(self, frame: str | bytes) -> None:
        found = re.search(r'^{"type":"authenticate","access_token":"(eyJ[^"]+)","refresh_token":"eyJ', str(frame))
        if found:
            self.tokens.append(found[1])


def end_of(token: str) -> int:
    claims = jwt.decode(token, options={"verify_signature": False})
    return int(claims["exp"])


async def test_tokens_are_renewed_silently_while_an_answer_is_written(
    leeway_s: int, page: KeycloakPage, pace: Pace
) -> None:
    sockets = Sockets(page)
    await page.tab.reload()
    await page.choose_agent("paced")
    await page.ask(ASK)
    pace.write(10)
    await page.writes(9)
    while len(sockets.tokens) < RENEWALS or time.time() < end_of(sockets.tokens[0]) + leeway_s + 1:
        await page.tab.wait_for_timeout(200)
    pace.finish()
    await page.ended()
    assert len(set(sockets.tokens)) == len(sockets.tokens)
    assert len(sockets.urls) == 1
    assert "eyJ" not in sockets.urls[0]
    await page.asked("my name is Alice")


async def test_when_the_session_at_keycloak_has_ended_the_way_back_in_keeps_place_and_draft(
    page: KeycloakPage, keycloak: Keycloak
) -> None:
    page.provokes(REFUSED)
    await page.asked("my name is Alice")
    session_id = page.session_id
    await page.composer.fill("a half written")
    await end_sessions(keycloak, "alice")
    await page.sign_in()
    await expect(page.composer).to_have_value("a half written")
    await page.ended()
    assert page.session_id == session_id

    await page.composer.fill("for nobody else")
    await end_sessions(keycloak, "alice")
    page.provokes(r"status of 404")
    await page.sign_in("bob")
    await expect(page.composer).to_have_value("")
    await expect(page.tab.get_by_text("Alice")).to_have_count(0)


async def test_an_ask_that_did_not_get_through_is_sent_after_the_sign_in(
    page: KeycloakPage, keycloak: Keycloak
) -> None:
    page.provokes(REFUSED)
    is_deaf = True
    await page.tab.route_web_socket("**/ws", lambda route: None if is_deaf else route.connect_to_server())
    await page.tab.reload()
    await page.ask("my name is Alice")
    await expect(page.exchanges).to_have_attribute("data-status", "sending")
    await page.composer.fill("and I like tea")
    await end_sessions(keycloak, "alice")
    await expect(page.sign_in_form).to_be_visible()
    is_deaf = False
    await page.sign_in()
    await page.ended()
    await expect(page.by("message-user")).to_contain_text("my name is Alice")
    await expect(page.composer).to_have_value("and I like tea")


async def test_who_signs_out_leaves_nothing_that_was_typed(page: KeycloakPage) -> None:
    await page.asked("my name is Alice")
    await page.composer.fill("a half written")
    other = await page.another_tab()
    await other.composer.fill("another half")
    await page.tab.reload()
    await expect(page.composer).to_have_value("a half written")
    await page.sign_out()
    await expect(page.sign_in_form).to_be_visible()
    # What is typed in a tab that has not noticed yet is not kept either.
    await other.composer.fill("for nobody else")
    await other.tab.reload()
    await expect(other.sign_in_form).to_be_visible()
    # Keycloak takes the form that it made last.
    await other.tab.close()
    await page.tab.reload()
    await page.sign_in()
    await expect(page.composer).to_have_value("")
    kept = await page.tab.evaluate("Object.keys(localStorage).join()")
    assert "chat.draft" not in kept
    assert "chat.ask" not in kept


async def test_while_keycloak_cannot_be_reached_the_page_tries_again(leeway_s: int, page: KeycloakPage) -> None:
    page.provokes(r"net::ERR_|status of 401")
    sockets = Sockets(page)
    await page.asked("my name is Alice")
    await page.tab.route(TOKEN_ENDPOINT, lambda route: route.abort())
    await expect(page.by("connection-state")).to_have_attribute("data-phase", "reconnecting", timeout=30_000)
    await page.ask("what is my name?")
    await page.tab.unroute(TOKEN_ENDPOINT)
    await page.ended(exchanges=2)
    await expect(page.by("connection-state")).to_have_count(0)
    assert len(sockets.urls) == 1


async def test_a_server_that_takes_no_token_is_not_asked_again_and_again(
    browser: Browser, tmp_path: Path, keycloak: Keycloak
) -> None:
    foreign = settings(keycloak, audience="somebody-else")
    async with (
        running_server(tmp_path, settings=foreign) as server,
        keycloak_page(browser, server.address, keycloak, "alice", provokes=REFUSED) as page,
    ):
        notice = page.by("connection-state")
        await expect(notice).to_have_attribute("data-phase", "signed_out")
        await expect(notice).to_contain_text("The server does not accept your sign-in.")
        sockets = Sockets(page)
        await page.tab.wait_for_timeout(2_000)
        assert sockets.urls == []


async def test_who_lacks_a_role_is_told_and_can_sign_out(browser: Browser, tmp_path: Path, keycloak: Keycloak) -> None:
    closed = settings(keycloak, required_roles=["admin"])
    async with (
        running_server(tmp_path, settings=closed) as server,
        keycloak_page(browser, server.address, keycloak, "bob", provokes=REFUSED) as page,
    ):
        notice = page.by("connection-state")
        await expect(notice).to_have_attribute("data-phase", "refused")
        await expect(notice).to_contain_text("You don't have access to this server.")
        sockets = Sockets(page)
        await page.tab.wait_for_timeout(2_000)
        assert sockets.urls == []
        await page.sign_out()
        await page.sign_in("root")
        await page.asked("my name is Root")
