"""The chat page of a server whose users sign in through Keycloak, and Keycloak's sign-in page."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from playwright.async_api import Browser, Page, expect
from services.keycloak import Keycloak

from support.chat_client import PATIENCE_S
from support.chat_page import ChatPage, Watch, window

PROOF = re.compile(r"eyJ|token|code=|state=|code_verifier", re.IGNORECASE)
"""Text that a page must not leave behind: every Keycloak token starts with `eyJ`."""

_KEPT = "() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href"


class KeycloakPage(ChatPage):
    """One tab of `username`, whose password is the same."""

    def __init__(self, tab: Page, address: str, watch: Watch, username: str) -> None:
        super().__init__(tab, address, watch)
        self.username = username
        self.sign_in_form = tab.locator("#kc-form-login")
        self.failed = self.by("sign-in-failed")

    async def open(self, fragment: str = "") -> None:
        await self.tab.goto(f"{self._address}/{fragment}")
        await expect(self.composer.or_(self.sign_in_form).or_(self.failed).first).to_be_visible()

    async def another_tab(self, fragment: str = "") -> "KeycloakPage":
        other = KeycloakPage(await self.tab.context.new_page(), self._address, self._watch, self.username)
        await other.open(fragment)
        return other

    async def sign_in(self, username: str | None = None) -> None:
        """Fill in Keycloak's form, and wait for the chat."""
        self.username = username or self.username
        await expect(self.sign_in_form).to_be_visible()
        await self.tab.locator("#username").fill(self.username)
        await self.tab.locator("#password").fill(self.username)
        await self.tab.locator("#kc-login").click()
        await expect(self.composer).to_be_visible()
        await self.leaves_no_proof()

    async def leaves_no_proof(self) -> None:
        """Check that neither the address nor the browser's storage contains credentials."""
        kept: str = await self.tab.evaluate(_KEPT)
        assert not PROOF.search(kept), kept


@asynccontextmanager
async def keycloak_page(
    browser: Browser,
    address: str,
    keycloak: Keycloak,
    username: str,
    fragment: str = "",
    *,
    provokes: str | None = None,
    **options: Any,
) -> AsyncIterator[KeycloakPage]:
    """The page in a new window, signed in as `username`; `provokes` is a pattern for `ChatPage.provokes`."""
    async with window(browser, address, keycloak.realm_url, **options) as (context, watch):
        page = KeycloakPage(await context.new_page(), address, watch, username)
        if provokes:
            page.provokes(provokes)
        await page.open(fragment)
        await page.sign_in()
        yield page
        await page.leaves_no_proof()


async def end_sessions(keycloak: Keycloak, username: str) -> None:
    """End all Keycloak sessions of a user, as an administrator does."""
    master = keycloak.realm_url.rpartition("/realms/")[0]
    async with httpx.AsyncClient(base_url=master, verify=False, timeout=PATIENCE_S) as client:
        grant = {"grant_type": "password", "client_id": "admin-cli", "username": "admin", "password": "admin"}
        answer = await client.post("/realms/master/protocol/openid-connect/token", data=grant)
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        users = f"/admin/realms/{keycloak.realm_url.rpartition('/')[2]}/users"
        [user] = (await client.get(users, params={"username": username, "exact": "true"})).json()
        assert (await client.post(f"{users}/{user['id']}/logout")).is_success
