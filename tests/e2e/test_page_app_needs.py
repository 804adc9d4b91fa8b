"""What documents of MCP servers need beyond what every frame has: hosts, time to end, and to tell models something."""

import asyncio
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Frame, expect
from services.mcp_raw import raw_server
from support.chat_page import ChatPage
from support.mcp_agents import MODULE
from support.page_panels import frame_of
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

BOARD = (files("support.panel_application") / "board.html").read_text()
URI = "ui://look/app.html"


def _server(ui: dict[str, Any], **settings: Any) -> dict[str, Any]:
    content = {"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": BOARD, "_meta": {"ui": ui}}
    tool = {"name": "look", "_meta": {"ui": {"resourceUri": URI}}}
    result = {"content": [{"type": "text", "text": "seen"}]}
    return raw_server([tool], result=result, resource={"contents": [content]}) | settings


NEEDS = {
    "csp": {
        "connectDomains": ["https://api.example.org", "https://refused.example.org", "https://*", "x; script-src *"],
        "resourceDomains": ["https://*.example.org", "'unsafe-eval'", "data:"],
    },
    "permissions": {"camera": {}},
}
SERVERS = {
    "needy": _server(
        NEEDS, app_hosts=["https://api.example.org", "https://cdn.example.org", "https://undeclared.example"]
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    agent = {"id": "user", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "needy"}]}}
    async with running_server(
        tmp_path_factory.mktemp("needs"), agents=[agent], settings={"mcp_servers": SERVERS}
    ) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> ChatPage:
    await shared_page.start_new_chat()
    await shared_page.choose_agent("user")
    return shared_page


async def looked(page: ChatPage) -> Frame:
    """The frame in which the result of a call is shown."""
    await page.asked("call look()")
    await page.unfold()
    return await frame_of(page, "look")


TRIES = """async ([kind, url]) => {
  if (kind === "connect") return fetch(url).then(() => true, () => false);
  const tags = { script: ["script", "src"], style: ["link", "href"], image: ["img", "src"], frame: ["iframe", "src"] };
  // Not at once, when a test may do more than the document.
  if (kind === "eval")
    return new Promise((resolve) => {
      setTimeout(() => resolve(eval("true")));
      setTimeout(() => resolve(false), 50);
    });
  const [tag, attribute] = tags[kind];
  const element = document.createElement(tag);
  if (kind === "style") element.rel = "stylesheet";
  element[attribute] = url;
  return new Promise((resolve) => {
    element.onload = () => resolve(true);
    element.onerror = () => resolve(false);
    document.addEventListener("securitypolicyviolation", () => resolve(false));
    document.head.append(element);
  });
}"""
ASKED = {("fetch", "api"), *((kind, name) for kind in ("script", "stylesheet", "image") for name in ("api", "cdn"))}


async def test_a_document_reaches_the_hosts_that_it_declares_and_the_operator_allows(page: ChatPage) -> None:
    page.provokes("")
    asked = set[tuple[str, str]]()

    async def answered(route: Any) -> None:
        asked.add((route.request.resource_type, route.request.url.removeprefix("https://").split(".")[0]))
        await route.fulfill(headers={"access-control-allow-origin": "*"}, body="")

    await page.tab.context.route(re.compile(r"^https://[a-z.]*example"), answered)
    frame = await looked(page)
    hosts = {name: f"https://{name}.example.org/a" for name in ("api", "cdn", "refused")}
    hosts |= {"undeclared": "https://undeclared.example/a", "other": "https://other.example/a"}
    for kind in ("connect", "script", "style", "image", "frame"):
        for url in hosts.values():
            await frame.evaluate(TRIES, [kind, url])
    assert asked == ASKED
    assert await frame.evaluate(TRIES, ["eval", ""]) is False
    told = await frame.evaluate("opened.then(({ hostCapabilities }) => hostCapabilities.sandbox)")
    assert told == {
        "permissions": {},
        "csp": {
            "connectDomains": ["https://api.example.org"],
            "resourceDomains": ["https://api.example.org", "https://cdn.example.org"],
        },
    }
    lacks = "Not given to it here: https://refused.example.org, https://*.example.org, camera, hosts that can't be read"
    await expect(page.by("panel-lacking")).to_have_text(lacks)


LEAVING = """(answers) => addEventListener("message", ({ data }) => {
  if (data.method !== "ui/resource-teardown") return;
  setTimeout(() => {
    console.log(`leaving, ${document.getElementById("note").value}`);
    if (answers) send({ id: data.id, result: {} });
  });
})"""


