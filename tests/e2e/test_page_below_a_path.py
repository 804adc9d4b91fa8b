"""The page below a path of its host, behind the proxy of docs/production.md."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from services.nginx import Nginx
from support.chat_page import chat_page
from support.ports import free_port
from support.running_server import running_server

pytestmark = [pytest.mark.chromium, pytest.mark.nginx, pytest.mark.asyncio(loop_scope="module")]


async def test_the_page_works_below_a_path(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    nginx = Nginx(tmp_path, f"http://127.0.0.1:{port}", path="/chat")
    server = {"port": port, "grace_s": 0.2, "allowed_origins": [nginx.address]}
    async with running_server(tmp_path, settings={"server": server}):
        nginx.start()
        try:
            async with chat_page(browser, f"{nginx.address}/chat") as page:
                await page.open()
                await page.asked("hello")
                assert page.tab.url == f"{nginx.address}/chat/#s={page.session_id}"
                notes = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Rome"}
                await page.by("file-input").set_input_files([notes])
                await expect(page.by("attached")).to_have_count(1)
                await page.asked("and this?")
                before = await page.shown()
                await page.tab.reload()
                await page.ended(exchanges=2)
                assert await page.shown() == before
        finally:
            nginx.stop()
