"""What a hostile panel tries: the page, its tokens, other panels, other hosts, the person's window and patience."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage
from support.chromium import chromium
from support.page_panels import asked, opened, panels_server, until
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One that gives each site, and each sandboxed frame, a process of its own, as those with a window do."""
    async with chromium("--site-per-process") as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with panels_server(tmp_path_factory.mktemp("panels")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(own_tab: ChatPage) -> ChatPage:
    # What is refused to a frame is told on its console.
    own_tab.provokes("")
    return own_tab


@pytest_asyncio.fixture(loop_scope="module")
async def own_tab(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    other = await shared_page.another_tab()
    yield other
    await other.tab.close()


REACHED = {
    "the page": "parent.document.body",
    "its address": "parent.location.href",
    "its storage": "localStorage.length",
    "the storage of its session": "sessionStorage.length",
    "its cookies": "document.cookie",
    "its databases": "new Promise((ok, no) => { const r = indexedDB.open('a'); r.onsuccess = ok; r.onerror = no; })",
    "the server": "fetch(ORIGIN + '/agentic/v1/info', { credentials: 'include' })",
    "another host": "fetch('http://127.0.0.1:9/')",
    "a socket": """new Promise((ok, no) => {
        const socket = new WebSocket(ORIGIN.replace('http', 'ws') + '/agentic/v1/chat');
        socket.onopen = ok;
        socket.onerror = no;
    })""",
    "a script": """new Promise((ok, no) => {
        const script = document.createElement('script');
        script.src = ORIGIN + '/static/main.js';
        script.onload = ok;
        script.onerror = no;
        document.head.append(script);
    })""",
    "an image": """new Promise((ok, no) => {
        const image = new Image();
        image.onload = ok;
        image.onerror = no;
        image.src = ORIGIN + '/static/icon.svg';
    })""",
    "a worker": """new Promise((ok, no) => {
        const worker = new Worker(URL.createObjectURL(new Blob(['postMessage(1)'])));
        worker.onmessage = ok;
        worker.onerror = no;
    })""",
    "the clipboard": "navigator.clipboard.readText()",
    "the camera": "navigator.mediaDevices.getUserMedia({ video: true })",
    "the place": "new Promise((ok, no) => navigator.geolocation.getCurrentPosition(ok, no))",
    "the person's window": "top.location = 'http://127.0.0.1:9/'",
    "a window": "window.open('http://127.0.0.1:9/') ?? Promise.reject()",
}
TRY = """async (ORIGIN) => {
  try {
    await (async () => (ATTEMPT))();
    return true;
  } catch {
    return false;
  }
}"""


async def test_it_reaches_nothing(page: ChatPage) -> None:
    frame = await opened(page)
    before = page.tab.url
    origin = before.partition("/#")[0].rstrip("/")
    tried = {what: await frame.evaluate(TRY.replace("ATTEMPT", attempt), origin) for what, attempt in REACHED.items()}
    assert [what for what, reached in tried.items() if reached] == []
    assert page.tab.url == before
    assert len(page.tab.context.pages) == 2


AWAY = {
    "another host": "location = 'http://127.0.0.1:9/'",
    "itself": "location.reload()",
    "nothing": "location = 'about:blank'",
    "the server": "location = ORIGIN + '/agentic/v1/info'",
    "a form": """{
        const form = document.createElement('form');
        form.action = 'http://127.0.0.1:9/';
        document.body.append(form);
        form.submit();
    }""",
}


@pytest.mark.parametrize("away", AWAY.values(), ids=AWAY)
async def test_one_that_leads_its_frame_elsewhere_is_ended(page: ChatPage, away: str) -> None:
    requested: list[str] = []
    frame = await opened(page)
    page.tab.on("request", lambda request: requested.append(request.url))
    await frame.evaluate(f"(ORIGIN) => {{ setTimeout(() => {{ {away}; }}, 50); }}", page.tab.url.partition("/#")[0])
    await expect(page.by("panel-beside")).to_contain_text("It has become another document, and was closed.")
    assert [url for url in requested if ":9/" in url] == []


async def test_another_panel_does_not_hear_it(page: ChatPage) -> None:
    first, other = await opened(page), await opened(page, "Small board")
    await first.evaluate(
        "() => { for (let at = 0; at < parent.length; at += 1) parent.frames[at].postMessage('mine', '*'); }"
    )
    # What is sent later is heard later.
    await asked(other, "ping")
    assert await other.evaluate("heard.filter(({ foreign }) => foreign)") == []


async def test_a_flood_ends_it_alone(page: ChatPage) -> None:
    frame = await opened(page)
    await opened(page, "Small board")
    await frame.evaluate(
        "() => { for (let at = 0; at < 10_000; at += 1) notify('ui/notifications/size-changed', { height: at }); }"
    )
    await expect(page.by("panel-beside")).to_contain_text("It has sent too much, and was closed.")
    await expect(page.tab.locator('iframe[title="Small board"]')).to_have_count(1)
    await page.asked("hello")


ODD = """() => {
  const cyclic = { jsonrpc: '2.0', method: 'ping', id: 1 };
  cyclic.params = cyclic;
  for (const odd of [cyclic, null, 7, 'text', [], new Map([[1, 2]]), { jsonrpc: '2.0', method: 7, id: 1 }, 12n,
    { jsonrpc: '2.0', method: 'ping', id: {} }, { jsonrpc: '2.0', method: 'ping', id: 9, params: 'x' },
    { jsonrpc: '2.0', method: 'toString', id: 'a' }, { jsonrpc: '2.0', id: 5, result: {} },
    { jsonrpc: '2.0', method: 'ping', id: 6, params: { x: 'x'.repeat(2_000_000) } },
    { jsonrpc: '2.0', method: 'ui/notifications/size-changed', params: { height: 'tall' } },
    { jsonrpc: '2.0', method: 'agentic/notifications/key-pressed', params: { key: {} } },
  ]) parent.postMessage(odd, '*');
}"""


LARGE = {
    "keys of nothing in many places": """() => {
        const nothing = {};
        for (let at = 0; at < 30_000; at += 1) nothing[`k${at}`] = undefined;
        parent.postMessage(Array(30_000).fill(nothing), '*');
    }""",
    "one in many places": """() => {
        let nested = [];
        for (let at = 0; at < 27; at += 1) nested = [nested, nested];
        parent.postMessage(nested, '*');
    }""",
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
async def test_a_message_that_means_much_work_holds_nothing_up(page: ChatPage, large: str) -> None:
    frame = await opened(page)
    await frame.evaluate(large)
    assert (await asked(frame, "ping"))["result"] == {}


TAKE_FOCUS = "() => document.getElementById('note').focus()"


@pytest.mark.parametrize("rests", [False, True])
async def test_it_does_not_hear_what_somebody_types(page: ChatPage, rests: bool) -> None:
    """Also where the pointer rests over it, as if the person might click."""
    frame = await opened(page)
    # Another tab may have left a draft.
    await page.composer.fill("")
    await page.composer.click()
    if rests:
        await page.tab.locator('iframe[title="Board"]').hover()
    await page.tab.keyboard.type("What")
    await frame.evaluate(TAKE_FOCUS)
    await expect(page.tab.locator('iframe[title="Board"]')).to_have_attribute("inert", "")
    await expect(page.composer).to_be_focused()
    # Nor does it take it again while they go on.
    await frame.evaluate(TAKE_FOCUS)
    await page.tab.keyboard.type(" nobody else should read")
    # A key may be on its way while the focus moves.
    await expect(page.composer).to_have_value(re.compile(r"^What ?nobody else should read$"))
    assert (await frame.evaluate("document.getElementById('note').value")).strip() == ""
    await page.composer.fill("")


async def test_a_click_in_another_panel_begins_nothing_in_it(page: ChatPage) -> None:
    frame, other = await opened(page), await opened(page, "Small board")
    ask = "request('ui/message', { role: 'user', content: [{ type: 'text', text: 'stolen' }] })"
    await frame.evaluate(f"""() => {{
        window.told = [];
        setInterval(async () => {{
            document.getElementById('note').focus();
            told.push(await {ask});
        }}, 50);
    }}""")
    await page.tab.frame_locator('iframe[title="Small board"]').locator("#act").click()
    await until(frame, "told.length > 20")
    assert await frame.evaluate("told.filter(({ result }) => result).length") == 0
    await until(other, "true")
    await expect(page.places).to_have_count(0)


async def test_odd_messages_are_left_alone_or_refused(page: ChatPage) -> None:
    frame = await opened(page)
    await frame.evaluate(ODD)
    assert (await asked(frame, "ping"))["result"] == {}
    await page.asked("hello")


async def test_it_can_not_press_the_persons_keys_unless_they_are_in_it(page: ChatPage) -> None:
    frame = await opened(page)
    await page.composer.fill("")
    await page.composer.focus()
    await frame.evaluate("() => notify('agentic/notifications/key-pressed', { key: 'k', ctrlKey: true })")
    await asked(frame, "ping")
    await expect(page.composer).to_be_focused()


async def test_one_that_never_ends_leaves_the_page_alone(page: ChatPage) -> None:
    frame = await opened(page)
    await frame.evaluate("() => { setTimeout(() => { for (;;); }); }")
    await page.asked("hello")
    await page.by("close-panel").click()
    await page.asked("hello again")
