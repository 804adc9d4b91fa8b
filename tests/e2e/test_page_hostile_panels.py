"""What a hostile panel tries: the page, its tokens, other panels, other hosts, the person's window and patience."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect
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
    limits = {"attachment_bytes": 2_000_000}
    async with panels_server(tmp_path_factory.mktemp("panels"), limits=limits) as server:
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


PIN = """async ([name, made]) => {
  const upload = await Function(`return (${made})`)();
  const answering = request('tools/call', { name, arguments: { parts: { board: 'b' }, upload, body: { words: 'a' } } });
  return (await answering).error?.message;
}"""
NO_FILES = {
    "a huge one": ("pin", "new File([new ArrayBuffer(3_000_000)], 'a')", "A file has at most 2000000 bytes."),
    "a Blob": ("pin", "new Blob(['a'])", "An upload is a File."),
    "what looks like one": ("pin", "({ name: 'a', size: 1, type: '', text: '' })", "An upload is a File."),
    "none": ("pin", "undefined", "The call takes a file."),
    "one for another call": ("say", "new File(['a'], 'a')", "The call takes no file."),
}


@pytest.mark.parametrize(("name", "made", "refusal"), NO_FILES.values(), ids=NO_FILES)
async def test_what_is_no_file_for_a_call_is_not_sent(page: ChatPage, name: str, made: str, refusal: str) -> None:
    frame = await opened(page)
    sent: list[str] = []
    page.tab.on("request", lambda request: sent.append(request.url))
    assert await frame.evaluate(PIN, [name, made]) == refusal
    assert not [url for url in sent if "/boards/b/" in url]


async def test_a_file_elsewhere_in_a_message_is_none_of_json(page: ChatPage) -> None:
    frame = await opened(page)
    hidden = "request('tools/call', { name: 'say', arguments: { parts: { board: new File(['a'], 'a') } } })"
    await frame.evaluate(f"() => {{ window.answered = false; {hidden}.then(() => (answered = true)); }}")
    assert (await asked(frame, "ping"))["result"] == {}
    assert await frame.evaluate("answered") is False


async def test_few_files_are_sent_at_once(page: ChatPage) -> None:
    frame = await opened(page)
    # The server answers none of them before all were asked for.
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.tab.route("**/files", hold)
    await frame.evaluate("""() => {
        window.told = [];
        for (let at = 0; at < 100; at += 1) {
            const given = { parts: { board: 'b' }, upload: new File([`${at}`], 'a') };
            request('tools/call', { name: 'pin', arguments: given }).then((answer) => told.push(answer));
        }
    }""")
    await until(frame, "told.length === 96")
    assert await frame.evaluate("told.every(({ error }) => /at once/.test(error.message))")
    held.set()
    await until(frame, "told.length === 100")
    assert await frame.evaluate("told.filter(({ result }) => result && !result.isError).length") == 4
    await page.tab.unroute("**/files")


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


async def test_a_cover_for_no_drop_goes_with_the_pointer_or_the_panel(page: ChatPage) -> None:
    frame = await opened(page)
    take = "() => { window.gone = null; request('agentic/take-drop').then((answer) => (gone = answer)); }"
    await frame.evaluate(take)
    await frame.evaluate(take)
    await expect(page.by("drop-cover")).to_have_count(1)
    box = await page.tab.locator('iframe[title="Board"]').bounding_box()
    assert box is not None and box == await page.by("drop-cover").bounding_box()
    await page.tab.mouse.move(box["x"] + 9, box["y"] + 9)
    await expect(page.by("drop-cover")).to_have_count(0)
    await until(frame, "gone")
    assert (await frame.evaluate("gone"))["result"] == {}
    await frame.evaluate(take)
    await expect(page.by("drop-cover")).to_have_count(1)
    await page.by("close-panel").click()
    await expect(page.by("drop-cover")).to_have_count(0)


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
