"""Attachments on the page: chosen, pasted and dropped; with progress, errors and limits; shown, opened and saved."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, FilePayload, Route, WebSocketRoute, expect
from support.attached_files import a_pdf, a_png
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.made_documents import a_docx, a_paragraph
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

PNG = a_png(64, 48)
HOSTILE = "\u202egnp.<img src=x onerror=alert(1)>.html"
LIMITS = {"limits": {"attachment_bytes": 4_096, "attachments_per_ask": 3}}
# What a browser does when files are dropped on, or pasted into, an element.
GIVE = """async ([type, files, texts]) => {
  const data = new DataTransfer();
  for (const [mime, text] of Object.entries(texts)) data.setData(mime, text);
  for (const [name, mime, content] of files) data.items.add(new File([content], name, { type: mime }));
  const target = document.getElementById("composer");
  const options = { bubbles: true, cancelable: true };
  if (type === "paste") {
    target.dispatchEvent(new ClipboardEvent("paste", { ...options, clipboardData: data }));
  } else {
    for (const name of type.split(" ")) target.dispatchEvent(new DragEvent(name, { ...options, dataTransfer: data }));
  }
}"""


def a_file(name: str, content: bytes, mime: str = "application/octet-stream") -> FilePayload:
    return {"name": name, "mimeType": mime, "buffer": content}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), settings=LIMITS) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def own_page(browser: Browser, server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, server.address) as page:
        await expect(page.by("attach")).to_be_visible()
        yield page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_page(browser: Browser, server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, server.address) as page:
        await expect(page.by("attach")).to_be_visible()
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


async def choose(page: ChatPage, *files: FilePayload) -> None:
    await page.by("file-input").set_input_files(files)


async def give(page: ChatPage, how: str, *files: tuple[str, str, str], **texts: str) -> None:
    """Give files, and texts by their kind: `plain` or `html`."""
    kinds = {f"text/{kind}": text for kind, text in texts.items()}
    await page.tab.evaluate(GIVE, [how, [list(file) for file in files], kinds])


async def is_loaded(page: ChatPage, selector: str) -> None:
    """Wait until an image is there with its pixels."""
    await page.tab.wait_for_function(
        "selector => document.querySelector(selector)?.naturalWidth > 0 ", arg=selector, timeout=30_000
    )


async def test_files_are_chosen_sent_shown_and_saved(page: ChatPage) -> None:
    await choose(page, a_file("chart.png", PNG), a_file("notes.md", b"# The word is Ampel"))
    await expect(page.by("attached")).to_have_count(2)
    await is_loaded(page, "[data-testid=attached] img")
    await expect(page.by("tray")).to_contain_text("2 files attached")
    await page.asked("what is this?")
    await expect(page.answers.last).to_contain_text(f"I see an image: image/png of {len(PNG)} bytes.")
    await expect(page.by("tray")).to_have_count(0)
    for _ in range(2):
        await is_loaded(page, "[data-testid=thumbnail] img")
        await expect(page.by("message-user").get_by_test_id("file-chip")).to_contain_text("notes.md")
        # Shown once, not again as the image that other clients show.
        await expect(page.by("message-user").locator("img")).to_have_count(1)
        await page.by("thumbnail").click()
        await is_loaded(page, "[data-testid=image-dialog] img")
        await expect(page.by("image-dialog")).to_contain_text("chart.png")
        await page.tab.keyboard.press("Escape")
        await expect(page.by("image-dialog")).to_have_count(0)
        await expect(page.by("thumbnail")).to_be_focused()
        await page.tab.reload()
    async with page.tab.expect_download() as saved:
        await page.by("file-chip").click()
    download = await saved.value
    assert download.suggested_filename == "notes.md"
    assert await asyncio.to_thread((await download.path()).read_bytes) == b"# The word is Ampel"


async def test_files_go_without_words(page: ChatPage) -> None:
    await expect(page.by("send")).to_be_disabled()
    await choose(page, a_file("notes.md", b"# The word is Ampel"))
    await page.by("send").click()
    await page.ended()
    await expect(page.by("message-user")).to_contain_text("Please look at this file.")
    await expect(page.by("message-user").get_by_test_id("file-chip")).to_contain_text("notes.md")


async def test_files_stay_with_the_chat_that_is_kept_while_a_temporary_one_is_asked(page: ChatPage) -> None:
    await choose(page, a_file("notes.md", b"# The word is Ampel"))
    await expect(page.by("attached")).to_have_count(1)
    # By its key: what is attached moves it.
    await page.by("mode-query").press("Enter")
    await expect(page.by("send")).to_be_disabled()
    await page.asked("repeat after me: one")
    await page.start_new_chat()
    await expect(page.by("attached")).to_have_count(1)
    await page.by("attached").get_by_role("button").click()
    await expect(page.by("attached")).to_have_count(0)


async def test_files_are_pasted_and_dropped(page: ChatPage) -> None:
    await give(page, "paste", ("pasted.txt", "text/plain", "from the clipboard"))
    await expect(page.by("attached")).to_have_count(1)
    await expect(page.composer).to_have_value("")
    await give(page, "dragenter dragover", ("dropped.txt", "text/plain", "from elsewhere"))
    await expect(page.by("drop-area")).to_contain_text("at most 3 files of 4 kB each")
    await give(page, "drop", ("dropped.txt", "text/plain", "from elsewhere"))
    await expect(page.by("drop-area")).to_have_count(0)
    await expect(page.by("attached")).to_have_count(2)
    await page.asked("repeat after me: both")
    chips = page.by("file-chip")
    await expect(chips).to_have_text(["Download pasted.txt18 bytes", "Download dropped.txt14 bytes"])
    await expect(chips.first).to_have_accessible_name("Download pasted.txt 18 bytes")


async def test_a_text_is_pasted_and_its_picture_offered(page: ChatPage) -> None:
    cells = "<table><tr><td>Item<td>Price<tr><td>Tea<td>2.50</table>"
    picture = ("image.png", "image/png", "a picture of the cells")
    await page.composer.press_sequentially("Add: ")
    await give(page, "paste", picture, plain="Item\tPrice\r\nTea\t2.50\r\n", html=cells)
    await expect(page.composer).to_have_value("Add: | Item | Price |\n| --- | --- |\n| Tea | 2.50 |")
    await expect(page.by("attached")).to_have_count(0)
    await page.by("attach-pictures").click()
    await expect(page.by("attached")).to_contain_text(["image.png"])
    await expect(page.by("pasted-pictures")).to_have_count(0)
    for left in ("Add: | Item | Price |\n| --- | --- |\n| Tea | 2.50 |", "Add: "):
        await page.composer.press("Control+z")
        await expect(page.by("attached")).to_have_count(0)
        await expect(page.composer).to_have_value(left)
    await page.by("undo").click()
    await expect(page.by("attached")).to_contain_text(["image.png"])
    # Their names are no text.
    await give(page, "paste", ("notes.txt", "text/plain", "notes"), plain="/home/ann/notes.txt")
    await expect(page.by("attached")).to_have_count(2)
    await page.composer.fill("")
    for _ in range(2):
        await page.by("remove-attachment").first.click()
    await page.by("undo-notice").get_by_role("button", name="Dismiss").click()


async def test_documents_are_offered_and_attached(page: ChatPage) -> None:
    for offered in ("image/png", "application/pdf", ".docx", ".xlsx", "text/html", ".csv"):
        await expect(page.by("file-input")).to_have_attribute("accept", re.compile(f"(^|,){re.escape(offered)}(,|$)"))
    await choose(page, a_file("brief.docx", a_docx(a_paragraph("The word is Ampel"))))
    await expect(page.by("attached")).to_contain_text(["brief.docx"])
    await page.asked("what is this?")
    await expect(page.answers.last).to_contain_text("The word is Ampel")


async def test_each_file_that_does_not_fit_says_why(own_page: ChatPage) -> None:
    own_page.provokes("status of 400")
    files = [a_file("huge.txt", b"x" * 5_000), a_file("a.zip", b"PK\x03\x04\xff\xff"), a_file("empty.txt", b"")]
    await choose(own_page, *files, a_file("fine.txt", b"fine"))
    await expect(own_page.by("attached")).to_contain_text(["fine.txt"])
    failed = own_page.by("failed-upload")
    await expect(failed).to_have_count(3)
    await expect(failed.filter(has_text="huge.txt")).to_contain_text("A file has at most 4 kB; this has 4.9 kB.")
    await expect(failed.filter(has_text="a.zip")).to_contain_text("The file is damaged")
    await expect(failed.filter(has_text="empty.txt")).to_contain_text("The file is empty.")
    for _ in range(3):
        await failed.first.get_by_role("button").click()
    await expect(failed).to_have_count(0)
    await choose(own_page, *[a_file(f"{number}.txt", b"x") for number in range(30)])
    await expect(own_page.by("attached")).to_have_count(3)
    # One says it for all.
    await expect(failed).to_have_text(["2.txt A message takes at most 3 files."], use_inner_text=True)


async def hold_uploads(page: ChatPage) -> asyncio.Event:
    """From now on uploads wait for the event."""
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.tab.route("**/attachments", hold)
    return held


async def test_an_upload_shows_its_progress_and_can_be_given_up(own_page: ChatPage, server: RunningServer) -> None:
    held = await hold_uploads(own_page)
    await choose(own_page, a_file("slow.png", PNG, "image/png"))
    upload = own_page.by("upload")
    await expect(upload.get_by_role("progressbar", name="Upload of slow.png")).to_be_visible()
    await is_loaded(own_page, "[data-testid=upload] img")
    await own_page.ask("too early")
    await expect(own_page.by("due")).to_have_text("It will be sent once the files are uploaded.")
    await expect(own_page.by("send")).to_be_disabled()
    await expect(own_page.exchanges).to_have_count(0)
    await upload.get_by_role("button", name="Cancel slow.png").click()
    await expect(upload).to_have_count(0)
    await expect(own_page.composer).to_be_focused()
    await expect(own_page.by("send")).to_be_enabled()
    await expect(own_page.by("due")).to_have_count(0)
    await expect(own_page.exchanges).to_have_count(0)
    held.set()
    await own_page.tab.unroute_all(behavior="wait")
    await expect(own_page.by("attached")).to_have_count(0)


SLOW_FRAMES = """() => {
  window.requestAnimationFrame = (callback) => setTimeout(callback, 200);
  window.cancelAnimationFrame = clearTimeout;
}"""


@pytest.mark.parametrize("more", ["", " and more"])
async def test_what_is_sent_too_early_goes_with_its_file_unless_more_is_written(own_page: ChatPage, more: str) -> None:
    held = await hold_uploads(own_page)
    # What is typed between two frames counts as well.
    await own_page.tab.evaluate(SLOW_FRAMES)
    await choose(own_page, a_file("slow.txt", b"tea", "text/plain"))
    await own_page.ask("too early")
    await expect(own_page.by("due")).to_be_visible()
    await own_page.composer.press_sequentially(more)
    held.set()
    if more:
        await expect(own_page.by("attached")).to_be_visible()
        await expect(own_page.by("due")).to_have_count(0)
        await expect(own_page.composer).to_have_value("too early and more")
        await expect(own_page.exchanges).to_have_count(0)
        await own_page.by("send").click()
    await own_page.ended()
    await expect(own_page.by("message-user")).to_contain_text(f"too early{more}")
    await expect(own_page.by("message-user")).to_contain_text("slow.txt")


async def test_what_is_attached_outlasts_a_reload_and_can_be_removed(page: ChatPage) -> None:
    await choose(page, a_file("chart.png", PNG), a_file("notes.txt", b"x"))
    await expect(page.by("attached")).to_have_count(2)
    await page.tab.reload()
    await expect(page.by("attached")).to_have_count(2)
    await is_loaded(page, "[data-testid=attached] img")
    notes = page.by("attached").filter(has_text="notes.txt")
    await notes.get_by_role("button").click()
    await expect(page.by("attached")).to_have_count(1)
    await page.by("undo").click()
    await expect(page.by("attached")).to_contain_text(["chart.png", "notes.txt"])
    async with page.tab.expect_response(lambda answer: answer.request.method == "DELETE") as deleted:
        await notes.get_by_role("button").click()
        await page.by("undo-notice").get_by_role("button", name="Dismiss").click()
    assert (await deleted.value).status == 204
    await expect(page.by("attached")).to_have_count(1)
    await expect(page.composer).to_be_focused()
    await page.asked("what is this?")
    await expect(page.answers.last).to_contain_text("I see an image")


async def test_what_is_attached_comes_back_with_an_ask_that_is_refused_after_a_reload(own_page: ChatPage) -> None:
    def swallow(socket: WebSocketRoute) -> None:
        pass

    def refuse(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def from_page(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame["type"] != "ask":
                return server.send(message)
            why = {"code": "budget_exceeded", "content": "No more.", "retryable": False, "request_id": "r"}
            ids = {"refused": "ask", "client_exchange_id": frame["client_exchange_id"]}
            socket.send(json.dumps({"type": "error", "whose": "user", **why, **ids}))

        socket.on_message(from_page)

    await own_page.tab.route_web_socket("**/ws", swallow)
    await own_page.tab.reload()
    await choose(own_page, a_file("notes.txt", b"x"))
    await expect(own_page.by("attached")).to_have_count(1)
    await own_page.ask("what is this?")
    await expect(own_page.exchanges).to_have_attribute("data-status", "sending")
    await own_page.tab.route_web_socket("**/ws", refuse)
    await own_page.tab.reload()
    await expect(own_page.by("error-notice")).to_contain_text("No more.")
    await expect(own_page.composer).to_have_value("what is this?")
    await expect(own_page.by("attached")).to_contain_text(["notes.txt"])


async def test_hostile_names_and_contents_are_nothing_but_text(page: ChatPage) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'
    # The file chooser of the browser's driver refuses such names.
    await give(page, "drop", (HOSTILE, "text/html", "<script>alert(1)</script>"))
    await choose(page, a_file("image.svg", svg, "image/svg+xml"), a_file("page.pdf", a_pdf("hello")))
    await expect(page.by("attached")).to_have_count(3)
    await page.asked("what is this?")
    chips = page.by("file-chip")
    await expect(chips).to_have_count(3)
    await expect(page.by("message-user").locator("img, svg[onload], script")).to_have_count(0)
    await expect(chips.first).to_contain_text("_gnp.")
    async with page.tab.expect_download() as saved:
        await chips.nth(1).click()
    assert await asyncio.to_thread((await (await saved.value).path()).read_bytes) == svg
    assert len(page.tab.context.pages) == 1


async def test_the_address_of_an_attachment_is_no_page(page: ChatPage, server: RunningServer) -> None:
    await choose(page, a_file("page.html", b"<script>document.title = 'owned'</script>"))
    await expect(page.by("attached")).to_have_count(1)
    await page.asked("what is this?")
    link: str = await page.tab.evaluate(
        """async () => {
          const { sessions } = await (await fetch("agentic/v1/sessions")).json();
          const { messages } = await (await fetch(`agentic/v1/sessions/${sessions[0].id}/messages`)).json();
          return messages[0].parts.find(({ type }) => type === "file").attachment_id;
        }"""
    )
    tab = await page.tab.context.new_page()
    async with tab.expect_download() as saved:
        with pytest.raises(Exception, match=r"Download is starting|ERR_ABORTED"):
            await tab.goto(f"{server.address}/agentic/v1/attachments/{link}")
    assert (await saved.value).suggested_filename == "page.html"
    assert await tab.title() == ""


async def test_a_model_without_images_refuses_them_and_gives_them_back(browser: Browser, tmp_path: Path) -> None:
    models: dict[str, Any] = {"default": {"model": "offline", "images": False, "options": {"words_per_second": 0}}}
    async with running_server(tmp_path, settings={"models": models}) as server:
        async with chat_page(browser, server.address) as page:
            await page.open()
            await choose(page, a_file("cat.png", PNG))
            await expect(page.by("attached")).to_have_count(1)
            await page.ask("what is this?")
            await expect(page.by("error-notice")).to_contain_text("'cat.png' is an image")
            await expect(page.composer).to_have_value("what is this?")
            await page.by("attached").get_by_role("button").click()
            await page.asked("repeat after me: without")


async def test_the_page_says_it_in_the_users_language(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        async with chat_page(browser, server.address, locale="de-DE") as page:
            await page.open()
            await expect(page.by("attach")).to_have_accessible_name("Dateien anhängen")
            words = "Bilder, Dokumente und Texte: höchstens 10 Dateien mit je 10 MB"
            await expect(page.by("attach")).to_have_accessible_description(words)
