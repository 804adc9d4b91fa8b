"""The administration of the catalog's agents: list, editor, versions, and a chat beside them. All on one server."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Route, expect
from services.axe import violations
from support.chat_page import ChatPage, chat_page, window
from support.contract import DOCS
from support.further_cases import further
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.axe, pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

CALL = """async ([method, path, body]) => {
  const asked = { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) };
  const response = await fetch(`/agentic/v1/admin/agents${path}`, asked);
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.headers.get("Content-Type")?.includes("json") ? response.json() : null;
}"""


IS_THERE = """async (agentId) => {
  const { agents } = await (await fetch("/agentic/v1/admin/agents")).json();
  return agents.some(({ id }) => id === agentId);
}"""

OFFERED = """async ([text, position, schema]) => {
  const { completionsAt } = await import("/static/admin/yaml-completion.js");
  return completionsAt(text, position, schema)?.options.map(({ label }) => label) ?? [];
}"""


class AdminPage(ChatPage):
    """A tab that shows the administration."""

    async def open(self, fragment: str = "#admin/agents") -> None:
        # An address that differs in its fragment only is not loaded anew.
        await self.tab.goto("about:blank")
        await self.tab.goto(f"{self._address}/{fragment}")
        await expect(self.by("admin")).to_be_visible()

    async def edit(self, agent_id: str) -> None:
        await self.open(f"#admin/agents/{agent_id}")
        await expect(self.yaml).to_contain_text(f"id: {agent_id}")

    @property
    def yaml(self) -> Locator:
        """What is edited."""
        return self.by("yaml")

    def row(self, agent_id: str) -> Locator:
        return self.tab.locator(f'[data-testid=agent-row][data-agent="{agent_id}"]')

    async def type_at_end(self, text: str) -> None:
        await self.yaml.focus()
        await self.tab.keyboard.press("Control+End")
        await self.tab.keyboard.type(text)

    async def call(self, method: str, path: str = "", **body: Any) -> Any:
        """A REST call below `/admin/agents`, by the page's user."""
        return await self.tab.evaluate(CALL, [method, path, body or None])

    async def create(self, agent_id: str, more: str = "") -> None:
        await self.call("POST", yaml=entry(agent_id, more))


def entry(agent_id: str, more: str = "") -> str:
    class_path = "agentic_backend.experts.assistant.assistant:Assistant"
    return f"id: {agent_id}\nname: The {agent_id}\ndescription: Answers.\nclass_path: {class_path}\n{more}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    directory: Path = tmp_path_factory.mktemp("server")
    async with running_server(directory, settings={"agents": {"database": {"enabled": True}}}) as server:
        yield server


@asynccontextmanager
async def admin_page(browser: Browser, server: RunningServer, **options: Any) -> AsyncIterator[AdminPage]:
    async with window(browser, server.address, **options) as (context, watch):
        page = AdminPage(await context.new_page(), server.address, watch)
        await page.open()
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def admin(browser: Browser, admin_server: RunningServer) -> AsyncIterator[AdminPage]:
    async with admin_page(browser, admin_server) as page:
        yield page


async def test_an_admin_makes_an_agent_from_a_template_and_tries_it(
    browser: Browser, admin_server: RunningServer
) -> None:
    async with chat_page(browser, admin_server.address) as chat:
        await chat.by("account-menu").click()
        await chat.by("manage-agents").click()
        await expect(chat.by("admin-title")).to_have_text("Agents")
        await expect(chat.by("agent-row").first).to_have_attribute("data-source", "yaml")
        page = AdminPage(chat.tab, admin_server.address, chat._watch)
        await page.by("new-agent").click()
        await expect(page.by("try-agent")).to_be_disabled()
        await page.by("template").first.click()
        await expect(page.yaml).to_contain_text("id: new-agent")
        await page.yaml.focus()
        await page.tab.keyboard.press("Control+Home")
        await page.tab.keyboard.press("End")
        await page.tab.keyboard.type("-made")
        await page.by("save-entry").click()
        await expect(page.tab).to_have_url(re.compile("#admin/agents/new-agent-made$"))
        await expect(page.by("entry-state")).to_have_text("Version 1")

        await page.by("try-agent").click()
        await page.by("trial").get_by_test_id("starter").first.click()
        await page.by("send").click()
        await page.ended()
        await expect(page.answers).to_contain_text("UTC")
        assert page.tab.url.endswith("#admin/agents/new-agent-made")
        await page.by("admin-back").click()
        await expect(page.row("new-agent-made")).to_have_attribute("data-state", "served")
        await expect(page.row("new-agent-made").locator(".agent-mark")).to_have_text("✎")
        await page.by("admin-back").click()
        await expect(page.composer).to_be_visible()


