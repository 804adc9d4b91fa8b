"""What the modules find in samples of public collections (data/README.md). docs/policy.md tells these rates."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.hook_contexts import SERVICES, hook_context

from agentic_backend.modules.injection import InjectionMarks, InjectionSettings
from agentic_backend.modules.language import LanguageNote, LanguageSettings
from agentic_backend.modules.words import WordFilter, WordSettings
from agentic_backend.policy.hook_context import Point
from agentic_backend.text.pii_detectors import find_pii


def sample(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))
    return content


PRESIDIO, INJECTIONS, PROFANITY = sample("presidio.yaml"), sample("injections.yaml"), sample("profanity.yaml")
NUMBERS = sample("test_numbers.yaml")


def test_the_data_of_presidio_are_found_by_type() -> None:
    there, found = Counter[str](), Counter[str]()
    for one in PRESIDIO["personal"]:
        texts = [value.value for value in find_pii(one["text"])]
        for value in one["values"]:
            there[value["type"]] += 1
            found[value["type"]] += any(value["value"] in text for text in texts)
    assert min(there.values()) >= 8
    for type_ in ("email", "credit_card", "iban", "ip", "url"):
        assert found[type_] == there[type_]
    # Many are local numbers, which look like any other number.
    assert found["phone"] / there["phone"] >= 0.5


@pytest.mark.parametrize("text", PRESIDIO["harmless"])
async def test_harmless_texts_of_presidio_are_left_alone(text: str) -> None:
    assert find_pii(text) == []
    assert not await suspected(text)
    words = WordFilter(WordSettings(words=PROFANITY["words"]), SERVICES)
    assert (await words.before_ai(hook_context(text))).action == "continue"


@pytest.mark.parametrize("number", NUMBERS["cards"])
def test_the_test_cards_of_networks_are_found(number: str) -> None:
    [found] = find_pii(f"My card is {number}.")
    assert (found.type, found.value) == ("credit_card", number)


@pytest.mark.parametrize("iban", NUMBERS["ibans"])
def test_the_examples_of_the_iban_registry_are_found(iban: str) -> None:
    printed = " ".join(iban[place : place + 4] for place in range(0, len(iban), 4))
    for written in (iban, printed):
        [found] = find_pii(f"Please pay to {written}, thanks")
        assert (found.type, found.value) == ("iban", written)


async def suspected(text: str) -> bool:
    marks = InjectionMarks(InjectionSettings(delimit=False), SERVICES)
    result = await marks.tool_result(hook_context("?", response=text, tool="read", point=Point.TOOL_RESULT))
    return any(one.type == "injection_suspected" for one in result.extractions)


@pytest.mark.parametrize(
    ("collection", "share"),
    [("promptinject", 1.0), ("garak_prompt_extraction", 0.5), ("garak_latent", 0.35)],
)
async def test_orders_of_public_collections_are_marked(collection: str, share: float) -> None:
    texts = INJECTIONS[collection]
    marked = [text for text in texts if await suspected(text)]
    assert len(marked) / len(texts) >= share


async def test_an_order_in_plain_words_is_delimited_only() -> None:
    marks = InjectionMarks(InjectionSettings(), SERVICES)
    for text in INJECTIONS["bipia_tasks"]:
        assert not await suspected(text)
        result = await marks.tool_result(hook_context("?", response=text, tool="read", point=Point.TOOL_RESULT))
        assert f">\n{text}\n</data " in str(result.modifications.response)


@pytest.mark.parametrize("word", PROFANITY["words"])
@pytest.mark.parametrize("disguise", ["You {}!", "«{}»", "_{}_"])
async def test_listed_words_are_found_in_a_sentence(word: str, disguise: str) -> None:
    words = WordFilter(WordSettings(words=PROFANITY["words"]), SERVICES)
    for written in (word, word.upper(), "\u200b".join(word)):
        assert (await words.before_ai(hook_context(disguise.format(written)))).action == "block"


async def test_other_spellings_of_listed_words_must_be_listed_too() -> None:
    words = WordFilter(WordSettings(words=PROFANITY["words"]), SERVICES)
    found = [
        text
        for text in PROFANITY["unlisted_spellings"]
        if (await words.before_ai(hook_context(text))).action == "block"
    ]
    assert found == ["arse hole", "dumb bastard"]


@pytest.mark.parametrize("text", PROFANITY["look_alikes"])
async def test_words_that_contain_a_listed_one_pass(text: str) -> None:
    words = WordFilter(WordSettings(words=PROFANITY["words"]), SERVICES)
    assert (await words.before_ai(hook_context(text))).action == "continue"


async def test_the_languages_of_the_declaration_of_human_rights_are_told() -> None:
    module = LanguageNote(LanguageSettings(), SERVICES)
    for code, text in sample("declaration.yaml").items():
        [told] = (await module.before_ai(hook_context(text))).extractions
        assert told.data == {"language": code}
