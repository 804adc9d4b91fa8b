"""The chat page shows an author the run of an answer, and runs it again from a step."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from services.axe import violations
from support.chat_page import ChatPage, chat_page
from support.running_server import running_server
from support.traced_agents import ENTRIES

pytestmark = [pytest.mark.axe, pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}


async def looked_into(page: ChatPage) -> None:
    await page.by("playground").get_by_role("button", name="Look into the run").click()
    await expect(page.by("run-panel")).to_be_visible()


async def test_a_run_is_shown_and_goes_again_from_a_step(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        files: list[str] = []
        page.tab.on("request", lambda one: files.append(one.url))
        await page.choose_agent("tools")
        await page.asked("weigh the cat")
        assert not [one for one in files if one.endswith(("/steps", "/graph"))], "nothing is read before it is opened"
        await looked_into(page)
        await expect(page.by("run-summary")).to_contain_text("3 nodes · 2 calls of models · 30 tokens in, 8 out")
        node = page.by("graph").locator("[data-node=model]")
        await expect(node).to_have_attribute("data-ran", "2")
        await expect(node).to_contain_text("#1 #5")
        steps = page.by("run-step")
        await expect(steps).to_have_count(6)
        await steps.nth(1).click()
        await expect(page.by("run-steps")).to_contain_text("You weigh things.")
        assert await violations(page.tab) == []
        if (folder := os.environ.get("PICTURES")) is not None:
            await page.by("playground").screenshot(path=f"{folder}/light.png")
        await steps.nth(4).click()
        await page.by("rerun").click()
        await expect(page.by("run-panel")).to_have_count(0)
        await page.ended()
        await looked_into(page)
        await expect(page.by("run-step")).to_have_count(2)
        await expect(page.by("messages")).to_contain_text("It weighs 7 kg.")


async def test_parallel_tools_stand_below_their_own_nodes(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        await page.choose_agent("parallel")
        await page.asked("weigh the cat and the dog")
        await looked_into(page)
        kinds = await page.by("run-step").evaluate_all("steps => steps.map(step => step.dataset.kind)")
        assert kinds == ["node", "model", "node", "tool", "node", "tool", "node", "model"]
        places = page.by("graph").locator("[data-node=tools]")
        await expect(places).to_contain_text("#3 #5")
        await expect(page.by("run-panel")).to_contain_text("Open a node of the agent’s own graph")


async def test_a_graph_with_subgraphs_fits_a_phone_in_the_dark(browser: Browser, tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, agents=ENTRIES) as server,
        chat_page(browser, server.address, **PHONE) as page,
    ):
        await page.choose_agent("nested")
        await page.asked("go")
        await looked_into(page)
        for name in ("plan", "research:note", "left", "right", "answer"):
            await expect(page.by("graph").locator(f"[data-node='{name}']")).to_have_attribute("data-ran", "1")
        assert await violations(page.tab) == []
        width = await page.tab.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, "nothing is wider than the phone"
        if (folder := os.environ.get("PICTURES")) is not None:
            await page.tab.screenshot(path=f"{folder}/phone.png")
