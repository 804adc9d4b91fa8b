"""The secrets that are known by value: of the environment and of the settings, wherever they stand."""

from typing import Any

import pytest

from agentic_backend.disclosure.known_secrets import secrets_in, secrets_of

KEY = "quokkazorblax"


@pytest.mark.parametrize(
    "settings",
    [
        {"options": {"api_key": KEY}},
        {"options": {"default_headers": {"X-Gateway": f"Bearer {KEY}"}}},
        {"options": {"default_query": {"gate": KEY}}},
        {"options": {"base_url": f"https://ann:{KEY}@example.org/v1"}},
        {"options": {"base_url": f"https://example.org/v1?gate={KEY}"}},
        {"store": {"url": f"mongodb://ann:{KEY}@example.org/chat"}},
        {"broadcast": {"url": f"redis://:{KEY}@example.org/0"}},
        {"tracing": {"headers": {"X-Any": KEY}}},
        {"auth": {"keycloak": {"client_secret": KEY}}},
        {"mcp_servers": {"desk": {"env": {"PLACE": KEY}}}},
        {"mcp_servers": {"desk": {"auth": {"environment": "DESK_BADGE"}}}},
        {"mcp_servers": {"desk": {"args": ["--api-key", KEY]}}},
        {"mcp_servers": {"desk": {"args": (f"--token={KEY}",)}}},
        {"mcp_servers": {"desk": {"args": [f"https://example.org/?gate={KEY}"]}}},
        {"options": {"fallbacks": [{"api_key": KEY}]}},
    ],
)
def test_a_secret_of_the_settings_is_known(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_BADGE", f"Token {KEY}")
    assert KEY in secrets_in(settings)


def test_the_path_of_a_base_url_is_known_as_a_whole_since_gateways_have_keys_there() -> None:
    url = f"https://example.org/{KEY}/v1/"
    assert f"/{KEY}/v1" in secrets_in({"options": {"base_url": url}})
    assert f"/{KEY}/v1" in secrets_of({"OPENAI_BASE_URL": url})
    assert secrets_in({"keycloak": {"realm_url": "https://login.example.org/realms/agentic"}}) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"log": {"level": "information"}},
        {"models": {"default": {"model": "openai:gpt-5.4-mini", "context_tokens": 200_000}}},
        {"mcp_servers": {"desk": {"env": {"HOME": "/home/desk", "PORT": "8080123"}, "args": ["--port", "8080123"]}}},
        {"mcp_servers": {"desk": {"permissions": {"lookup_token": ["desk.read"]}}}},
        {"options": {"api_key": "short"}},
    ],
)
def test_what_is_no_secret_is_not_taken_for_one(settings: dict[str, Any]) -> None:
    assert secrets_in(settings) == []


def test_the_longest_come_first_since_one_may_be_a_part_of_another() -> None:
    assert secrets_in({"api_key": KEY, "token": f"{KEY}-2"}) == [f"{KEY}-2", KEY]
