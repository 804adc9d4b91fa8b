from collections.abc import Mapping
from typing import Any

import pytest
from support.hook_contexts import SERVICES, hook_context

from agentic_backend.modules.struggle import StruggleDetector, StruggleSettings
from agentic_backend.policy.hook_context import Point
from agentic_backend.protocol.messages import Role

ERROR = "I get TypeError: unsupported operand"


async def struggle(message: str, *earlier: str, **settings: Any) -> Mapping[str, Any] | None:
    messages = [pair for text in earlier for pair in ((Role.USER, text), (Role.ASSISTANT, "Try this: NameError: x"))]
    context = hook_context(message, earlier=messages, point=Point.ON_MESSAGE)
    result = await StruggleDetector(StruggleSettings(**settings), SERVICES).on_message(context)
    assert result.action == "continue" and result.modifications.message is None
    assert all(one.type == "struggle_detected" for one in result.extractions)
    return result.extractions[0].data if result.extractions else None


@pytest.mark.parametrize(
    ("message", "earlier", "indicators"),
    [
        (ERROR, ["My code says ValueError: wrong"], ["repeated_errors"]),
        ("How do I solve quadratic equations?", ["how do i solve Quadratic equations"], ["repeated_question"]),
        ("This is impossible, I give up", [], ["frustration"]),
        ("WHY???", [], ["frustration"]),
        ("Ich komme nicht weiter", [], ["frustration"]),
        ("I still don't understand", [], ["confusion"]),
        ("Je ne comprends toujours pas", [], ["confusion"]),
        ("I'm stuck, it says SyntaxError: bad", [ERROR], ["repeated_errors", "frustration"]),
    ],
)
async def test_tells_the_signs(message: str, earlier: list[str], indicators: list[str]) -> None:
    found = await struggle(message, *earlier)
    assert found is not None and found["indicators"] == indicators


@pytest.mark.parametrize(
    ("message", "earlier"),
    [
        ("Thanks, that works!", [ERROR, ERROR]),
        (ERROR, []),
        (ERROR, ["Thank you", "How do I add numbers?"]),
        ("And then?", ["And then?"]),
        ("How do I solve linear equations?", ["What is the capital of France?"]),
        ("I don't like rain", []),
    ],
)
async def test_sees_no_struggle(message: str, earlier: list[str]) -> None:
    assert await struggle(message, *earlier) is None


async def test_tells_the_topic_that_messages_have_in_common() -> None:
    found = await struggle("How do I factor a polynomial here?", "how can i factor a polynomial here")
    assert found == {"indicators": ["repeated_question"], "topic": "polynomial"}


async def test_keeps_to_its_settings() -> None:
    assert await struggle("WHY???", min_indicators=2) is None
    assert await struggle(ERROR, ERROR, min_errors=3, similarity=1.0) == {
        "indicators": ["repeated_question"],
        "topic": "unsupported",
    }
    assert await struggle(ERROR, ERROR, "Thanks", messages=2) is None


async def test_reads_the_beginning_of_long_messages() -> None:
    assert await struggle("word " * 50_000 + "I give up", *["word " * 50_000] * 3) is None