# `|` is the place, then what is offered there, and what never is.
COMPLETED: list[tuple[str, set[str], set[str]]] = [
    ("|", {"id", "name", "tuning"}, set()),
    ("id: x\nna|\nicon: y", {"name"}, {"id", "icon"}),
    ("limits:\n  |", {"steps", "tokens"}, {"name"}),
    ("stream: |", {"all", "final_only"}, {"nodes"}),
    ("hold_output: tr|", {"true", "false"}, set()),
    ("tuning:\n  mcp_servers:\n    - |", {"id"}, {"mcp_servers"}),
    ("tuning:\n  mcp_servers:\n  - id: a\n    |", {"require_tools"}, {"id"}),
    ("tuning:\n  mcp_servers:\n    - id: a\nna|", {"name"}, {"require_tools"}),
    ("description: |-\n  na|", set(), {"name"}),
    ("name: |", set(), {"id"}),
]


async def test_what_may_be_written_at_a_place_is_offered(admin: AdminPage) -> None:
    schema = json.loads((DOCS / "agents_catalog.schema.json").read_text())
    for text, offered, never in COMPLETED:
        place = text.rindex("|")
        written = text[:place] + text[place + 1 :]
        labels = set(await admin.tab.evaluate(OFFERED, [written, place, schema]))
        assert (offered - labels, labels & never) == (set(), set()), text


async def test_keys_are_completed_and_problems_shown_at_their_place(admin: AdminPage) -> None:
    await admin.create("completed")
    await admin.edit("completed")
    await admin.type_at_end("stre")
    options = admin.tab.locator(".cm-tooltip-autocomplete li")
    await expect(options.first).to_contain_text("stream")
    await expect(admin.tab.locator(".cm-completionInfo")).to_contain_text("Which texts people see")
    await options.first.click()
    await expect(options.filter(has_text="final_only").first).to_be_visible()
    await admin.tab.keyboard.press("Escape")
    await admin.tab.keyboard.type("all\nlimits:\n  wrong: 3")
    problem = admin.by("problem").filter(has_text="wrong")
    await expect(problem).to_contain_text("Line 7")
    await expect(admin.tab.locator(".cm-lintRange-error").first).to_be_visible()

    # Saving says the same; nothing is saved.
    await admin.by("save-entry").click()
    admin.provokes("status of 4")
    await expect(admin.by("save-error")).to_be_visible()
    await expect(problem).to_be_visible()
    await admin.tab.keyboard.press("Control+Home")
    await problem.click()
    await expect(admin.tab.locator(".cm-activeLine")).to_have_text("  wrong: 3")
    await admin.tab.keyboard.press("End")
    for _ in "wrong: 3":
        await admin.tab.keyboard.press("Backspace")
    await admin.tab.keyboard.type("steps: 30")
    await expect(admin.by("problem")).to_have_count(0)
    await admin.tab.keyboard.press("Control+s")
    await expect(admin.by("entry-state")).to_have_text("Version 2")
    assert (await admin.call("GET", "/completed"))["yaml"] == entry("completed", "stream: all\nlimits:\n  steps: 30")


