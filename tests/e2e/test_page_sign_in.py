"""The chat page signs in through a real Keycloak: two people at once, reloads, forged answers, signing out."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from services.keycloak import Keycloak
from support import paced_agent
from support.chat_page import new_chat_in, window
from support.chromium import NOT_LOOPBACK
from support.keycloak_page import KeycloakPage, keycloak_page
from support.paced_agent import ASK, Pace, first_words
from support.ports import free_port
from support.running_server import RunningServer, running_server

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.keycloak,
    # Keycloak may have to be fetched first, which is not the test's time.
    pytest.mark.timeout(240, func_only=True),
    pytest.mark.asyncio(loop_scope="module"),
]

NOT_FOUND = r"status of 404"


def settings(keycloak: Keycloak, **client: Any) -> dict[str, Any]:
    realm = {"realm_url": keycloak.realm_url, "leeway_s": 0, **client}
    return {"auth": {"mode": "keycloak", "keycloak": realm}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, keycloak: Keycloak) -> AsyncIterator[RunningServer]:
    directory = tmp_path_factory.mktemp("server")
    async with running_server(directory, agents=[paced_agent.ENTRY], settings=settings(keycloak)) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alices(browser: Browser, server: RunningServer, keycloak: Keycloak) -> AsyncIterator[KeycloakPage]:
    async with keycloak_page(browser, server.address, keycloak, "alice") as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(alices: KeycloakPage) -> AsyncIterator[KeycloakPage]:
    """Alice's, for tests that may find there what she has asked before, and leave her signed in."""
    await alices.open()
    # A test that failed has left her signed out, or one of another file has ended her sessions.
    if await alices.sign_in_form.is_visible():
        await alices.sign_in("alice")
    async with new_chat_in(alices):
        yield alices
        await alices.leaves_no_proof()


@pytest_asyncio.fixture(loop_scope="module")
async def own_server(tmp_path: Path, keycloak: Keycloak) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, settings=settings(keycloak)) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def own_page(browser: Browser, own_server: RunningServer, keycloak: Keycloak) -> AsyncIterator[KeycloakPage]:
    """Alice's, for tests that count what is listed, announce problems or leave somebody else signed in."""
    async with keycloak_page(browser, own_server.address, keycloak, "alice") as page:
        yield page


async def ask_paced(page: KeycloakPage) -> None:
    await page.choose_agent("paced")
    await page.ask(ASK)


async def test_two_users_at_the_same_time_each_see_their_own_conversations(
    browser: Browser, own_server: RunningServer, keycloak: Keycloak, own_page: KeycloakPage
) -> None:
    async with keycloak_page(browser, own_server.address, keycloak, "bob") as bobs:
        await expect(own_page.by("account")).to_contain_text("Alice Example")
        await expect(bobs.by("account")).to_contain_text("Bob Example")
        await own_page.asked("my name is Alice")
        await bobs.asked("my name is Bob")
        for theirs, name in ((own_page, "Alice"), (bobs, "Bob")):
            await theirs.tab.reload()
            await theirs.ended()
            await expect(theirs.by("session-item")).to_have_text(f"Name {name}")

        bobs.provokes(NOT_FOUND)
        await bobs.open(f"#s={own_page.session_id}")
        await expect(bobs.tab.get_by_role("alert")).to_be_visible()
        await expect(bobs.tab.get_by_text("Alice")).to_have_count(0)


async def test_the_conversation_in_the_address_outlasts_the_sign_in(
    browser: Browser, server: RunningServer, keycloak: Keycloak, page: KeycloakPage
) -> None:
    await page.asked("my name is Alice")
    async with keycloak_page(browser, server.address, keycloak, "alice", f"#s={page.session_id}") as other:
        await other.ended()
        assert other.session_id == page.session_id
        await other.leaves_no_proof()


async def test_a_reload_in_the_middle_of_an_answer_loses_nothing_and_asks_for_nothing(
    page: KeycloakPage, pace: Pace
) -> None:
    await ask_paced(page)
    for words in (10, 20):
        pace.write(10)
        await expect(page.answers.locator(".rich-text")).to_have_text(first_words(words), use_inner_text=True)
        await page.tab.reload()
        await expect(page.answers.locator(".rich-text")).to_have_text(first_words(words), use_inner_text=True)
        await page.leaves_no_proof()
    pace.finish()
    await page.ended()
    await expect(page.answers).to_have_count(1)


