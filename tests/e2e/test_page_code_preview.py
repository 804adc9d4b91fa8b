"""Previews: what HTML and SVG in an answer show, in a frame that reaches nothing."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Frame, Locator, expect
from support.chat_page import ChatPage, new_chat_in
from support.page_panels import until

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

CLICKER = """<!DOCTYPE html>
<h1>Clicks</h1>
<button onclick="count.textContent = +count.textContent + 1">Click</button> <output id="count">0</output>
"""
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><rect width="40" height="20" fill="red"/></svg>'
REACHED = {
    "the page": "parent.document.body",
    "its storage": "localStorage.length",
    "the server": "fetch(ORIGIN + '/agentic/v1/info')",
    "another host": "fetch('http://127.0.0.1:9/')",
    "an image of another host": """new Promise((ok, no) => {
        const image = new Image();
        [image.onload, image.onerror, image.src] = [ok, no, ORIGIN + '/static/icons/192.png'];
    })""",
}


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page, agent="assistant") as page:
        yield page


async def button(page: ChatPage, language: str, code: str) -> Locator:
    """The button of an answer with this code."""
    await page.asked(f"repeat after me: ```{language}\n{code}\n```")
    await expect(page.answers.locator("pre")).to_be_attached()
    return page.answers.locator(".preview-code")


async def previewed(page: ChatPage, code: str) -> Frame:
    await (await button(page, "html", code)).click()
    await page.tab.frame_locator(".code-preview").locator("p").first.wait_for()
    element = await page.tab.locator(".code-preview").element_handle()
    frame = await element.content_frame()
    assert frame is not None
    return frame


async def test_html_is_shown_beneath_its_code_as_high_as_it_is_and_works(page: ChatPage) -> None:
    toggle = await button(page, "html", CLICKER)
    await toggle.click()
    inside = page.tab.frame_locator(".code-preview")
    await inside.get_by_role("button").click()
    await expect(inside.locator("#count")).to_have_text("1")
    assert await inside.locator("body").evaluate("() => document.compatMode") == "CSS1Compat"
    height = await inside.locator("html").evaluate("(html) => Math.ceil(html.getBoundingClientRect().height)")
    await expect(page.tab.locator(".code-preview")).to_have_css("height", f"{height}px")
    await expect(toggle).to_have_attribute("aria-pressed", "true")
    await toggle.click()
    await expect(page.tab.locator(".code-preview")).to_have_count(0)


async def test_a_drawing_is_shown_as_wide_as_there_is_room(page: ChatPage) -> None:
    await (await button(page, "svg", DRAWING)).click()
    shape = page.tab.frame_locator(".code-preview").locator("rect")
    await expect(shape).to_be_visible()
    box, frame = await shape.bounding_box(), await page.tab.locator(".code-preview").bounding_box()
    assert box is not None and frame is not None and box["width"] == pytest.approx(frame["width"], abs=2)


async def test_other_code_has_no_preview(page: ChatPage) -> None:
    await expect(await button(page, "python", "print(1)")).to_be_hidden()


@pytest.mark.parametrize("what", REACHED.values(), ids=REACHED)
async def test_a_preview_reaches_nothing(page: ChatPage, what: str) -> None:
    page.provokes("")
    frame = await previewed(page, "<p>a page</p>")
    origin = await page.tab.evaluate("location.origin")
    reached = f"async (ORIGIN) => {{ try {{ await ({what}); return true; }} catch {{ return false; }} }}"
    assert await frame.evaluate(reached, origin) is False


async def test_a_preview_is_answered_nothing_and_closed_when_it_becomes_another_document(page: ChatPage) -> None:
    page.provokes("")
    frame = await previewed(page, "<p>a page</p>")
    asked = """() => new Promise((answered) => {
      addEventListener('message', ({ data }) => answered(data.error.code));
      parent.postMessage({ jsonrpc: '2.0', id: 1, method: 'ui/initialize', params: {} }, '*');
    })"""
    assert await frame.evaluate(asked) == -32601
    await until(frame, "document.readyState === 'complete'")
    await frame.evaluate("() => { setTimeout(() => { location.href = 'about:blank'; }, 50); }")
    await expect(page.answers.locator(".preview-failure")).to_have_text(
        "It has become another document, and was closed."
    )
