"""The chat page where an exchange does not end well: stopped, silent, failed, refused, or waiting for a person."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect
from support.chat_page import ChatPage, chat_page, shown_of
from support.page_sockets import HeldAnswers
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SMALL = {"limits": {"message_bytes": 1024, "runtime_context_bytes": 1024, "frame_bytes": 4096}}


@pytest_asyncio.fixture(loop_scope="module")
async def small_page(browser: Browser, tmp_path: Path) -> AsyncIterator[ChatPage]:
    """The page of a server that takes messages of 1 kB."""
    async with running_server(tmp_path, settings=SMALL) as server, chat_page(browser, server.address) as page:
        yield page


async def test_stop_ends_a_countdown_and_the_next_ask_works(page: ChatPage, chat_server: RunningServer) -> None:
    await page.ask("count down slowly from 1000")
    await page.writes(words=3)
    await page.by("stop").click()
    await page.ended("stopped")
    await expect(page.by("ending")).to_have_text("Stopped")
    await expect(page.answers).to_contain_text("1000, 999, 998")
    async with rest(chat_server) as client:
        assert await page.shown() == shown_of(await messages_of(client, page.session_id))
    await page.asked("what is 12*34?")
    await expect(page.answers.last).to_contain_text("408")


ADVICE = """async (errors) => {
  const { html, render } = await import("/static/components/html.js");
  const { ErrorNotice } = await import("/static/components/notices.js");
  return errors.map((error) => {
    const root = document.createElement("div");
    render(html`<${ErrorNotice} error=${error} />`, root);
    return [...root.querySelectorAll("p:not(.error-facts)")].map(({ textContent }) => textContent);
  });
}"""


async def test_what_to_do_after_a_failure_is_said_once(page: ChatPage) -> None:
    said = await page.tab.evaluate(
        ADVICE,
        [
            {"code": "rate_limited", "content": "Too many requests; wait a little.", "retryable": True},
            {"code": "model_error", "content": "The model failed; try again in a moment.", "retryable": True},
            {"code": "context_too_long", "content": "It is too long; send less, or begin a new session."},
            {"code": "model_error", "content": "The model failed.", "retryable": True},
        ],
    )
    assert said == [
        ["Too many requests; wait a little."],
        ["The model failed; try again in a moment."],
        ["It is too long; send less, or begin a new session."],
        ["The model failed.", "Try again in a moment."],
    ]


async def test_a_model_that_hangs_can_be_stopped(page: ChatPage) -> None:
    await page.ask("hang after 5 tokens")
    await page.writes(words=4)
    await page.by("stop").click()
    await page.ended("stopped")
    await expect(page.answers).to_contain_text("Lorem ipsum dolor sit amet")
    await expect(page.by("working")).to_have_count(0)


async def test_a_model_that_never_says_a_word_can_be_stopped(page: ChatPage) -> None:
    await page.ask("hang forever")
    await expect(page.by("working")).to_contain_text("Working…")
    await page.by("stop").click()
    await page.ended("stopped")
    await page.asked("my name is Zorblax")


async def test_a_tool_that_is_stopped_has_no_spinner_left(page: ChatPage) -> None:
    await page.ask("wait 50 seconds")
    await page.unfold()
    await expect(page.by("tool-card")).to_have_attribute("data-state", "running")
    await page.by("stop").click()
    await page.ended("stopped")
    await expect(page.by("tool-card")).to_have_attribute("data-state", "failed")
    await expect(page.tab.locator("main .spinner")).to_have_count(0)


async def test_a_failure_keeps_the_partial_text_and_can_be_tried_again(page: ChatPage) -> None:
    await page.asked("fail after 5 tokens", status="error")
    await expect(page.answers).to_contain_text("Lorem ipsum dolor sit amet")
    await expect(page.by("error-notice")).to_have_count(1)

    await page.by("try-again").click()
    await page.ended("error", exchanges=2)
    await expect(page.by("message-user")).to_contain_text(["fail after 5 tokens"] * 2)
    await expect(page.answers).to_contain_text(["Lorem ipsum dolor sit amet"] * 2)
    await expect(page.by("try-again")).to_have_count(1)


async def test_a_failure_can_be_tried_again_after_a_reload(page: ChatPage) -> None:
    await page.asked("fail after 5 tokens", status="error")
    before = await page.shown()
    await page.tab.reload()
    await page.ended("error")
    assert await page.shown() == before
    await expect(page.by("error-notice")).to_have_count(1)
    await page.by("try-again").click()
    await page.ended("error", exchanges=2)


async def test_a_failure_without_a_word_shows_only_its_notice(page: ChatPage) -> None:
    await page.asked("fail at once", status="error")
    await expect(page.answers).to_have_count(0)
    await expect(page.by("error-notice")).to_have_count(1)


async def unaware_of_the_limit(page: ChatPage) -> None:
    """The page takes the server for one that allows more, so that the server has to refuse what is too long."""

    async def tell(route: Route) -> None:
        response = await route.fetch()
        told = await response.json()
        told["limits"]["message_bytes"] = 1_000_000
        await route.fulfill(response=response, json=told)

    await page.tab.route("**/agentic/v1/info", tell)
    await page.tab.reload()


async def test_a_refused_message_goes_back_to_where_it_was_written(small_page: ChatPage) -> None:
    page, long = small_page, "long " * 300
    await unaware_of_the_limit(page)
    await page.ask(long)
    await expect(page.by("error-notice")).to_contain_text("1024")
    await expect(page.composer).to_have_value(long)
    await expect(page.exchanges).to_have_count(0)

    await page.asked("my name is Zorblax")
    await expect(page.by("error-notice")).to_have_count(0)


async def test_a_refused_message_leaves_the_conversation_as_it_was(small_page: ChatPage) -> None:
    page, long = small_page, "long " * 300
    await unaware_of_the_limit(page)
    await page.asked("my name is Zorblax")
    await page.ask(long)
    await expect(page.composer).to_have_value(long)
    await page.ended(exchanges=1)
    await page.by("error-notice").get_by_role("button", name="Dismiss").click()
    await expect(page.by("error-notice")).to_have_count(0)
    await page.asked("what is my name?")
    await expect(page.answers.last).to_contain_text("Your name is Zorblax.")


async def test_a_message_that_is_too_long_is_not_sent_and_can_be_shortened(small_page: ChatPage) -> None:
    page, long = small_page, "long " * 2000
    await page.ask(long)
    await expect(page.by("too-long")).to_contain_text("A message has at most 1 kB; this has 9.8 kB.")
    await expect(page.composer).to_have_value(long)
    await expect(page.exchanges).to_have_count(0)

    await page.composer.fill("")
    await expect(page.by("too-long")).to_have_count(0)
    await page.asked("my name is Zorblax")


async def test_what_waits_for_a_person_is_shown_and_can_be_stopped(page: ChatPage) -> None:
    await page.choose_agent("asking")
    await page.ask("hello")
    card = page.by("approval")
    await expect(card).to_contain_text("Which one?")
    await expect(page.by("choice")).to_have_text(["left", "right"])
    await expect(page.by("working")).to_have_count(0)

    await page.tab.reload()
    await page.ended("awaiting_human")
    await expect(card).to_contain_text("Which one?")

    await page.by("stop").click()
    await page.ended("stopped")
    await expect(page.by("choice")).to_have_count(0)
    await page.asked("hello again", status="awaiting_human")


async def test_the_end_of_a_conversation_that_was_left_is_no_answer_to_the_same_question_in_a_new_one(
    page: ChatPage, chat_server: RunningServer
) -> None:
    held = await HeldAnswers.on(page)
    await page.choose_agent("asking")
    await page.ask("hello")
    await page.ended("awaiting_human")
    left = page.session_id
    held.pass_on.clear()
    async with rest(chat_server) as http:
        # Ends what waits there, while the page hears nothing.
        assert (await http.post(f"/sessions/{left}/complete")).is_success
    await page.start_new_chat()
    await page.choose_agent("echo")
    await page.ask("hello")
    await expect(page.exchanges).to_have_attribute("data-status", "sending")
    held.pass_on.set()
    await page.ended()
    assert page.session_id != left
    await expect(page.answers).to_contain_text("echo: hello")
