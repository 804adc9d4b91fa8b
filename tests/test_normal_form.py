"""What is brought into a normal form is as Unicode has it, unless it is made to take long."""

import unicodedata

import pytest

from agentic_backend.text.normal_form import clean, normal_form


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFKD"])
def test_texts_of_people_are_as_unicode_has_them(form: str) -> None:
    words = "e\u0301te\u0301 ﬁn \uff21\u00a0\uff11 ㍻ か\u3099 \u1112\u1161\u11ab ṩ s\u0307\u0323 قَالَ هِنْدِيّ हिन्दी \u2028"
    text = "\n".join([words] * 50)
    assert normal_form(form, text) == unicodedata.normalize(form, text)


def test_no_piece_is_lost_of_a_word_without_end() -> None:
    assert normal_form("NFC", "a" * 1_000) == "a" * 1_000
    # By the square of their number it would take an hour.
    assert sorted(normal_form("NFC", "\u0300\u0316" * 1_000_000)) == ["\u0300"] * 1_000_000 + ["\u0316"] * 1_000_000


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("caf\udce9.txt", "caf\ufffd.txt"),
        ("\ud83d\ude00 \ude00\ud83d", "\U0001f600 \ufffd\ufffd"),
        ("a\x00b\x1b[1m\x7f\x9f", "a\ufffdb\ufffd[1m\ufffd\ufffd"),
        ("page\x0cpage\x0bline\x85line", "page\npage\nline\nline"),
    ],
)
def test_halves_and_controls_are_cleaned(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned == clean(cleaned)


@pytest.mark.parametrize("text", ["", "a\tb\r\n", "größer \U0001f468\u200d\U0001f469 \u2028 \u202e \u2800\ufffd\ufeff"])
def test_a_well_formed_text_stays_the_object_that_it_is(text: str) -> None:
    assert clean(text) is text
