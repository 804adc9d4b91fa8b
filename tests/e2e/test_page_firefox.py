"""The chat page in Firefox: what people do most, by keys and mouse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from support import approval_agents
from support.approval_agents import NOTES_VARIABLE
from support.firefox import FirefoxTab, firefox
from support.running_server import running_server

pytestmark = [pytest.mark.firefox, pytest.mark.asyncio(loop_scope="module")]

ANSWERED = "document.querySelectorAll('section.exchange[data-status=ok]').length === {}"
SHOWN = "document.querySelector('[data-testid={}]')"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FirefoxTab]:
    async with firefox(tmp_path_factory.mktemp("firefox")) as tab:
        yield tab


@asynccontextmanager
async def visiting(tab: FirefoxTab) -> AsyncIterator[FirefoxTab]:
    """The tab leaves the server before that ends, which would be a problem for its page."""
    tab.problems.clear()
    yield tab
    await tab.open("about:blank")


async def test_people_chat_in_firefox(shared_tab: FirefoxTab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes.txt"))
    async with running_server(tmp_path, agents=approval_agents.ENTRIES) as server, visiting(shared_tab) as tab:
        await tab.open(server.address)
        await tab.until("document.activeElement?.id === 'composer'")
        await tab.type("show me some markdown\n")
        await tab.until(ANSWERED.format(1))
        await tab.until("document.querySelectorAll('.answer tbody tr').length === 3")
        await tab.until("document.querySelector('.answer pre code').textContent.includes('def greet')")

        await tab.click("[data-testid=regenerate]")
        await tab.until(f"{SHOWN.format('variant-place')}?.textContent.includes('2')")
        await tab.until(ANSWERED.format(1))

        await tab.click("#composer")
        await tab.type("What time is it in Tokyo?\n")
        await tab.until(ANSWERED.format(2))
        await tab.reload()
        await tab.until(ANSWERED.format(2))
        assert "Tokyo" in await tab.evaluate("document.querySelector('[data-testid=messages]').textContent")

        await tab.click("[data-testid=session-menu]")
        await tab.until("document.querySelector('[role=menu]')?.matches(':popover-open')")
        await tab.type("\ue00c")
        await tab.until("!document.querySelector('[role=menu]')")
        assert tab.problems == []


async def test_admins_edit_an_agent_in_firefox(shared_tab: FirefoxTab, tmp_path: Path) -> None:
    settings = {"agents": {"database": {"enabled": True}}}
    async with running_server(tmp_path, settings=settings) as server, visiting(shared_tab) as tab:
        await tab.open(f"{server.address}/#admin/new-agent")
        await tab.until(SHOWN.format("template"))
        await tab.click("[data-testid=template]")
        editor = f"{SHOWN.format('yaml-editor')}?.shadowRoot.querySelector('.cm-content')"
        await tab.until(f"document.activeElement === {SHOWN.format('yaml-editor')}")
        await tab.type("# typed\n")
        await tab.until(f"{editor}.textContent.startsWith('# typed')")
        await tab.click("[data-testid=save-entry]")
        await tab.until(f"{SHOWN.format('entry-state')}.textContent === 'Version 1'")
        await tab.click("[data-testid=show-versions]")
        await tab.until(f"{SHOWN.format('no-difference')}")
        assert tab.problems == []
