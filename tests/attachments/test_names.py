"""The name of a file says what people see of it."""

import unicodedata

import pytest
from support.unseen_characters import UNSEEN

from agentic_backend.attachments.names import clean_name


@pytest.mark.parametrize("character", UNSEEN.values(), ids=UNSEEN)
def test_a_name_has_no_character_that_nobody_sees(character: str) -> None:
    instead = " " if unicodedata.category(character) == "Zs" else "_"
    assert clean_name(f"a{character}b.txt") == f"a{instead}b.txt"
