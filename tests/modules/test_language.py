from pathlib import Path
from typing import Any

import pytest
import yaml
from support.hook_contexts import SERVICES, hook_context

from agentic_backend.modules.language import LanguageNote, LanguageSettings
from agentic_backend.modules.language_names import LANGUAGE_NAMES
from agentic_backend.policy.hook_result import CONTINUE
from agentic_backend.protocol.parts import CodePart, TextPart

SAMPLES = yaml.safe_load((Path(__file__).parent / "data" / "languages.yaml").read_text())


async def module(**settings: Any) -> LanguageNote:
    note = LanguageNote(LanguageSettings(**settings), SERVICES)
    await note.start()
    return note


@pytest.mark.parametrize(("code", "text"), SAMPLES.items())
async def test_names_the_language(code: str, text: str) -> None:
    result = await (await module()).before_ai(hook_context(text))
    name = LANGUAGE_NAMES[code]
    assert list(result.modifications.prompt_additions) == [
        f"The person writes in {name}; answer in {name} unless asked otherwise."
    ]
    assert result.extractions[0].data == {"language": code}
    assert result.modifications.message is None


@pytest.mark.parametrize(
    "text",
    ["", "ok", "Danke!", "42 * 17 = ?", "https://example.org/une/page", "```\nfor x in y: print(x)\n```"],
)
async def test_says_nothing_about_short_texts_and_code(text: str) -> None:
    assert await (await module()).before_ai(hook_context(text)) is CONTINUE


async def test_detects_the_language_of_the_words_around_code() -> None:
    parts = [TextPart(text=SAMPLES["fr"]), CodePart(code="if this and that: return the other one")]
    result = await (await module()).before_ai(hook_context(parts))
    assert result.extractions[0].data == {"language": "fr"}


async def test_leaves_out_the_languages_of_the_settings() -> None:
    assert await (await module(except_languages=["en"])).before_ai(hook_context(SAMPLES["en"])) is CONTINUE


async def test_says_nothing_when_it_is_unsure() -> None:
    assert await (await module(min_score=1.0)).before_ai(hook_context("lorem ipsum hello bonjour tag")) is CONTINUE


async def test_reads_the_beginning_of_a_long_message() -> None:
    result = await (await module()).before_ai(hook_context(SAMPLES["pl"] + " " + "x" * 262_000))
    assert result.extractions == [] or result.extractions[0].data["language"] in LANGUAGE_NAMES