@pytest.mark.parametrize("answers", [True, False])
async def test_a_document_may_end_its_work_before_it_is_taken_away(page: ChatPage, answers: bool) -> None:
    frame = await looked(page)
    await frame.evaluate("() => { document.getElementById('note').value = 'not saved'; }")
    await frame.evaluate(LEAVING, answers)
    async with page.tab.expect_console_message(lambda message: message.text == "leaving, not saved"):
        await page.by("new-chat").click()
    await expect(page.tab.locator("iframe")).to_have_count(0)


async def sent(server: RunningServer, page: ChatPage) -> list[list[str]]:
    """The files that went along with each message of the person's."""
    async with rest(server) as http:
        asked = [one["parts"] for one in await messages_of(http, page.session_id) if one["role"] == "user"]
        ids = [[part["attachment_id"] for part in parts if part["type"] == "file"] for parts in asked]
        return [[(await http.get(f"/attachments/{each}")).text for each in files] for files in ids]


async def told(frame: Frame, **params: Any) -> Any:
    return await frame.evaluate("(params) => request('ui/update-model-context', params)", params)


def texts(*given: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in given]


async def test_what_a_document_tells_goes_along_with_the_next_message(
    page: ChatPage, shared_server: RunningServer
) -> None:
    frame = await looked(page)
    kept: list[str] = []
    page.tab.on("request", lambda request: request.url.endswith("/app-context") and kept.append(request.url))
    async with page.tab.expect_response(lambda response: "chosen: 29" in (response.request.post_data or "")):
        for number in range(30):
            assert (await told(frame, content=texts(f"chosen: {number}")))["result"] == {}
    # What came meanwhile was never kept.
    assert len(kept) < 8
    attached = page.by("attached")
    await expect(attached).to_have_count(1)
    await expect(attached).to_contain_text("From look (needy).txt")
    await page.asked("What is chosen?")
    await expect(attached).to_have_count(0)
    await page.asked("And now?")
    [first, [file], last] = await sent(shared_server, page)
    assert first == last == [] and file.endswith("chosen: 29")


async def test_a_person_takes_out_what_a_document_tells(page: ChatPage) -> None:
    page.provokes("404")
    frame = await looked(page)
    await told(frame, structuredContent={"chosen": 1})
    await page.by("remove-attachment").click()
    await expect(page.by("attached")).to_have_count(0)
    await told(frame, structuredContent={"chosen": 2})
    refusal = "The person has taken it out."
    async with asyncio.timeout(30):
        while (await told(frame, structuredContent={"chosen": 3})).get("error", {}).get("message") != refusal:
            await asyncio.sleep(0.2)
    await expect(page.by("attached")).to_have_count(0)


async def test_a_message_of_a_document_takes_along_what_it_tells(page: ChatPage, shared_server: RunningServer) -> None:
    frame = await looked(page)
    await page.composer.fill("half written")
    await frame.evaluate("""() => {
        task = () => {
            request("ui/update-model-context", { content: [{ type: "text", text: "much" }] });
            return request("ui/message", { role: "user", content: { type: "text", text: "What of this?" } });
        };
    }""")
    await page.tab.frame_locator('iframe[title="look"]').locator("#act").click()
    dialog = page.tab.get_by_role("dialog").filter(has_text="Send this message?")
    await expect(dialog).to_contain_text("With From look (needy).txt")
    await dialog.get_by_role("button", name="Send").click()
    await page.ended(exchanges=2)
    assert [len(files) for files in await sent(shared_server, page)] == [0, 1]
    await expect(page.by("attached")).to_have_count(0)
    await expect(page.composer).to_have_value("half written")
    await page.composer.fill("")


WRONG = {
    "an image": {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
    "no blocks": {"content": "text"},
    "no object": {"structuredContent": [1]},
    "too long": {"content": texts("a" * 20_000)},
}


async def test_a_document_can_not_tell_everything(page: ChatPage) -> None:
    frame = await looked(page)
    assert [what for what, params in WRONG.items() if "error" not in await told(frame, **params)] == []
    await expect(page.by("attached")).to_have_count(0)


async def test_nothing_is_kept_while_nobody_sees_the_page(page: ChatPage) -> None:
    frame = await looked(page)
    kept: list[str] = []
    page.tab.on(
        "request", lambda request: request.url.endswith("/app-context") and kept.append(request.post_data or "")
    )
    see = "(hidden) => Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })"
    await page.tab.evaluate(see, True)
    for number in range(2):
        await told(frame, content=texts(f"chosen: {number}"))
    await page.tab.evaluate(see, False)
    await page.tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.by("attached")).to_have_count(1)
    assert kept == ['{"texts":["chosen: 1"]}']
    await page.by("remove-attachment").click()