async def test_nothing_typed_is_lost_when_somebody_else_saves(admin: AdminPage) -> None:
    await admin.create("contested")
    await admin.edit("contested")
    await admin.type_at_end("# mine")
    await expect(admin.by("entry-state")).to_contain_text("based on version 1")
    await admin.tab.reload()
    await expect(admin.by("restored")).to_be_visible()
    await expect(admin.yaml).to_contain_text("# mine")

    await admin.call("PUT", "/contested", yaml=entry("contested", "# theirs"), version=1)
    admin.provokes("status of 409")
    await admin.by("save-entry").click()
    await expect(admin.by("conflict")).to_contain_text("version 2")
    difference = admin.by("conflict").get_by_test_id("difference")
    await expect(difference).to_contain_text("# theirs")
    await expect(difference).to_contain_text("# mine")
    # It is a conflict after a reload, too.
    await admin.tab.reload()
    await expect(admin.by("conflict")).to_be_visible()
    await expect(admin.yaml).to_contain_text("# mine")
    await admin.by("save-mine").click()
    await expect(admin.by("entry-state")).to_have_text("Version 3")
    await expect(admin.by("conflict")).to_have_count(0)
    assert (await admin.call("GET", "/contested"))["yaml"] == entry("contested", "# mine")

    await admin.type_at_end(" again")
    await admin.call("PUT", "/contested", yaml=entry("contested", "# theirs"), version=3)
    await admin.by("save-entry").click()
    await admin.by("take-theirs").click()
    await expect(admin.yaml).to_contain_text("# theirs")
    await expect(admin.by("entry-state")).to_have_text("Version 4")
    await admin.tab.reload()
    await expect(admin.yaml).to_contain_text("# theirs")
    await expect(admin.by("restored")).to_have_count(0)


async def test_versions_are_compared_and_brought_back(admin: AdminPage) -> None:
    await admin.create("versioned", "# one")
    for version, text in enumerate(("# two", "# three"), 1):
        await admin.call("PUT", "/versioned", yaml=entry("versioned", text), version=version)
    await admin.edit("versioned")
    await admin.by("show-versions").click()
    await expect(admin.by("version")).to_have_count(3)
    assert await admin.tab.locator(".version-head").inner_text() == "From\nTo"
    difference = admin.by("difference")
    await expect(difference).to_contain_text("# two")
    await expect(difference).to_contain_text("# three")
    await admin.by("older-1").check()
    await expect(difference).to_contain_text("# one")
    await expect(difference).not_to_contain_text("# two")

    await admin.by("version").filter(has_text="Version 1").get_by_test_id("roll-back").click()
    await expect(admin.by("version")).to_have_count(4)
    assert (await admin.call("GET", "/versioned"))["yaml"] == entry("versioned", "# one")
    await admin.by("undo").click()
    await expect(admin.by("version")).to_have_count(5)
    await admin.by("back-to-entry").click()
    await expect(admin.yaml).to_contain_text("# three")


async def test_an_agent_that_is_not_there_leads_back_to_the_list(admin: AdminPage) -> None:
    admin.provokes("Failed to load")
    await admin.open("#admin/agents/nobody")
    error = admin.by("entry-error")
    await expect(error).to_contain_text("There is no such agent.")
    await expect(error.get_by_role("button")).to_have_count(0)
    await error.get_by_role("link", name="All agents").click()
    await expect(admin.by("agent-rows")).to_be_visible()


async def test_the_list_is_read_again_while_an_agent_is_not_served_yet(admin: AdminPage) -> None:
    await admin.create("late")
    await admin.tab.clock.install()
    seen = 0

    async def not_yet(route: Route) -> None:
        nonlocal seen
        seen += 1
        response = await route.fetch()
        told = await response.json()
        for agent in told["agents"]:
            agent["served"] = agent["served"] and seen > 1
        await route.fulfill(response=response, json=told)

    await admin.tab.route("**/admin/agents", not_yet)
    await admin.open()
    await expect(admin.row("late")).to_have_attribute("data-state", "waiting")
    await admin.tab.clock.fast_forward(3_500)
    await expect(admin.row("late")).to_have_attribute("data-state", "served")
    # One more may be on its way on a slow machine.
    await admin.tab.wait_for_load_state("networkidle")
    read = seen
    await admin.tab.clock.fast_forward(3_500)
    # A read that begins is told of within this time.
    await admin.tab.wait_for_timeout(300)
    assert seen == read, "all are served now"


async def test_agents_are_filtered_switched_and_deleted_with_a_way_back(admin: AdminPage) -> None:
    await admin.create("listed")
    await admin.open()
    await admin.by("filter-agents").fill("LISTED answers")
    await expect(admin.by("agent-row")).to_have_count(1)
    row = admin.row("listed")
    for command, state in (("disable", "disabled"), ("enable", "served")):
        await row.get_by_test_id("agent-menu").click()
        await admin.by(command).click()
        await expect(row).to_have_attribute("data-state", state)
    await row.get_by_test_id("agent-menu").click()
    await admin.by("delete-agent").click()
    await admin.by("confirm").click()
    await expect(row).to_have_count(0)
    await admin.by("undo").click()
    await expect(row).to_have_attribute("data-state", "served")


