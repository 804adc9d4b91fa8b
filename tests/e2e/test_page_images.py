"""Images of other hosts: nothing is asked of these hosts until the reader wants to see one of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support import picture_agent
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.image_host import ImageHost, image_host
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SECRET = "/pixel.png?said=my+password+is+hunter2"
# Every way that somebody has thought of to have a browser fetch something; `{}` is the address.
FORMS = [
    "![a picture]({})",
    '![a picture](<{}> "with a title")',
    "![a picture][reference]\n\n[reference]: {}",
    "[![a picture]({})]({})",
    "[a link]({}) and {}",
    "> - ![a picture]({})",
    "| a |\n|---|\n| ![a picture]({}) |",
    '<img src="{}"><img src="x" srcset="{} 2x">',
    '<picture><source srcset="{}"><img src="{}"></picture>',
    '<video poster="{}" src="{}" autoplay></video><audio src="{}" autoplay></audio>',
    '<input type="image" src="{}"><table background="{}"><tr><td background="{}">x</td></tr></table>',
    '<svg><image href="{}"/><use href="{}#x"/><feImage href="{}"/></svg>',
    '<link rel="preload" as="image" href="{}"><link rel="prefetch" href="{}"><link rel="preconnect" href="{}">',
    '<p style="background: url({}); content: url({})">x</p><style>p {{ background: url({}) }}</style>',
    '<script type="speculationrules">{{"prefetch": [{{"urls": ["{}"]}}]}}</script>',
    '<button type="button" class="show-image" data-src="{}" autofocus>x</button>',
    "![a picture](data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'%3E%3Cimage href='{}'/%3E%3C/svg%3E)",
]


@pytest_asyncio.fixture(loop_scope="module")
async def outside(tmp_path: Path) -> AsyncIterator[ImageHost]:
    async with image_host(tmp_path) as host:
        yield host


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), agents=[picture_agent.ENTRY]) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def own_page(browser: Browser, server: RunningServer) -> AsyncIterator[ChatPage]:
    """For tests that count what another host is asked for."""
    async with chat_page(browser, server.address, ignore_https_errors=True) as page:
        yield page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_page(browser: Browser, server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, server.address, ignore_https_errors=True) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page, agent="assistant") as page:
        yield page


async def test_no_text_asks_anything_of_another_host(own_page: ChatPage, outside: ImageHost) -> None:
    address = outside.url(SECRET)
    texts = [form.format(*[address] * form.count("{}")) for form in FORMS]
    offered = 0
    for index, text in enumerate(texts, start=1):
        await own_page.ask(f"repeat after me: {text}")
        await own_page.ended(exchanges=index)
        # The page keeps only what is near: each answer is looked at while it is.
        for link in await own_page.answers.last.locator("a, button").all():
            await link.hover(force=True)
        offered += await own_page.answers.last.get_by_role("button", name="Show image").count()
    await own_page.tab.reload()
    await own_page.ended(exchanges=len(texts))
    assert offered == 6
    assert (outside.connections, outside.requests) == (0, [])
    print(f"figure: {len(FORMS)} forms of texts, {outside.connections} connections")


async def test_a_part_asks_for_its_image_when_its_reader_wants_it(own_page: ChatPage, outside: ImageHost) -> None:
    await own_page.choose_agent("pictures")
    urls = [outside.url(path) for path in ("/one.png", "/two.png")]
    await own_page.asked(" ".join([*urls, "http://127.0.0.1:1/plain.png", "javascript:window.executed=1"]))
    await own_page.tab.reload()
    shows = own_page.answers.get_by_role("button", name=f"Show image from {outside.name}")
    await expect(shows).to_have_count(2)
    await expect(own_page.answers.get_by_role("link")).to_have_count(1)
    assert outside.connections == 0

    own_page.provokes(rf"outside request: https://{outside.name}/two\.png$")
    await shows.last.focus()
    await own_page.tab.keyboard.press("Enter")
    image = own_page.answers.get_by_role("img", name=f"Image from {outside.name}")
    await expect(image).to_have_js_property("naturalWidth", 1)
    await expect(image).to_be_focused()
    await expect(shows).to_have_count(1)
    assert outside.paths == ["/two.png"]
    assert "referer" not in outside.requests[0].lower()


async def test_a_text_asks_for_its_image_when_its_reader_wants_it(own_page: ChatPage, outside: ImageHost) -> None:
    address = outside.url(SECRET)
    await own_page.asked(f"repeat after me: [![a cat]({address})]({address}) and ![a dog]({address})")
    cat, dog = (
        own_page.answers.get_by_role("button", name=f"Show image from {outside.name}: a {animal}")
        for animal in ("cat", "dog")
    )
    await expect(dog).to_be_visible()
    own_page.provokes(rf"outside request: https://{outside.name}/pixel\.png")
    await cat.focus()
    await own_page.tab.keyboard.press("Space")
    image = own_page.answers.get_by_role("img", name="a cat")
    await expect(image).to_have_js_property("naturalWidth", 1)
    await expect(image).to_be_focused()
    await expect(dog).to_be_visible()
    assert outside.paths == [SECRET]
    assert "referer" not in outside.requests[0].lower()
    assert len(own_page.tab.context.pages) == 1, "the link around it is not followed"


async def test_a_host_is_named_as_what_it_is(page: ChatPage) -> None:
    """Not by what its author would have the reader take it for."""
    for address, name in [
        ("https://trusted.example@evil.example/x.png", "evil.example"),
        ("https://trusted.example%2f@evil.example/x.png", "evil.example"),
        ("//evil.example/x.png", None),
        ("https://trust\u0435d.example/x.png", "xn--trustd-7of.example"),
    ]:
        before = await page.exchanges.count()
        await page.asked(f"repeat after me: ![trusted.example]({address})")
        host = page.exchanges.nth(before).locator(".image-host")
        if name is None:
            await expect(host).to_have_count(0)
        else:
            await expect(host).to_have_text(name)


async def test_images_of_this_server_and_in_the_text_itself_are_shown_at_once(page: ChatPage) -> None:
    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
        "RU5ErkJggg=="
    )
    await page.asked(f"repeat after me: ![here](/static/icon.svg) ![within]({pixel})")
    for name in ("here", "within"):
        await expect(page.answers.get_by_role("img", name=name)).not_to_have_js_property("naturalWidth", 0)
    await page.start_new_chat()
    await page.choose_agent("pictures")
    await page.asked(f"/static/icon.svg {pixel}")
    pictures = page.answers.locator("img.picture")
    await expect(pictures).to_have_count(2)
    for index in range(2):
        await expect(pictures.nth(index)).not_to_have_js_property("naturalWidth", 0)
