"""What documents of MCP servers need in the page beyond what every frame has: hosts, and time to end."""

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
from support.page_panels import frame_of, until
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


LEAVING = """() => addEventListener("message", ({ data }) => {
  if (data.method !== "ui/resource-teardown") return;
  request("ui/message", { role: "user", content: { type: "text", text: "once more" } });
  setTimeout(() => {
    console.log(`leaving, ${document.getElementById("note").value}`);
    send({ id: data.id, result: {} });
  }, 50);
})"""


async def test_a_document_may_end_its_work_before_it_is_taken_away(page: ChatPage) -> None:
    frame = await looked(page)
    await frame.evaluate("() => { document.getElementById('note').value = 'not saved'; }")
    await frame.evaluate(LEAVING)
    async with page.tab.expect_console_message(lambda message: message.text == "leaving, not saved"):
        await page.by("new-chat").click()
    await expect(page.tab.locator("iframe")).to_have_count(0)
    await expect(page.places).to_have_count(0)


async def test_one_that_does_not_answer_is_taken_away(page: ChatPage) -> None:
    frame = await looked(page)
    await page.by("new-chat").click()
    await until(frame, "heard.some(({ method }) => method === 'ui/resource-teardown')")
    await expect(page.tab.locator("iframe")).to_have_count(0)
