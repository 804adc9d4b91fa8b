"""Values in the forms that people type, paste and are sent: what is found of them, and what only looks like one.

Values are of ranges that are reserved for examples, or test numbers that card networks and banks publish.
"""

import pytest
from support.cpu_time import cpu_s

from agentic_backend.text.pii_detectors import PiiType, find_pii
from agentic_backend.text.typography import decoded, set_plainly

MAIL, CARD, AMEX, IBAN = "ada.smith@example.org", "4111111111111111", "378282246310005", "DE89370400440532013000"
FRENCH, GERMAN, AMERICAN, ADDRESS = "0199001234", "+493023125012", "+12025550123", "192.0.2.17"

# By type and key: the forms. They stand in a sentence, and nothing else of it belongs to the value.
FORMS: dict[tuple[PiiType, str], list[str]] = {
    ("email", MAIL): [
        "Ada.Smith@Example.org",
        "ada.smith&#64;example.org",
        "ada.smith&#x40;example&#x2e;org",
        "ada.smith&commat;example&period;org",
        "ada.smith&#64example.org",
        "ada.smith&amp;#64;example.org",
        "ada.smith%40example.org",
        "ada.smith%2540example.org",
        "ada.smith\\u0040example.org",
        "ada.smith\\\\u0040example.org",
        "ada.smith\\x40example.org",
        "**ada.smith**@example.org",
        "ada.smith@**example.org**",
        "`ada.smith`@`example.org`",
        "_ada.smith@example.org_",
        "ada\\.smith\\@example\\.org",
        "<b>ada.smith</b>@example.org",
        '<span class="name">ada.smith</span>@example.org',
        "ada.smith@<wbr>example.org",
        "ada.smith@[example.org](http://example.org)",
        "ada.smith [at] example [dot] org",
        "ada.smith(at)example(dot)org",
        "ada.smith@example[.]org",
        "ada.smith\uff20example\uff0eorg",
        "ada.smith@example\u3002org",
        "ada.\u00adsmith@\u200bexample.org",
        "a\u2060da.smith@example.org",
    ],
    ("credit_card", CARD): [
        "4111\u00a01111\u00a01111\u00a01111",
        "4111\u20091111\u20091111\u20091111",
        "4111\u202f1111\u202f1111\u202f1111",
        "4111\u30001111\u30001111\u30001111",
        "4111\u20131111\u20131111\u20131111",
        "4111\u20141111\u20141111\u20141111",
        "4111\u20111111\u20111111\u20111111",
        "4111\u22121111\u22121111\u22121111",
        "4111  1111  1111  1111",
        "4111 - 1111 - 1111 - 1111",
        "4111 1111-1111 1111",
        "4111/1111/1111/1111",
        "4111\u00b71111\u00b71111\u00b71111",
        "4111\n1111\n1111\n1111",
        "4111 1111\n1111 1111",
        "4111 1111 1111\r\n1111",
        "4111-1111-\n1111-1111",
        "4111 1111\n> 1111 1111",
        "4111 1111\n        1111 1111",
        "4111\\ 1111\\ 1111\\ 1111",
        "4111 1111 \\n1111 1111",
        "4111\\u00a01111\\u00a01111\\u00a01111",
        "4111&nbsp;1111&nbsp;1111&nbsp;1111",
        "4111&nbsp1111&nbsp1111&nbsp1111",
        "4111&#8209;1111&#x2011;1111&ndash;1111",
        "4111%201111%201111%201111",
        "4111+1111+1111+1111",
        "4111%C2%A01111%C2%A01111%C2%A01111",
        "4111<br>1111<br/>1111<br />1111",
        "**4111** 1111 1111 1111",
        "4111 **1111** 1111 *1111*",
        "`4111` `1111` `1111` `1111`",
        "\uff14\uff11\uff11\uff11 \uff11\uff11\uff11\uff11 \uff11\uff11\uff11\uff11 \uff11\uff11\uff11\uff11",
        "\u0664\u0661\u0661\u0661 \u0661\u0661\u0661\u0661 \u0661\u0661\u0661\u0661 \u0661\u0661\u0661\u0661",
    ],
    ("credit_card", AMEX): ["3782\u00a0822463\u00a010005", "3782\u2013822463\u201310005", "3782 822463\n10005"],
    ("iban", IBAN): [
        "DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00",
        "DE89-3704-0044-0532-0130-00",
        "DE89\u20133704\u20130044\u20130532\u20130130\u201300",
        "DE89.3704.0044.0532.0130.00",
        "DE89+3704+0044+0532+0130+00",
        "DE 89 3704 0044 0532 0130 00",
        "DE89  3704  0044  0532  0130  00",
        "DE89 3704 0044\n0532 0130 00",
        "DE89&nbsp;3704&nbsp;0044&nbsp;0532&nbsp;0130&nbsp;00",
        "DE89%203704%200044%200532%200130%2000",
        "DE89\\u00a03704\\u00a00044\\u00a00532\\u00a00130\\u00a000",
        "**DE89** 3704 0044 0532 0130 00",
    ],
    ("phone", FRENCH): [
        "01\u00a099\u00a000\u00a012\u00a034",
        "01\u202f99\u202f00\u202f12\u202f34",
        "01  99  00  12  34",
        "01\u201399\u201300\u201312\u201334",
        "01-99-00-12-34",
        "01\u00b799\u00b700\u00b712\u00b734",
        "01 99 00\n12 34",
        "01&nbsp;99&nbsp;00&nbsp;12&nbsp;34",
    ],
    ("phone", GERMAN): [
        "+49\u201130\u201123125\u2011012",
        "+49\u00a030\u00a023125\u2013012",
        "%2B49%2030%2023125%20012",
        "\\+49 30 23125\\-012",
        "+49 30\n23125 012",
        "+49 **30** 23125 012",
        "0049\u200930\u200923125\u2009012",
    ],
    ("phone", AMERICAN): [
        "+1\u00a0202\u2011555\u20110123",
        "+1\u00a0(202)\u00a0555\u20130123",
        "\uff0b1 202 555 0123",
        "+1 202-555-\n0123",
    ],
    ("ip", ADDRESS): [
        "192[.]0[.]2[.]17",
        "192(dot)0(dot)2(dot)17",
        "192.0.2[.]17",
        "192\\.0\\.2\\.17",
        "192&#46;0&#46;2&#46;17",
        "192%2E0%2E2%2E17",
        "**192.0**.2.17",
        "\uff11\uff19\uff12.0.2.17",
    ],
    ("mac_address", "00005E005301"): [
        "00\u201100\u20115E\u201100\u201153\u201101",
        "00\u201300\u20135e\u201300\u201353\u201301",
        "00&#58;00&#58;5e&#58;00&#58;53&#58;01",
        "00%3A00%3A5e%3A00%3A53%3A01",
    ],
}
SAMPLES = [(type_, key, form) for (type_, key), forms in FORMS.items() for form in forms]
URLS = [
    "https:\\/\\/example.org\\/me",
    "https%3A%2F%2Fexample.org%2Fme",
    "hxxps://example[.]org/me",
    "https[:]//example.org/me",
    "https&colon;//example.org/me",
    "https://example.org/a%20b?c=%40&lt=1",
]


