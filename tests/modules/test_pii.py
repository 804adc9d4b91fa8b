from typing import Any

import pytest
from pydantic import ValidationError
from support.hook_contexts import SERVICES, hook_context

from agentic_backend.modules.pii import PiiRedaction, PiiSettings
from agentic_backend.policy.hook_result import CONTINUE
from agentic_backend.protocol.messages import Role
from agentic_backend.protocol.parts import CodePart, FilePart, TextPart, text_of

TEXT = "I am ada@example.org, card 4111 1111 1111 1111."


def module(**settings: Any) -> PiiRedaction:
    return PiiRedaction(PiiSettings(**settings), SERVICES)


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ("redact", "I am [REDACTED_EMAIL], card [REDACTED_CREDIT_CARD]."),
        ("mask", "I am ****.org, card ****1111."),
    ],
)
async def test_replaces_values_in_the_message(strategy: str, text: str) -> None:
    result = await module(strategy=strategy).before_ai(hook_context(TEXT))
    assert result.action == "continue"
    assert text_of(list(result.modifications.message)) == text
    assert result.audit is not None and result.audit.patterns == ["credit_card", "email"]


async def test_hashes_values_by_session() -> None:
    texts = [
        text_of(
            list((await module(strategy="hash").before_ai(hook_context(TEXT, session=session))).modifications.message)
        )
        for session in ("one", "one", "two")
    ]
    assert texts[0] == texts[1] != texts[2] and "ada@" not in texts[0]


async def test_tells_types_and_count_without_values() -> None:
    result = await module().before_ai(hook_context(TEXT + " bob@example.org"))
    assert [(one.type, one.data) for one in result.extractions] == [
        ("pii_detected", {"location": "user_message", "types": ["credit_card", "email"], "count": 3})
    ]
    assert "example.org" not in repr(result)


async def test_changes_code_and_keeps_other_parts() -> None:
    file = FilePart(attachment_id="1", name="a.txt", mime="text/plain", size=1)
    result = await module().before_ai(hook_context([TextPart(text="hi"), CodePart(code="x='a@example.org'"), file]))
    assert list(result.modifications.message) == [TextPart(text="hi"), CodePart(code="x='[REDACTED_EMAIL]'"), file]


async def test_replaces_a_value_that_goes_on_in_the_next_part() -> None:
    file = FilePart(attachment_id="1", name="a.txt", mime="text/plain", size=1)
    parts = [TextPart(text="ada@example.org, card 4111 1111"), file, CodePart(code="1111 1111; bob@example.org")]
    result = await module().before_ai(hook_context(parts))
    assert list(result.modifications.message) == [
        TextPart(text="[REDACTED_EMAIL], card [REDACTED_CREDIT_CARD]"),
        file,
        CodePart(code="[REDACTED_CREDIT_CARD]; [REDACTED_EMAIL]"),
    ]
    assert result.extractions[0].data["count"] == 3


@pytest.mark.parametrize("strategy", ["redact", "mask", "hash", "block", "round_trip"])
async def test_leaves_a_text_without_values(strategy: str) -> None:
    assert await module(strategy=strategy).before_ai(hook_context("Hello!")) is CONTINUE
    assert await module(strategy=strategy).after_ai(hook_context("Hello!", response="Hi!")) is CONTINUE


async def test_blocks_a_message_and_a_response() -> None:
    pii = module(strategy="block", direct_response="No data, please.")
    for result in (
        await pii.before_ai(hook_context(TEXT)),
        await pii.after_ai(hook_context("Who?", response=TEXT)),
    ):
        assert (result.action, result.direct_response) == ("block", "No data, please.")
        assert result.extractions[0].data["count"] == 2


async def test_replaces_values_in_the_response() -> None:
    result = await module().after_ai(hook_context("Who?", response="ada@example.org"))
    assert result.modifications.response == "[REDACTED_EMAIL]"
    assert not result.modifications.keep_response_for_model
    assert result.extractions[0].data["location"] == "response"


async def test_looks_only_where_it_applies() -> None:
    assert await module(apply_to=["response"]).before_ai(hook_context(TEXT)) is CONTINUE
    assert await module(apply_to=["message"]).after_ai(hook_context("Who?", response=TEXT)) is CONTINUE


async def test_round_trip_gives_models_placeholders_and_people_values() -> None:
    pii = module(strategy="round_trip")
    asked = (await pii.before_ai(hook_context(TEXT))).modifications
    for_model = text_of(list(asked.message_for_model))
    assert asked.message is None
    assert "example.org" not in for_model and "4111" not in for_model

    answered = await pii.after_ai(hook_context(TEXT, response=for_model.replace("I am", "You are").lower()))
    assert answered.modifications.response == "you are ada@example.org, card 4111 1111 1111 1111."
    assert answered.modifications.keep_response_for_model


async def test_round_trip_knows_a_value_in_all_its_forms_and_shows_the_last_one() -> None:
    pii = module(strategy="round_trip")
    forms = ["4111 1111 1111 1111", "4111\u20111111\u20111111\u20111111", "**4111** 1111\n1111&nbsp;1111"]
    told = [
        text_of(list((await pii.before_ai(hook_context(f"It is {form}!"))).modifications.message_for_model))
        for form in forms
    ]
    assert told[0] == told[1] == told[2] and "<CREDIT_CARD_" in told[0]
    for form in forms:
        earlier = [(Role.USER, f"It is {other}!") for other in forms if other != form]
        answered = await pii.after_ai(hook_context(f"It is {form}!", response=told[0], earlier=earlier))
        assert answered.modifications.response == f"It is {form}!"


async def test_round_trip_joins_no_two_messages() -> None:
    pii = module(strategy="round_trip")
    earlier = [(Role.USER, "Of it: 4111 1111"), (Role.USER, "4111 1111")]
    told = text_of(list((await pii.before_ai(hook_context("4111 1111\n1111 1111"))).modifications.message_for_model))
    result = await pii.after_ai(hook_context("1111 1111 is the end", response=told, earlier=earlier))
    assert result is CONTINUE


@pytest.mark.parametrize("session", ["session-1", None])
async def test_round_trip_knows_values_of_earlier_turns(session: str | None) -> None:
    pii = module(strategy="round_trip")
    asked = await pii.before_ai(hook_context(TEXT, session=session))
    later = hook_context(
        "And?",
        response=text_of(list(asked.modifications.message_for_model)),
        session=session,
        earlier=[(Role.USER, TEXT), (Role.ASSISTANT, "Hi!")],
    )
    assert (await pii.after_ai(later)).modifications.response == TEXT


async def test_round_trip_leaves_an_unknown_placeholder() -> None:
    result = await module(strategy="round_trip").after_ai(hook_context(TEXT, response="<EMAIL_00000000>"))
    assert result is CONTINUE


async def test_searches_a_long_message() -> None:
    result = await module().before_ai(hook_context("a." * 100_000 + " ada@example.org"))
    assert text_of(list(result.modifications.message)).endswith(" [REDACTED_EMAIL]")


def test_refuses_an_unknown_type() -> None:
    with pytest.raises(ValidationError):
        PiiSettings(types=["shoe_size"])  # type: ignore[list-item]
