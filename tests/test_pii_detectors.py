"""Values are of ranges that are reserved for examples, or test numbers that card networks and banks publish."""

import pytest
from support.cpu_time import cpu_s

from agentic_backend.text.pii_detectors import PII_TYPES, find_pii

SAMPLES = [
    ("email", "Write to ada.lovelace+1@example.org, please.", "ada.lovelace+1@example.org"),
    ("email", "Mail: *jürgen@bücher.example.org*", "jürgen@bücher.example.org"),
    ("credit_card", "My card is 4111 1111 1111 1111.", "4111 1111 1111 1111"),
    ("credit_card", "Order 12 4111-1111-1111-1111", "4111-1111-1111-1111"),
    ("credit_card", "amex 378282246310005", "378282246310005"),
    ("credit_card", "amex 3782 822463 10005", "3782 822463 10005"),
    ("iban", "IBAN DE89 3704 0044 0532 0130 00 and thanks", "DE89 3704 0044 0532 0130 00"),
    ("iban", "gb82west12345698765432", "gb82west12345698765432"),
    ("phone", "Call +1 (202) 555-0123 now", "+1 (202) 555-0123"),
    ("phone", "Call 202-555-0123.", "202-555-0123"),
    ("phone", "Tel. 030 23125 0123", "030 23125 0123"),
    ("phone", "Tél. 01 99 00 12 34", "01 99 00 12 34"),
    ("phone", "0044 20 7946 0123", "0044 20 7946 0123"),
    ("ip", "ping 192.0.2.17!", "192.0.2.17"),
    ("ip", "host 2001:db8::17 is down", "2001:db8::17"),
    ("mac_address", "00:00:5E:00:53:01", "00:00:5E:00:53:01"),
    ("mac_address", "It is 0000.5e00.5301.", "0000.5e00.5301"),
    ("url", "See https://example.org/a?b=c.", "https://example.org/a?b=c"),
    ("url", "See www.example.org, or", "www.example.org"),
    ("url", "at example.org/me now", "example.org/me"),
    ("url", "https://foo.py/bar or none", "https://foo.py/bar"),
    ("url", "at docs.example.py/me now", "docs.example.py/me"),
    ("ip", "mail from host[2001:db8::17]", "2001:db8::17"),
]


@pytest.mark.parametrize(("type_", "text", "value"), SAMPLES)
def test_finds_a_value(type_: str, text: str, value: str) -> None:
    assert [(found.type, found.value) for found in find_pii(text)] == [(type_, value)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I am ada\u200b@exa\u200dmple.org.", "ada@example.org"),
        ("I am \ufeffada@example\u2060.org", "ada@example.org"),
        ("4111\u200b1111\u200b1111\u200b1111", "4111111111111111"),
        ("DE89\u00ad3704\u00ad0044\u00ad0532\u00ad0130\u00ad00", "DE89370400440532013000"),
        ("+1\u034f 202\u2063 555 0123", "+1 202 555 0123"),
        ("192.0.\U000e00202.17", "192.0.2.17"),
        ("https:/\u200b/example.org/me", "https://example.org/me"),
        ("\uff14\uff11\uff11\uff11 1111 1111 1111", "4111 1111 1111 1111"),
        ("ada\uff20example\uff0eorg", "ada@example.org"),
    ],
)
def test_finds_a_value_in_disguise(text: str, value: str) -> None:
    [found] = find_pii(text)
    assert found.value == value
    rest = text[: found.start] + text[found.end :]
    assert not any(character.isdigit() or character == "@" for character in rest)


def test_finds_values_that_only_an_invisible_character_separates() -> None:
    text = "ada@example.org\u200bbob@example.org"
    [found] = find_pii(text)
    assert (found.start, found.end) == (0, len(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Chinese, Japanese, Korean, Thai: words have no space, or an ending, beside the value.
        ("\u90ae\u7bb1ada@example.org\u8bf7", "ada@example.org"),
        ("\u30e1\u30fc\u30ebada@example.org\u3067\u3059", "ada@example.org"),
        ("\uba54\uc77cada@example.org\uc785\ub2c8\ub2e4", "ada@example.org"),
        ("\u0e2d\u0e35\u0e40\u0e21\u0e25ada@example.org\u0e04\u0e23\u0e31\u0e1a", "ada@example.org"),
        ("\u53614111-1111-1111-1111\u6709", "4111-1111-1111-1111"),
        ("\u4e3aDE89370400440532013000\u7684", "DE89370400440532013000"),
        ("\u62e8+49 30 23125 012\u5427", "+49 30 23125 012"),
        ("\u662f192.0.2.17\u7684", "192.0.2.17"),
        ("\u662f2001:db8::17\u7684", "2001:db8::17"),
        ("\u662f00:00:5E:00:53:01\u7684", "00:00:5E:00:53:01"),
        # Where an address may be of such letters, all of it goes.
        ("\u7f51\u5740www.example.org/\u8def", "www.example.org/\u8def"),
        ("\u674e@\u4f8b\u5b50.cn", "\u674e@\u4f8b\u5b50.cn"),
    ],
)
def test_finds_a_value_beside_letters_of_scripts_without_spaces(text: str, value: str) -> None:
    assert [found.value for found in find_pii(text)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "see foo.py/bar, README.md/docs and src/app.module.ts/index",
        "1234.5678.9012 of dead.beef.cafe, and 0000.5e00.5301.beef",
        "a[1::2], x[::2], m[1::2, ::3] and f(a)[2::4]",
        "On 2026-11-23 at 12:30:45 it was 21.5 degrees.",
        "4111 1111 1111 1112 fails its check, as DE88370400440532013000 does.",
        "999.1.2.3 and std::vector and 3/4 and e.g. that",
        "@ada wrote a@b, and example.org is a domain",
        "The sum of 1000000 and 20000 is 1020000.",
    ],
)
def test_leaves_other_texts(text: str) -> None:
    assert find_pii(text) == []


def test_makes_values_that_overlap_one() -> None:
    text = "https://example.org/?to=ada@example.org&card=4111111111111111"
    assert [(found.type, found.value) for found in find_pii(text)] == [("url", text)]


def test_looks_for_the_given_types_only() -> None:
    text = "ada@example.org 192.0.2.17"
    assert [found.type for found in find_pii(text, ["ip"])] == ["ip"]


@pytest.mark.parametrize(
    "unit",
    [
        "a.",
        "a@",
        "%",
        "a@b.",
        "a-",
        "1 ",
        "4111 ",
        "1.",
        "a:",
        "+1 ",
        "0 1 ",
        "DE89 ",
        "www.",
        "https://",
        "(",
        "00:",
        ".a/",
        "\u200b",
        "a@\u200b",
        "\uff14",
        "\u4e2da@b.c",
        "\u4e2d1 ",
        "a[1::2",
        "a.py/",
    ],
)
def test_takes_time_that_grows_with_the_length_only(unit: str) -> None:
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        return cpu_s(lambda: find_pii(text, PII_TYPES))

    # A search in quadratic time would take 64 times as long for the text that is eight times as long, each time.
    assert any(seconds(131_072) < 30 * max(seconds(16_384), 0.005) for _ in range(3))
