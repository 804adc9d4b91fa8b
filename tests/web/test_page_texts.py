"""The chat page speaks English, French and German: all of it."""

import re
from pathlib import Path

import pytest
from support.page_texts import WEB, modules, sentences, translated, translations, untranslated

LANGUAGES = ("fr", "de")
# Names, and what is the same in all languages.
NAMES = {"placeholder=JSON", "Content-Disposition", "Content-Type", "Français", "Mod-s"}


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative_to(WEB)))
def test_what_a_module_says_is_translated(module: Path) -> None:
    assert untranslated(module) - NAMES == set()
    for language in LANGUAGES:
        assert (translated(module) | sentences(module)) - NAMES - translations(language).keys() == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_are_used_and_in_order_and_keep_their_places(language: str) -> None:
    entries = translations(language)
    used = set().union(*(translated(module) | sentences(module) for module in modules()))
    assert entries.keys() - used == set()
    assert list(entries) == sorted(entries)
    for text, translation in entries.items():
        assert translation.strip()
        assert sorted(places(text)) == sorted(places(translation)), text


def places(text: str) -> list[str]:
    return re.findall(r"\{\w+\}", text)
