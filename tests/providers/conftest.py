"""The shipped assistant on real clients of providers, against servers of the tests' that speak as theirs do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.providers.model_server import ModelServer, model_server
from support.running_server import RunningServer, running_server

from agentic_backend.agents.models import stream_retry

KEY = "sk-of-the-tests-0123456789abcdef"

# With tools, OpenAI's newer models are asked in another form than its older ones.
MODELS = {
    "completions": "openai:gpt-5.4-mini",
    "responses": "openai:gpt-6.1-terra",
    "anthropic": "anthropic:claude-sonnet-5-5",
}


@pytest.fixture(autouse=True)
def tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each package has delays of its own."""
    monkeypatch.setattr(stream_retry, "_FIRST_RETRY_S", 0.02)
    for package in ("openai", "anthropic"):
        monkeypatch.setattr(f"{package}._base_client.INITIAL_RETRY_DELAY", 0.02)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return MODELS[request.param]


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with model_server() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        yield provider


@pytest.fixture
async def server(
    provider: ModelServer, model: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[RunningServer]:
    """A parameter is the time that a model may be silent, in seconds."""
    settings = {"models": {"default": {"model": model}}, "limits": {"model_timeout_s": getattr(request, "param", 15)}}
    async with running_server(tmp_path, settings=settings) as server:
        yield server
