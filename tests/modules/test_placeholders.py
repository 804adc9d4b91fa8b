import pytest

from agentic_backend.modules.placeholders import placeholder, restore
from agentic_backend.text.pii_detectors import Found, find_pii

VALUES = find_pii("ada@example.org bob@example.org 4111111111111111")
ADA = VALUES[0]


def test_is_the_same_in_a_session_and_another_in_another_one() -> None:
    assert placeholder(ADA, "one") == placeholder(ADA, "one")
    assert len({placeholder(found, session) for found in VALUES for session in ("one", "two")}) == 6


@pytest.mark.parametrize(
    "written",
    [
        "{whole}",
        "{lower}",
        "{bare}",
        "\\<EMAIL\\_{digits}\\>",
        "<EMAIL_**{digits}**>",
        "<_EMAIL_ {digits}>",
        "&lt;EMAIL_{digits}&gt;",
        "<EMAIL_{short}>",
    ],
)
def test_restores_what_models_write(written: str) -> None:
    whole = placeholder(ADA, "one")
    digits = whole[7:-1]
    text = written.format(whole=whole, lower=whole.lower(), bare=whole[1:-1], digits=digits, short=digits[:5])
    assert restore(f"To **{text}**, today", VALUES, "one") == "To **ada@example.org**, today"


def test_restores_types_of_two_words() -> None:
    assert restore(f"card {placeholder(VALUES[2], 'one')}.", VALUES, "one") == "card 4111111111111111."


@pytest.mark.parametrize("text", ["<EMAIL_00000000>", "<PHONE_12345678>", "an e-mail", "<b>bold</b>"])
def test_leaves_what_stands_for_no_value(text: str) -> None:
    assert restore(text, VALUES, "one") == text


def test_leaves_the_placeholders_of_another_session() -> None:
    text = placeholder(ADA, "two")
    assert restore(text, VALUES, "one") == text


def test_leaves_a_short_hash_that_fits_two_values() -> None:
    by_digits: dict[str, Found] = {}
    for number in range(5_000):
        found = Found("email", 0, 0, f"user{number}@example.org")
        digits = placeholder(found, "one")[7:11]
        if digits in by_digits:
            break
        by_digits[digits] = found
    else:
        raise AssertionError("No two hashes begin alike.")
    text = f"<EMAIL_{digits}>"
    assert restore(text, [found], "one") == found.value
    assert restore(text, [found, by_digits[digits]], "one") == text