async def test_a_second_tab_needs_no_second_sign_in(page: KeycloakPage) -> None:
    await page.asked("my name is Alice")
    other = await page.another_tab(f"#s={page.session_id}")
    await other.ended()
    await expect(other.by("account")).to_contain_text("Alice Example")


async def test_the_administration_in_the_address_outlasts_the_sign_in(
    own_server: RunningServer, own_page: KeycloakPage
) -> None:
    tab = await own_page.tab.context.new_page()
    # Alice is no admin.
    own_page.provokes("status of 4")
    await tab.goto(f"{own_server.address}/#admin/agents")
    await expect(tab.get_by_test_id("catalog-error")).to_be_visible()
    assert tab.url.endswith("/#admin/agents")


async def test_who_signs_out_is_signed_out_of_keycloak_too(own_page: KeycloakPage) -> None:
    await own_page.asked("my name is Alice")
    await own_page.sign_out()
    await expect(own_page.sign_in_form).to_be_visible()
    await own_page.open()
    await own_page.sign_in("bob")
    await expect(own_page.by("account")).to_contain_text("Bob Example")
    await expect(own_page.by("session-list")).to_have_text("Your conversations will be listed here.")


async def test_of_two_tabs_that_wait_for_a_sign_in_one_is_enough(page: KeycloakPage) -> None:
    await page.sign_out()
    await expect(page.sign_in_form).to_be_visible()
    other = await page.another_tab()
    await other.sign_in()
    await expect(page.composer).to_be_visible()
    await page.asked("my name is Alice")
    await page.leaves_no_proof()


async def test_a_step_back_leads_through_keycloak_to_the_chat_again(own_page: KeycloakPage) -> None:
    steps = await own_page.tab.evaluate("history.length")
    await own_page.tab.reload()
    await expect(own_page.composer).to_be_visible()
    assert await own_page.tab.evaluate("history.length") == steps
    # From there Keycloak sends the browser here, with an answer to what nobody has asked.
    await own_page.tab.go_back()
    await own_page.asked("my name is Alice")
    await own_page.leaves_no_proof()


async def test_an_answer_to_nothing_that_was_asked_is_not_taken(page: KeycloakPage) -> None:
    asked: list[str] = []
    page.tab.on("request", lambda request: asked.append(request.url))
    for forged in ("state=a&code=b", "state=a&error=access_denied&error_description=Call+555-0100"):
        await page.sign_out()
        await expect(page.sign_in_form).to_be_visible()
        asked.clear()
        await page.open(f"#{forged}")
        await expect(page.sign_in_form).to_be_visible()
        assert not any("/token" in url for url in asked)
        assert not any("555-0100" in url for url in asked[1:])
        await page.sign_in()


async def answer(page: KeycloakPage, keycloak: Keycloak, error: str) -> None:
    """Sign out, and let Keycloak answer the next sign-in with an error."""
    await page.sign_out()
    await expect(page.sign_in_form).to_be_visible()
    asked = parse_qs(urlsplit(page.tab.url).query)
    await page.open(f"#state={asked['state'][0]}&iss={quote(keycloak.realm_url)}&error={error}")


async def test_a_form_that_has_stood_too_long_is_shown_again(page: KeycloakPage, keycloak: Keycloak) -> None:
    await answer(page, keycloak, "temporarily_unavailable&error_description=authentication_expired")
    await page.sign_in()


async def test_an_answer_that_says_no_is_told(page: KeycloakPage, keycloak: Keycloak) -> None:
    await answer(page, keycloak, "access_denied")
    await expect(page.failed).to_have_text("Keycloak refused the sign-in: access_denied")
    await page.leaves_no_proof()
    await page.by("try-again").click()
    await page.sign_in()


async def test_signing_in_needs_a_secure_connection(browser: Browser, tmp_path: Path, keycloak: Keycloak) -> None:
    port = free_port()
    address = f"http://{NOT_LOOPBACK}:{port}"
    named = {"server": {"port": port, "allowed_hosts": [NOT_LOOPBACK], "allowed_origins": [address]}}
    async with (
        running_server(tmp_path, settings=settings(keycloak) | named),
        window(browser, address) as (context, watch),
    ):
        page = KeycloakPage(await context.new_page(), address, watch, "alice")
        await page.open()
        await expect(page.failed).to_have_text("Signing in needs a secure connection. Open this page under https://.")
