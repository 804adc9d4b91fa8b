"""Each provider is told of the call and the trace that a request belongs to, by a proxy too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.chat_client import chat, final_text
from support.providers.model_server import ModelServer
from support.providers.reply import Reply
from support.running_server import RunningServer, running_server

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NAMED = {"X-Request-Id": "order-17", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


def check(headers: dict[str, str]) -> None:
    assert headers["x-request-id"] == "order-17"
    assert headers["traceparent"].startswith(f"00-{TRACE}-") and headers["traceparent"] != NAMED["traceparent"]


async def test_each_provider_gets_the_ids(provider: ModelServer, model: str, server: RunningServer) -> None:
    async with chat(server.address, additional_headers=NAMED) as client:
        assert final_text(await client.ask("hello")) == "You said: hello"
    check(provider.asked[0].headers)


@pytest.mark.parametrize("named_by", ["option", "variable"])
async def test_behind_openais_own_proxy_option_the_ids_and_the_bounds_are_there_too(
    provider: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    # A proxy is asked for whole URLs; this one answers for the provider, which nobody could find.
    monkeypatch.setenv("OPENAI_BASE_URL", "http://provider.invalid/v1")
    options = {"max_retries": 0}
    if named_by == "option":
        options["openai_proxy"] = provider.url  # type: ignore[assignment]
    else:
        monkeypatch.setenv("OPENAI_PROXY", provider.url)
    settings = {"models": {"default": {"model": "openai:gpt-5.4-mini", "options": options}}}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, additional_headers=NAMED) as client:
            assert final_text(await client.ask("hello")) == "You said: hello"
            provider.reply = lambda messages: Reply("x" * 20_000_000)
            assert (await client.ask("hello"))[-1]["error"]["code"] == "model_error"
    assert provider.asked[0].headers["host"] == "provider.invalid"
    check(provider.asked[0].headers)


async def test_google_gets_the_ids(tmp_path: Path) -> None:
    async with refusing() as (address, heads):
        options = {"base_url": address, "api_key": "none", "max_retries": 1}
        settings = {"models": {"default": {"model": "google_genai:gemini-3-flash", "options": options}}}
        async with running_server(tmp_path, settings=settings) as server:
            async with chat(server.address, additional_headers=NAMED) as client:
                assert (await client.ask("hello"))[-1]["status"] == "error"
    check(heads[0])


@asynccontextmanager
async def refusing() -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """A provider that refuses everything; its address, and the headers of each request."""
    heads: list[dict[str, str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = [line.partition(": ") for line in lines if line]
        heads.append({name.lower(): value for name, _, value in fields})
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
