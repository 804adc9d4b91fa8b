"""What is brought into a normal form is as Unicode has it, unless it is made to take long."""

import unicodedata

import pytest

from agentic_backend.normal_form import normal_form


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFKD"])
def test_texts_of_people_are_as_unicode_has_them(form: str) -> None:
    words = "e\u0301te\u0301 ﬁn \uff21\u00a0\uff11 ㍻ か\u3099 \u1112\u1161\u11ab ṩ s\u0307\u0323 قَالَ هِنْدِيّ हिन्दी \u2028"
    text = "\n".join([words] * 50)
    assert normal_form(form, text) == unicodedata.normalize(form, text)


def test_no_piece_is_lost_of_a_word_without_end() -> None:
    assert normal_form("NFC", "a" * 1_000) == "a" * 1_000
    # By the square of their number it would take an hour.
    assert sorted(normal_form("NFC", "\u0300\u0316" * 1_000_000)) == ["\u0300"] * 1_000_000 + ["\u0316"] * 1_000_000