async def test_agents_are_exported_and_imported(admin: AdminPage, tmp_path: Path) -> None:
    await admin.create("carried", "# kept")
    await admin.open()
    await admin.by("catalog-menu").click()
    async with admin.tab.expect_download() as download:
        await admin.by("export").click()
    file = tmp_path / "agents_catalog.yaml"
    await (await download.value).save_as(file)
    catalog = file.read_text()
    assert "id: carried" in catalog

    for text, imported in (("agents: [", False), (catalog.replace("The carried", "Brought back"), True)):
        file.write_text(text)
        await admin.by("catalog-menu").click()
        await admin.by("import").click()
        await admin.by("import-file").set_input_files(file)
        if not imported:
            admin.provokes("status of 4")
        await admin.by("do-import").click()
        if imported:
            await expect(admin.by("import-dialog")).to_have_count(0)
        else:
            await expect(admin.by("import-error")).to_be_visible()
            await admin.tab.keyboard.press("Escape")
    await expect(admin.row("carried")).to_contain_text("Brought back")


async def test_an_agent_of_the_file_is_only_read(admin: AdminPage) -> None:
    await admin.edit("assistant")
    await expect(admin.by("read-only")).to_be_visible()
    await expect(admin.by("save-entry")).to_have_count(0)
    await admin.yaml.focus()
    await admin.tab.keyboard.type("never")
    await expect(admin.yaml).not_to_contain_text("never")
    await admin.by("copy-entry").click()
    await expect(admin.by("admin-title")).to_have_text("New agent")
    await expect(admin.yaml).to_contain_text("id: assistant")
    await admin.by("discard").click()


async def test_others_see_no_administration(browser: Browser, admin_server: RunningServer) -> None:
    async with chat_page(browser, admin_server.address, "#token=dev:ann") as page:
        await page.asked("What is 17 * 23?")
        await page.by("account-menu").click()
        await expect(page.by("open-settings")).to_be_visible()
        await expect(page.by("manage-agents")).to_have_count(0)
        page.provokes("status of 403")
        await page.tab.goto(f"{admin_server.address}/#admin/agents")
        await expect(page.by("catalog-error")).to_be_visible()
        await expect(page.by("agent-row")).to_have_count(0)


State = Callable[[AdminPage], Awaitable[None]]


async def listed(page: AdminPage) -> None:
    await expect(page.row("looked-at")).to_be_visible()
    await page.row("looked-at").get_by_test_id("agent-menu").click()
    await expect(page.by("delete-agent")).to_be_visible()


async def edited(page: AdminPage) -> None:
    await page.edit("looked-at")
    await page.type_at_end("wrong: 1\nstre")
    await expect(page.by("problem").first).to_be_visible()
    await expect(page.tab.locator(".cm-tooltip-autocomplete li").first).to_be_visible()


async def contested(page: AdminPage) -> None:
    await page.edit("looked-at")
    await page.type_at_end("# mine")
    version = (await page.call("GET", "/looked-at"))["version"]
    await page.call("PUT", "/looked-at", yaml=entry("looked-at", f"# theirs {version}"), version=version)
    page.provokes("status of 409")
    await page.by("save-entry").click()
    await expect(page.by("conflict").get_by_test_id("difference")).to_be_visible()


async def compared(page: AdminPage) -> None:
    await page.open("#admin/agents/looked-at/versions")
    await expect(page.by("difference")).to_be_visible()


async def tried(page: AdminPage) -> None:
    await page.edit("looked-at")
    await page.by("try-agent").click()
    await expect(page.composer).to_be_visible()


PHONE = {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": PHONE},
}


# Both schemes and both widths, with two of the three.
@pytest.mark.parametrize("look", [further("light"), "dark", "phone"])
async def test_nothing_breaks_a_rule_of_wcag(browser: Browser, admin_server: RunningServer, look: str) -> None:
    async with admin_page(browser, admin_server, **LOOKS[look]) as page:
        # The server is that of all looks.
        if not await page.tab.evaluate(IS_THERE, "looked-at"):
            await page.create("looked-at", "# first")
            await page.open()
        states: list[State] = [listed, tried, edited, contested, compared]
        for state in states:
            await state(page)
            assert await violations(page.tab) == [], state.__name__
            assert await page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), state.__name__
