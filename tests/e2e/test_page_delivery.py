"""How the page reaches a browser: what it fetches, when it shows itself, how it is installed, whose it looks like."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect
from support.chat_page import ChatPage, chat_page, window
from support.running_server import RunningServer, running_server

from agentic_backend.transports.page.linker import Linker

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

NAME = 'Ask "Ada" & <Co>'
LOGO = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path fill="#7c3aed" d="M0 0h1v1z"/></svg>'
ACCENT = "#7c3aed"

# Modules that run at once, later, and with a part in common; one awaits outside functions.
MODULES = {
    "main.js": """
        import { say as tell, said } from "./rooms/said.js";
        import { words } from "./words.js";
        tell("main " + words.hello);
        const [one, two] = await Promise.all([import("./rooms/late.js"), import("./rooms/late.js")]);
        tell(String(one === two) + one.default + one.count());
        document.title = said.join();
    """,
    "words.js": 'const tag = "fr"; export const words = (await import(`./words/${tag}.js`)).default;',
    "words/fr.js": 'export default { hello: "bonjour" };',
    "rooms/said.js": """
        export const said = [];
        export function say(what) { said.push(what); }
        say("said");
    """,
    "rooms/late.js": """
        import { said, say } from "./said.js";
        import * as all from "./all.js";
        export const count = () => said.length;
        export default all.first;
        say("late " + all.second());
    """,
    "rooms/all.js": 'const first = "one"; export { first }; export { pick as second } from "./pick.js";',
    "rooms/pick.js": 'export function pick() { return "two"; }',
}


@pytest_asyncio.fixture(loop_scope="module")
async def branded(tmp_path: Path) -> AsyncIterator[RunningServer]:
    logo = tmp_path / "logo"
    logo.write_text(LOGO)
    page = {"name": NAME, "logo": str(logo), "accent": ACCENT}
    async with running_server(tmp_path, settings={"page": page}) as server:
        yield server


async def test_a_page_that_was_here_before_fetches_the_document_only(
    browser: Browser, chat_server: RunningServer
) -> None:
    async with window(browser, chat_server.address) as (context, watch):
        page = ChatPage(await context.new_page(), chat_server.address, watch)
        assert len(await files_fetched(page)) <= 8
        again = ChatPage(await context.new_page(), chat_server.address, watch)
        assert await files_fetched(again) == ["/"]


async def files_fetched(page: ChatPage) -> list[str]:
    """Opens the page: the paths of what came over the network, without REST calls."""
    session = await page.tab.context.new_cdp_session(page.tab)
    cached, fetched = set(), list[str]()

    def answered(event: dict[str, Any]) -> None:
        path = urlsplit(event["response"]["url"]).path
        is_cached = event["requestId"] in cached or event["response"].get("fromDiskCache")
        if not is_cached and not path.startswith("/agentic/"):
            fetched.append(path)

    session.on("Network.requestServedFromCache", lambda event: cached.add(event["requestId"]))
    session.on("Network.responseReceived", answered)
    await session.send("Network.enable")
    await page.open()
    await page.tab.wait_for_load_state("networkidle")
    return fetched


async def test_the_page_shows_itself_before_any_call_is_answered(browser: Browser, chat_server: RunningServer) -> None:
    async with window(browser, chat_server.address) as (context, _):
        tab = await context.new_page()
        held: list[Route] = []
        await tab.route("**/agentic/**", lambda route: held.append(route))
        await tab.goto(chat_server.address)
        await expect(tab.get_by_test_id("composer")).to_be_visible()
        await expect(tab.get_by_test_id("new-chat")).to_be_visible()
        assert held
        await tab.unroute_all(behavior="ignoreErrors")


async def test_the_page_can_be_installed(page: ChatPage) -> None:
    session = await page.tab.context.new_cdp_session(page.tab)
    manifest = await session.send("Page.getAppManifest")
    assert manifest["errors"] == []
    read = manifest["manifest"]
    assert (read["name"], read["display"]) == ("Chat", "kStandalone")
    assert read["startUrl"] == read["scope"] == read["id"] == page.tab.url.partition("#")[0]
    problems = await session.send("Page.getInstallabilityErrors")
    # Windows of tests are private ones, in which nothing can be installed.
    assert [each["errorId"] for each in problems["installabilityErrors"]] in ([], ["in-incognito"])
    for icon in read["icons"]:
        assert await natural_size(page.tab, icon["url"]) == icon["sizes"].replace("0x0", "150x150")
    assert await page.tab.evaluate("navigator.serviceWorker.getRegistrations().then((found) => found.length)") == 0


async def test_name_logo_and_accent_are_those_of_the_settings(browser: Browser, branded: RunningServer) -> None:
    async with chat_page(browser, branded.address, color_scheme="light") as page:
        await expect(page.tab).to_have_title(NAME)
        await expect(page.tab.locator(".brand").first).to_have_text(NAME)
        logo = page.tab.locator(".brand img").first
        assert await logo.evaluate("(image) => image.decode().then(() => image.naturalWidth > 0)")
        assert await accent(page.tab) == "rgb(124, 58, 237)"
        await page.tab.emulate_media(color_scheme="dark")
        assert await accent(page.tab) == "rgb(169, 125, 243)"
        session = await page.tab.context.new_cdp_session(page.tab)
        manifest = json.loads((await session.send("Page.getAppManifest"))["data"])
        assert (manifest["name"], [icon["src"] for icon in manifest["icons"]]) == (NAME, ["logo"])


async def test_what_is_loaded_later_is_asked_for_again_while_the_server_is_away(page: ChatPage) -> None:
    asked = await fails_twice(page, "components/shortcuts-dialog.js")
    await page.by("session-menu").click()
    await page.by("show-shortcuts").click()
    await expect(page.tab.get_by_role("dialog")).to_be_visible()
    assert len(set(asked)) == 3


async def test_an_answer_is_shown_once_what_renders_it_could_be_loaded(page: ChatPage) -> None:
    asked = await fails_twice(page, "growing-text.js")
    await page.asked("What is 17 * 23?")
    await expect(page.answers.locator(".rich-text p")).to_contain_text("391")
    assert len(set(asked)) == 3


async def test_the_page_waits_for_its_words(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address, locale="fr") as page:
        asked = await fails_twice(page, "locales/fr.js")
        await expect(page.composer).to_have_attribute("placeholder", "Écrire un message")
        assert len(set(asked)) == 3


async def fails_twice(page: ChatPage, file: str) -> list[str]:
    """Loads the page anew where the first two requests for `file` fail; what is requested for it."""
    page.provokes("ERR_")
    asked: list[str] = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        await (route.abort() if len(asked) <= 2 else route.continue_())

    await page.tab.route(f"**/{file}*", answer)
    await page.tab.reload()
    return asked


async def test_linked_modules_run_as_they_would_alone(browser: Browser) -> None:
    linker = Linker({path: source.encode() for path, source in MODULES.items()}, "main.js")

    async def linked(route: Route) -> None:
        path = urlsplit(route.request.url).path[1:]
        await route.fulfill(body=linker.link(path).code if path else DOCUMENT, content_type=TYPES[bool(path)])

    async def alone(route: Route) -> None:
        path = urlsplit(route.request.url).path[1:]
        await route.fulfill(body=MODULES.get(path, DOCUMENT), content_type=TYPES[bool(path)])

    said = [await ran(browser, served) for served in (alone, linked)]
    assert said == ["said,main bonjour,late two,trueone3"] * 2


DOCUMENT = '<title>loading</title><script type="module" src="/main.js"></script>'
TYPES = {True: "text/javascript", False: "text/html"}


async def ran(browser: Browser, served: Any) -> str:
    async with window(browser, "http://127.0.0.1:9") as (context, _):
        tab = await context.new_page()
        await tab.route("**/*", served)
        await tab.goto("http://127.0.0.1:9/")
        await expect(tab).not_to_have_title("loading")
        return await tab.title()


async def accent(tab: Page) -> str:
    colour: str = await tab.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("i"));
          probe.style.color = "var(--accent)";
          const found = getComputedStyle(probe).color;
          probe.remove();
          return found;
        }"""
    )
    return colour


async def natural_size(tab: Page, url: str) -> str:
    size: str = await tab.evaluate(
        """async (url) => {
          const image = new Image();
          image.src = url;
          await image.decode();
          return `${image.naturalWidth}x${image.naturalHeight}`;
        }""",
        url,
    )
    return size