def forms(text: str) -> list[str]:
    return [text[found.start : found.end] for found in find_pii(text)]


@pytest.mark.parametrize(("type_", "key", "form"), SAMPLES)
def test_a_form_is_found_as_a_whole(type_: PiiType, key: str, form: str) -> None:
    for around in ("It is {}, thanks.", "<p>{}</p>", "| {} |", "**{}**", "\u00bb{}\u00ab", "x\n{}\nx"):
        text = around.format(form)
        [found] = find_pii(text)
        assert (found.type, text[found.start : found.end], found.typed or found.value) == (type_, form, form)
        assert found.key == key


@pytest.mark.parametrize("form", URLS)
def test_an_address_of_the_web_is_found_as_a_whole(form: str) -> None:
    assert forms(f"It is {form} now") == [form]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # Each is one, in lists, in rows, and beside what belongs to it.
        (f"{CARD}\n5555555555554444", [CARD, "5555555555554444"]),
        ("4111 1111 1111 1111\n5555 5555 5555 4444", ["4111 1111 1111 1111", "5555 5555 5555 4444"]),
        ("4111 1111 1111 1111 123", ["4111 1111 1111 1111"]),
        ("4111 1111 1111 1111 12/28", ["4111 1111 1111 1111"]),
        ("4111 1111 1111 1111\n737 items", ["4111 1111 1111 1111"]),
        ("+49 30 23125 012\n12 apples", ["+49 30 23125 012"]),
        ("+1 202 555 0123\n17 +1 202 555 0124", ["+1 202 555 0123", "+1 202 555 0124"]),
        ("+1 202 555 0123 42 EUR", ["+1 202 555 0123"]),
        ("202-555-0123\n202-555-0124", ["202-555-0123", "202-555-0124"]),
        ("01 99 00 12 34\n01 99 00 12 35", ["01 99 00 12 34", "01 99 00 12 35"]),
        ("| 192.0.2.1 | 192.0.2.2 |", ["192.0.2.1", "192.0.2.2"]),
        ("ada@example.org\u2013bob@example.org", ["ada@example.org", "bob@example.org"]),
        ("Mail\u2014ada@example.org", ["ada@example.org"]),
        ('{"a": "x\\nada@example.org\\n"}', ["ada@example.org"]),
        ("to%20ada@example.org%20now", ["ada@example.org"]),
        ("[ada@example.org](mailto:ada@example.org)", ["ada@example.org"] * 2),
        ("root@192.0.2.17", ["root@192.0.2.17"]),
        ("030 123456 030 654321", ["030 123456", "030 654321"]),
        ("0049 30 123456 0049 30 123457", ["0049 30 123456", "0049 30 123457"]),
        ("0800 123 456 0800-1234567", ["0800 123 456", "0800-1234567"]),
        ("+33 6 12 34 56 78 06.12.34.56.78", ["+33 6 12 34 56 78", "06.12.34.56.78"]),
    ],
)
def test_values_stay_apart_from_what_stands_beside_them(text: str, found: list[str]) -> None:
    assert forms(text) == found


