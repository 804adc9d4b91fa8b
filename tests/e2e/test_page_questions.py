"""The chat page where a graph asks a question: all that it asked with is shown, and its schema is a form."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect
from support.asking_agents import DETAILS, ENTRIES
from support.chat_page import ChatPage, new_chat_in
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), agents=ENTRIES) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


async def ask(page: ChatPage, agent: str) -> Locator:
    """The card of the question that `agent` asks."""
    await page.choose_agent(agent)
    await page.ask("go on")
    card = page.by("approval").and_(page.tab.locator("[data-state=open]"))
    await expect(card).to_have_count(1)
    return card


async def answered(page: ChatPage, answer: Any) -> None:
    await page.ended()
    await expect(page.answers.get_by_role("paragraph")).to_have_text(f"You said {json.dumps(answer)}")


async def test_nothing_of_what_a_graph_asks_with_is_hidden(page: ChatPage) -> None:
    card = await ask(page, "transfer")
    await expect(card.get_by_test_id("approval-question")).to_have_text("Shall I do it?")
    await expect(card.get_by_test_id("asked-value").locator("dt")).to_have_text(["details", "account"])
    await expect(card.get_by_test_id("asked-value")).to_contain_text("Transfer $500 to Bob")
    await expect(card.get_by_test_id("asked-value")).to_contain_text("DE02")


@pytest.mark.parametrize("agent", ["of_call", "of_batch", "of_action", "of_actions", "of_choice", "of_options"])
async def test_what_a_card_shows_in_no_other_place_stands_beside_it(page: ChatPage, agent: str) -> None:
    card = await ask(page, agent)
    await expect(card.get_by_test_id("asked-value")).to_contain_text(DETAILS)


async def test_what_a_card_shows_of_a_call_is_shown_once(page: ChatPage) -> None:
    card = await ask(page, "plain_actions")
    await expect(card.get_by_test_id("approval-args")).to_contain_text("amount")
    await expect(card.get_by_test_id("asked-value")).to_have_count(0)


@pytest.mark.parametrize(("label", "answer"), [("Yes", True), ("No", False)])
async def test_a_question_that_says_no_more_can_be_answered_by_yes_or_no(
    page: ChatPage, label: str, answer: bool
) -> None:
    card = await ask(page, "transfer")
    await card.get_by_role("button", name=label, exact=True).click()
    await answered(page, answer)
    await expect(page.by("approval")).to_contain_text(label)


async def test_a_question_that_says_no_more_can_be_answered_in_words(page: ChatPage) -> None:
    card = await ask(page, "transfer")
    await card.get_by_test_id("answer").fill("only half of it")
    await card.get_by_test_id("answer").press("Enter")
    await answered(page, "only half of it")


async def test_a_schema_is_a_form(page: ChatPage) -> None:
    card = await ask(page, "booking")
    fields = card.get_by_test_id("answer-field")
    await expect(fields).to_have_count(6)
    await expect(card.get_by_label("Who travels?")).to_have_value("")
    await expect(card.get_by_text("At most four.")).to_be_visible()
    await expect(card.get_by_label("Comfort")).to_have_value("0")

    await card.get_by_label("Seats").fill("two")
    await card.get_by_test_id("send-answer").click()
    problems = card.get_by_test_id("answer-problem")
    await expect(problems).to_have_count(3)
    await expect(problems.nth(1)).to_have_text("This must be a whole number.")

    await card.get_by_label("Who travels?").fill("Ann")
    await card.get_by_label("Seats").fill("2")
    await card.get_by_role("radio", name="No").check()
    await card.get_by_label("Comfort").select_option("first")
    await card.get_by_label("Stops").fill("Basel\nOlten\n")
    await card.get_by_test_id("send-answer").click()
    booked = {
        "traveller": "Ann",
        "seats": 2,
        "window": False,
        "comfort": "first",
        "stops": ["Basel", "Olten"],
        "note": None,
    }
    await answered(page, booked)


async def test_an_answer_that_the_server_refuses_comes_back_as_it_was_filled_in(page: ChatPage) -> None:
    card = await ask(page, "booking")
    await card.get_by_label("Who travels?").fill("Ann")
    await card.get_by_label("Seats").fill("9")
    await card.get_by_role("radio", name="Yes").check()
    await card.get_by_test_id("send-answer").click()
    await expect(page.by("approval-refused")).to_contain_text("seats")
    await expect(card.get_by_label("Who travels?")).to_have_value("Ann")
    await expect(card.get_by_role("radio", name="Yes")).to_be_checked()
    await card.get_by_label("Seats").fill("4")
    await card.get_by_test_id("send-answer").click()
    await page.ended()
    await expect(page.answers).to_contain_text('"seats": 4')


async def test_a_truth_value_is_a_yes_or_a_no(page: ChatPage) -> None:
    card = await ask(page, "yes_or_no")
    await expect(card.get_by_test_id("answer-option")).to_have_text(["Yes", "No"])
    await expect(card.get_by_test_id("answer")).to_have_count(0)
    await card.get_by_role("button", name="No", exact=True).click()
    await answered(page, False)


async def test_a_few_values_are_buttons(page: ChatPage) -> None:
    card = await ask(page, "colour")
    await expect(card.get_by_test_id("answer-option")).to_have_text(["red", "green", "3"])
    await card.get_by_role("button", name="3", exact=True).click()
    await answered(page, 3)


async def test_what_was_chosen_can_be_left_out_again_and_an_empty_text_is_an_answer(page: ChatPage) -> None:
    card = await ask(page, "preferences")
    await card.get_by_role("radio", name="Yes").check()
    await card.get_by_label("price").fill("1e999")
    await card.get_by_test_id("send-answer").click()
    await expect(card.get_by_test_id("answer-problem")).to_have_text(["This number is too large."])
    await card.get_by_role("radio", name="No answer").check()
    await card.get_by_label("price").fill("1e3")
    await card.get_by_test_id("send-answer").click()
    await answered(page, {"price": 1000, "remark": ""})


async def test_answers_with_the_same_label_stay_apart(page: ChatPage) -> None:
    card = await ask(page, "twins")
    await expect(card.get_by_test_id("answer-option")).to_have_text(["One", "One"])
    await card.get_by_test_id("answer-option").last.click()
    await answered(page, 2)


async def test_forms_within_forms_dates_and_several_choices_are_filled_in_without_json(page: ChatPage) -> None:
    card = await ask(page, "order")
    await expect(card.locator("textarea.code-field")).to_have_count(0)
    await card.get_by_test_id("send-answer").click()
    await expect(card.get_by_test_id("answer-problem")).to_have_count(2)
    await card.get_by_label("Day").fill("2026-12-24")
    await card.get_by_label("bike").check()
    await card.get_by_label("seat").check()
    await card.get_by_label("bike").uncheck()
    invoice = card.get_by_role("group", name="Address").first
    await invoice.get_by_label("Street").fill("Gasse 1")
    await invoice.get_by_label("Country").select_option("FR")
    await card.get_by_test_id("send-answer").click()
    ordered = {"day": "2026-12-24", "extras": ["seat"], "invoice": {"street": "Gasse 1", "country": "FR"}, "gift": None}
    await answered(page, ordered)


@pytest.mark.parametrize(
    ("agent", "wrong", "words", "answer"),
    [
        ("transfer", "", "do it by noon", "do it by noon"),
        ("name", "", "Ann", "Ann"),
        ("yes_or_no", "perhaps", "no", False),
        ("size", "medium", "large", "l"),
        ("colour", "blue", "Red", "red"),
    ],
)
async def test_a_question_is_answered_from_the_composer(
    page: ChatPage, agent: str, wrong: str, words: str, answer: Any
) -> None:
    await ask(page, agent)
    if wrong:
        await page.ask(wrong)
        await expect(page.composer).to_have_value(wrong)
        await expect(page.by("approval").and_(page.tab.locator("[data-state=open]"))).to_have_count(1)
    await page.ask(words)
    await answered(page, answer)
    await expect(page.composer).to_have_value("")
