"""What the page says where variants of an answer are deleted with their conversation."""

import pytest
from playwright.async_api import expect
from support.chat_page import ChatPage
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def test_a_deletion_says_how_many_variants_go_though_few_are_listed(
    page: ChatPage, chat_server: RunningServer
) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    async with rest(chat_server) as http:
        forks = [await http.post(f"/sessions/{page.session_id}/fork", json={"rank": 0}) for _ in range(2)]
        for _ in range(90):
            await http.post("/sessions", json={"agent_id": "echo"})
        await http.post(f"/sessions/{forks[0].json()['id']}/fork", json={"rank": 0})
    await page.tab.reload()
    entry = page.by("session-item").filter(has_text="one").first
    await entry.hover()
    await entry.get_by_test_id("item-menu").click()
    await page.by("delete-session").click()
    await expect(page.by("undo-notice")).to_contain_text("deleted with 3 variants")
    await page.by("undo").click()
    await expect(entry).to_be_visible()


async def test_a_deletion_of_several_says_how_many_variants_go_with_them(
    page: ChatPage, chat_server: RunningServer
) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    async with rest(chat_server) as http:
        await http.post("/sessions", json={"agent_id": "echo", "title": "alone"})
        for rank in (0, 0, 2):
            assert (await http.post(f"/sessions/{page.session_id}/fork", json={"rank": rank})).status_code == 201
        # The newest hundred push them out of the list.
        for number in range(90):
            await http.post("/sessions", json={"agent_id": "echo", "title": f"other {number}"})
        await http.patch(f"/sessions/{page.session_id}", json={"pinned": True})
    await page.tab.reload()
    for names, said in (
        (["other 89", "other 88"], "2 conversations deleted"),
        (["One", "other 89"], "2 conversations deleted with 3 variants"),
    ):
        await page.by("list-menu").click()
        await page.by("select-several").click()
        for name in names:
            await page.tab.get_by_role("checkbox", name=name, exact=True).click()
        await page.by("delete-selected").click()
        await expect(page.by("undo-notice")).to_contain_text(said)
        await page.by("undo").click()
        await expect(page.by("undo-notice")).to_have_count(0)