PLAIN = "Order (no. 17), on 2026-11-23 at 12:30:\n1.  21.50 EUR + 5 % - call 202-555-0123 <ada@example.org> & ask.\n"
HARMLESS = [
    # Numbers in rows and columns: four fours that pass a card's check, but with more of them around.
    "4111\n1111\n1111\n1111\n1111",
    "1234\n4111\n1111\n1111\n1111",
    "4111 1111\n1111 1111\n1111 1111",
    "| 4111 | 1111 | 1111 | 1111 |",
    "- 4111\n- 1111\n- 1111\n- 1111",
    "1. 4111\n2. 1111\n3. 1111\n4. 1111",
    "4111\n\n1111\n\n1111\n\n1111",
    "4111,1111,1111,1111",
    "41111111\n11111111",
    "41111111 11111111",
    "<td>4111</td><td>1111</td><td>1111</td><td>1111</td>",
    "2019\n2020\n2021\n2024",
    "030 1234\n030 1235\n030 1236",
    "0170\n1234567",
    "01\n99\n00\n12\n34",
    "06 12 34\n56 78 90",
    "202\n555\n0123",
    "100 200\n3000",
    # Dates and times.
    "01-12-2023 10:30",
    "2024-01-02 - 2024-03-04 and 2024-01-02 1234 5678",
    "05/06/2024 12",
    "2026\u201111\u201123 12:30:45.123456",
    "2026-11-23T12:30:45.123456789Z",
    "20261123T123045Z",
    "12:30:45",
    # Amounts and counts.
    "+1 000 000 users",
    "1\u202f000\u202f000\u202f000 \u20ac",
    "0.0123456789 and 3.1415926535897932",
    "1700000000000 and 1700000000000000",
    # Numbers of orders, things and versions.
    "ticket 0012345678",
    "order 123456789012",
    "ISBN 978-3-16-148410-0",
    "12345678-0123-4567-8901-234567890123",
    "550e8400-e29b-41d4-a716-446655440000",
    "v1.2.3.4, version 1.2.3.4, Version: 10.0.0.1 and 1.2.3.4.5",
    "lodash@4.17.21 and react@18.2.0",
    "sections 1. 2. 3. 4",
    # Letters that are A to Z to none but a search that ignores case.
    "T\u00fcrkiye'de 15 y\u0131l sonra gelen adam ile konu\u015ftum",
    f"DE89{18 * chr(0x17F)}",
    # Code.
    "0x4111111111111111 and 0170 * 1234567",
    "std::vector, a::b and x[a::b]",
    "``sys.stdout``/``sys.stderr``, ``-std=c23``:: and http://{at}",
    "x = 1.2**3.4.5 * 10",
    "re.compile(r'\\d+[.]\\d+') and a[at] and f(at).b",
    "C:\\temp\\new\\x40.txt and %d%s%20 and &copy; &#8364;5",
    "printf('%4111 %1111')",
    "meet (at) 5.30, or (dot) it",
    "4111 1111 1111 1112 and DE88-3704-0044-0532-0130-00",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_like_a_value_is_left(text: str) -> None:
    assert forms(text) == []


def test_a_text_without_escapes_and_typography_is_searched_once() -> None:
    plain = decoded(PLAIN)
    assert set_plainly(plain) is plain and plain.text is PLAIN


@pytest.mark.parametrize(
    "unit",
    [
        "&#64;", "%40", "%", "&", "&a", "&amp;amp;", "\\u0040", "\\", "\\\\n", "<br>", "*", "**a", "**a@b.c", "a_", "_",
        "`", "~~", "<b>", "<b ", "[a", "[a](", "](", "](b)", "(at)", " (", "hxxp", "\u0301", "a\u0301", "\u2013",
        "1\u2013", "4111\u2013", "4111\n", "4111 1111\n", "4111-\n> ", "DE89\n", "+49 1\n", "01 99\n", "0170 1\n",
        "(202)\n",
    ],
)  # fmt: skip
def test_reading_takes_time_that_grows_with_the_length_only(unit: str) -> None:
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        return cpu_s(lambda: find_pii(text))

    # A search in quadratic time would take 64 times as long for the text that is eight times as long, each time.
    assert any(seconds(65_536) < 30 * max(seconds(8_192), 0.005) for _ in range(3))
