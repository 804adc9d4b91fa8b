"""Which keys name a credential, what remains of a URL, and in which forms a known secret is found."""

import html
import json
from urllib.parse import quote, quote_plus, urlencode

import pytest
from pydantic import TypeAdapter, ValidationError
from support.cpu_time import takes_at_most

from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.disclosure.redaction import credential_in, redact, redacted, without_paths

CREDENTIALS = [
    "token",
    "accessToken",
    "ACCESS_TOKEN",
    "refresh-token",
    "tokens",
    "admin_tokens",
    "password",
    "PassWord2",
    "pwd",
    "passphrase",
    "client_secret",
    "secrets",
    "Authorization",
    "authorisation",
    "api_key",
    "apiKey",
    "X-API-Key",
    "private key",
    "session_id_cookie",
    "Set-Cookie",
    "credentials",
    "bearer",
    "jwt",
    "auth",
    "ｔｏｋｅｎ",  # noqa: RUF001
    "tokenizer_secret",
]
OTHERS = ["page", "key", "keyboard", "author", "max_tokens", "token_count", "tokenizer", "monkey", "locale", "", "1"]


@pytest.mark.parametrize("key", CREDENTIALS)
def test_a_key_that_names_a_credential_is_found_wherever_it_stands(key: str) -> None:
    for context in ({key: "x"}, {"a": {key: 5}}, {"a": [None, [{"b": 1, key: ["x"]}]]}):
        assert credential_in(context) == key


@pytest.mark.parametrize("key", CREDENTIALS)
def test_what_is_no_value_is_no_credential(key: str) -> None:
    assert credential_in({key: None}) is None and credential_in([{key: True}]) is None


@pytest.mark.parametrize("key", OTHERS)
def test_other_keys_are_not_taken_for_one(key: str) -> None:
    assert credential_in({key: "token", "b": ["password"]}) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('POST https://h:80/key/v1?k=v "HTTP/1.1 200"', 'POST https://h:80/… "HTTP/1.1 200"'),
        ("for url 'https://h/key/v1'", "for url 'https://h/…'"),
        ("redis://:pw@h:1/0 and http://h", "redis://:pw@h:1/… and http://h"),
        ("no URL: a/b, c://", "no URL: a/b, c://"),
    ],
)
def test_urls_of_other_packages_end_behind_their_host(text: str, told: str) -> None:
    assert without_paths(text) == told


SECRET = 'quokka"berry/pl&nth gaze+zörbl<x>'
LONG = "quokkaberry" + "x1y2z3" * 10 + "plinthgaze"
KNOWN = secrets_in({"api_key": SECRET, "token": LONG})


def pydantics(value: object) -> str:
    """What pydantic says of a wrong value, of which it shows 50 characters."""
    try:
        TypeAdapter(int).validate_python(value)
    except ValidationError as error:
        return str(error)
    raise AssertionError


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(pydantics(LONG), id="pydantic"),
        pytest.param(pydantics({"n": 1, "to": LONG}), id="pydantic, in a mapping"),
        pytest.param(pydantics(f"https://ann:{LONG}@example.org/v1/chat"), id="pydantic, in a URL"),
        pytest.param(f"'{LONG[:4]}...{LONG[-3:]}'", id="few characters at each end"),
        pytest.param(f"{LONG[:12]}…", id="its beginning alone"),
        pytest.param(f"......{LONG[-9:]}", id="its end alone"),
        pytest.param(json.dumps({"a": SECRET}), id="JSON"),
        pytest.param(json.dumps(json.dumps(SECRET)), id="JSON in JSON"),
        pytest.param(json.dumps(SECRET, ensure_ascii=False).replace("/", "\\/"), id="JSON with an escaped slash"),
        pytest.param(repr([SECRET + "'"]), id="Python"),
        pytest.param(html.escape(SECRET), id="HTML"),
        pytest.param("".join(f"&#{ord(each)};" for each in SECRET), id="HTML's numbers"),
        pytest.param(f"https://ann:{quote(SECRET, safe='')}@example.org/", id="the userinfo of a URL"),
        pytest.param(f"https://example.org/?{urlencode({'q': SECRET})}&page=2", id="the query of a URL"),
        pytest.param(f"https://example.org/?next={quote('/?q=' + quote(SECRET))}", id="a URL in a URL"),
        pytest.param(quote_plus(SECRET).lower(), id="percent-encoded in small letters"),
        pytest.param(html.escape(json.dumps({"url": quote(SECRET)})), id="HTML of JSON of a URL"),
        pytest.param(quote(f"'{LONG[:12]}...{LONG[-12:]}'", safe=""), id="cut and percent-encoded"),
    ],
)
def test_a_known_secret_is_found_in_every_form(text: str) -> None:
    told = redact(text, KNOWN)
    assert "[redacted]" in told
    assert "quokka" not in told.lower() and "x1y2" not in told and "gaze" not in told


@pytest.mark.parametrize(
    "text",
    [
        "wait ... and see…",
        "quokk... berries",
        "...",
        "abc...xyz",
        "100% of a\\b & c",
        "%71 &amp; \\u0071",
        "quo...ze is five",
    ],
)
def test_what_has_no_secret_stays_as_it_is_to_the_letter(text: str) -> None:
    assert redact(text, KNOWN) == text


@pytest.mark.parametrize(
    "text",
    [
        "key sk-abcdefghijkl...mnopqrstuvwx is bad",
        "key AIzaaaaaaaaaaaaaaaaaaaaa…mnopqrstuvwx is bad",
        "key eyJhbGciOiJIUzI1NiIs...mnopqrstuvwx is bad",
    ],
)
def test_what_looks_like_a_secret_is_redacted_though_it_is_cut(text: str) -> None:
    assert redact(text) == "key [redacted] is bad"


def test_what_looks_like_a_secret_is_redacted_where_escapes_hide_it() -> None:
    told = json.dumps(json.dumps({"headers": "first: 1\nauthorization: quokkaberry", "password": "quokkaberry"}))
    assert "quokka" not in redact(told)


def test_what_has_no_text_is_told_by_its_class() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError

    assert redacted([Silent(), {Silent(): 1}, "a"]) == ["<Silent>", "<dict>", "a"]


@pytest.mark.parametrize(
    "part", ["quo...", "...aze", "quo", "%71uo...", "\\u0071", "&#113;", "%2571", "eyJa...", "sk-abcdefgh...", "…"]
)
def test_no_text_takes_long_to_be_searched_for_known_secrets(part: str) -> None:
    text = (part * (40_000 // len(part) + 1))[:40_000]
    known = [*KNOWN, *(f"quo{number:030}aze" for number in range(20))]
    # Two tenths of a second; what is quadratic takes minutes.
    assert takes_at_most(2, lambda: redact(text, known))


def test_many_ellipses_in_a_long_text_do_not_take_long() -> None:
    text = "… " * 500_000
    # Half a second; what is quadratic takes ten.
    assert takes_at_most(4, lambda: redact(text, KNOWN))
