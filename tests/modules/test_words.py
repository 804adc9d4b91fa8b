import time
from typing import Any

import pytest
from pydantic import ValidationError
from support.hook_contexts import SERVICES, hook_context

from agentic_backend.modules.words import WordFilter, WordSettings
from agentic_backend.policy.hook_result import CONTINUE
from agentic_backend.protocol.parts import TextPart, text_of


def module(**settings: Any) -> WordFilter:
    return WordFilter(WordSettings(**settings), SERVICES)


async def replaced(text: str, **settings: Any) -> str:
    result = await module(action="replace", **settings).after_ai(hook_context("?", response=text))
    return text if result is CONTINUE else str(result.modifications.response)


@pytest.mark.parametrize(
    ("words", "text", "left"),
    [
        (["darn"], "Darn! It's a DARN thing.", "***! It's a *** thing."),
        (["darn"], "darning", "darning"),
        (["ass"], "class, assets", "class, assets"),
        (["new", "new york"], "New  York, newer, New", "***, newer, ***"),
        (["darn"], "d\u200ba\u00adrn and \uff44\uff41\uff52\uff4e", "*** and ***"),
        (["straße"], "STRASSE", "***"),
        (["café"], "cafe\u0301 et café", "*** et ***"),
        (["глупый"], "Глупый кот", "*** кот"),
        (["笨蛋"], "你是笨蛋吗", "你是***吗"),
        (["โง่"], "คนโง่มาก", "คน***มาก"),
        (["c++"], "I like c++ code", "I like ***++ code"),
        (["🖕"], "so 🖕!", "so ***!"),
    ],
)
async def test_replaces_words(words: list[str], text: str, left: str) -> None:
    assert await replaced(text, words=words) == left


async def test_replaces_patterns_and_merges_overlaps() -> None:
    assert await replaced("Ask AB-1234 please", patterns=[r"\b[a-z]{2}-\d{4}\b"]) == "Ask *** please"
    assert await replaced("one two three", words=["two"], patterns=["one two", "two three"]) == "***"


async def test_replaces_in_the_message_and_keeps_the_audit() -> None:
    result = await module(action="replace", words=["darn"], patterns=["x+"]).before_ai(hook_context("darn xx"))
    assert text_of(list(result.modifications.message)) == "*** ***"
    assert result.audit is not None and result.audit.patterns == ["words", "x+"]


async def test_replaces_a_phrase_that_goes_from_one_part_to_the_next() -> None:
    context = hook_context([TextPart(text="in new"), TextPart(text="york, darn")])
    result = await module(action="replace", words=["new york", "darn"]).before_ai(context)
    assert result.modifications.message == "in ***, ***"


async def test_blocks() -> None:
    words = module(words=["darn"], direct_response="Be kind.")
    for result in (
        await words.before_ai(hook_context("Darn!")),
        await words.after_ai(hook_context("?", response="Darn!")),
    ):
        assert (result.action, result.direct_response) == ("block", "Be kind.")
    assert await words.before_ai(hook_context("Fine.")) is CONTINUE


async def test_looks_only_where_it_applies() -> None:
    assert await module(words=["darn"], apply_to=["response"]).before_ai(hook_context("darn")) is CONTINUE
    assert await module(words=["darn"], apply_to=["message"]).after_ai(hook_context("?", response="darn")) is CONTINUE


@pytest.mark.parametrize(
    "settings",
    [{"patterns": ["(a"]}, {"patterns": ["a*"]}, {"patterns": [r"(a)\1"]}, {"words": ["\u200b"]}, {"unknown": 1}],
)
def test_refuses_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WordSettings(**settings)


@pytest.mark.parametrize(("pattern", "text"), [("(a+)+$", "a" * 262_000 + "b"), ("a+b|a", "a" * 262_000)])
async def test_survives_patterns_that_take_other_engines_forever(pattern: str, text: str) -> None:
    began = time.process_time()
    await replaced(text, patterns=[pattern])
    assert time.process_time() - began < 20


async def test_replaces_the_rest_after_very_many_matches() -> None:
    assert await replaced("a " * 1_500, patterns=["a"]) == "*** " * 1_000 + "***"


@pytest.mark.parametrize("text", ["d\ufe0farn", "d\u0337a\u0337r\u0337n\u0337", "da\u034frn", "da\u3164rn", "_darn_"])
async def test_finds_a_word_in_disguise(text: str) -> None:
    words = module(words=["darn"])
    assert (await words.before_ai(hook_context(f"Oh {text}, no"))).action == "block"


async def test_an_accent_makes_another_word() -> None:
    words = module(words=["schon"])
    for text in ("sch\u00f6n", "scho\u0308n"):
        assert (await words.before_ai(hook_context(text))).action == "continue"
