"""A provider's refusals, as providers word them: each says who can mend it, and whether to try again."""

from pathlib import Path
from typing import Any

import pytest
from support.chat_client import Event, chat, check_exchange, final_text
from support.providers.model_server import ModelServer
from support.providers.reply import Reply
from support.running_server import running_server

OPENAI, ANTHROPIC = "openai:gpt-5.4-mini", "anthropic:claude-sonnet-5-5"


def openai(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


KEY = openai("Incorrect API key provided: sk-of-t***cdef.", "invalid_request_error", "invalid_api_key")
NO_MODEL = openai("The model `gpt-9` does not exist or you do not have access to it.", "x", "model_not_found")
QUOTA = openai(
    "You exceeded your current quota, please check your plan and billing details.", "x", "insufficient_quota"
)
RATE = openai("Rate limit reached for gpt-5.4-mini: Limit 3, Used 3 per minute.", "requests", "rate_limit_exceeded")
TOO_LONG = openai("This model's maximum context length is 400000 tokens.", "x", "context_length_exceeded")
FILTERED = openai("The response was filtered by the content management policy.", "x", "content_filter")
TOO_LONG_FOR_CLAUDE = anthropic("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum")
POOR = anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")
BLOCKED = anthropic("invalid_request_error", "Output blocked by content filtering policy")


@pytest.mark.parametrize(
    ("model", "status", "body", "code", "attempts"),
    [
        (OPENAI, 401, KEY, "model_refused_key", 1),
        (OPENAI, 404, NO_MODEL, "model_not_found", 1),
        (OPENAI, 403, NO_MODEL, "model_not_found", 1),
        (OPENAI, 429, QUOTA, "model_quota", 1),
        (OPENAI, 429, RATE, "model_error", 3),
        (OPENAI, 400, TOO_LONG, "context_too_long", 1),
        (OPENAI, 400, FILTERED, "content_filtered", 1),
        (OPENAI, 503, openai("The server is overloaded.", "server_error"), "model_error", 3),
        (ANTHROPIC, 401, anthropic("authentication_error", "invalid x-api-key"), "model_refused_key", 1),
        (ANTHROPIC, 404, anthropic("not_found_error", "model: claude-9"), "model_not_found", 1),
        (ANTHROPIC, 400, POOR, "model_quota", 1),
        (ANTHROPIC, 429, anthropic("rate_limit_error", "50 requests per minute"), "model_error", 3),
        (ANTHROPIC, 400, TOO_LONG_FOR_CLAUDE, "context_too_long", 1),
        (ANTHROPIC, 400, BLOCKED, "content_filtered", 1),
        (ANTHROPIC, 529, anthropic("overloaded_error", "Overloaded"), "model_error", 3),
    ],
)
async def test_a_refusal_has_its_code_and_is_tried_again_only_where_that_helps(
    provider: ModelServer, tmp_path: Path, model: str, status: int, body: dict[str, Any], code: str, attempts: int
) -> None:
    provider.reply = lambda messages: Reply(status=status, refusal=body)
    events = await failed(tmp_path, model)
    error = events[-1]["error"]
    assert error["code"] == code
    assert error["retryable"] is (code == "model_error")
    assert error["whose"] == ("client" if code in ("context_too_long", "content_filtered") else "external")
    assert f"'{model.partition(':')[2]}'" in error["content"], "the model is named"
    assert "sk-" not in str(events)
    assert len(provider.asked) == attempts


async def test_a_rate_limit_says_when_to_come_back(provider: ModelServer, tmp_path: Path) -> None:
    provider.reply = lambda messages: Reply(status=429, refusal=RATE, headers={"retry-after": "17"})
    events = await failed(tmp_path, OPENAI, max_retries=0)
    assert events[-1]["error"]["retry_after_s"] == 17
    assert "in 17 seconds" in events[-1]["error"]["content"]


async def test_a_provider_that_is_not_there_is_told_as_such(
    tmp_path: Path, provider: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    events = await failed(tmp_path, OPENAI, max_retries=0)
    assert events[-1]["error"]["code"] == "model_error"
    assert "can't be reached" in events[-1]["error"]["content"]


@pytest.mark.parametrize(("reason", "told"), [("content_filter", "content_filter"), (None, "other")])
async def test_an_answer_that_a_filter_cut_or_that_has_no_end_says_so(
    provider: ModelServer, tmp_path: Path, reason: str | None, told: str
) -> None:
    provider.reply = lambda messages: Reply("one two", finish_reason=reason)
    async with served(tmp_path, OPENAI) as server, chat(server.address) as client:
        events = await client.ask("hello")
    check_exchange(events)
    assert final_text(events) == "one two"
    assert events[-1]["messages"][-1]["metadata"]["finish_reason"] == told


def served(directory: Path, model: str, **options: Any) -> Any:
    return running_server(directory, settings={"models": {"default": {"model": model, "options": options}}})


async def failed(directory: Path, model: str, **options: Any) -> list[Event]:
    """The events of an exchange that fails."""
    async with served(directory, model, **options) as server, chat(server.address) as client:
        events = await client.ask("hello")
    check_exchange(events)
    assert events[-1]["status"] == "error"
    return events
