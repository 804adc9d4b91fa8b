"""Which keys name a credential, and what remains of a URL."""

import pytest

from agentic_backend.redaction import credential_in, without_paths

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
