"""What an event of a provider's stream costs a client in CPU, by API, by the way it is read, and by HTTP transport.

`make bench-streams`: each row is measured in turn with the others, in this process, on a provider in another one. The
row of aiohttp needs `pip install aiohttp`, which the product does not use.
"""

import importlib.util
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import results
import servers
import uvloop
from figures import median
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from openai import DefaultAioHttpClient

from agentic_backend.agents.provider_streams.fast_streams import with_fast_streams

EVENTS, ANSWERS, ROUNDS = 200, 20, 7
AIOHTTP = "chat completions, aiohttp"
TITLE = "Events of providers' streams"


def completions(address: str, **options: object) -> BaseChatModel:
    options = {"model": "recorded", "api_key": "-", "base_url": f"{address}/v1", "use_responses_api": False} | options
    return ChatOpenAI.model_validate(options)


def responses(address: str) -> BaseChatModel:
    return completions(address, use_responses_api=True)


def messages(address: str) -> BaseChatModel:
    tool = {"name": "look_up", "input_schema": {"type": "object"}}
    options = {"model": "recorded", "api_key": "-", "base_url": address, "model_kwargs": {"tools": [tool]}}
    return ChatAnthropic.model_validate(options)


def models(address: str) -> Mapping[str, BaseChatModel]:
    """By the name of its row."""
    found = {
        "chat completions, ordinary": completions(address),
        "chat completions": with_fast_streams(completions(address)),
        "chat completions, a connection for each answer": with_fast_streams(completions(f"{address}/close")),
        "Responses, ordinary": responses(address),
        "Responses": with_fast_streams(responses(address)),
        "Messages, ordinary": messages(address),
        "Messages": with_fast_streams(messages(address)),
    }
    if importlib.util.find_spec("aiohttp"):
        found[AIOHTTP] = with_fast_streams(completions(address, http_async_client=DefaultAioHttpClient()))
    return found


async def cost_us(model: BaseChatModel) -> float:
    """CPU of this process for each event, with LangChain's share."""
    began = time.process_time()
    for _ in range(ANSWERS):
        async for _chunk in model.astream("?"):
            pass
    return (time.process_time() - began) / ANSWERS / EVENTS * 1e6


async def measure(address: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    built = models(address)
    for round_number in range(ROUNDS + 1):
        for name, model in built.items():
            cost = await cost_us(model)
            # The first round imports and connects.
            if round_number:
                found.setdefault(name, []).append(cost)
    if aiohttp := built.get(AIOHTTP):
        await aiohttp.root_async_client.close()  # type: ignore[attr-defined]
    return {name: median(costs) for name, costs in found.items()}


def report(found: Mapping[str, float]) -> str:
    rows = "\n".join(f"| {name} | {cost:.0f} |" for name, cost in found.items())
    packages = ", ".join(f"{name} {version(name)}" for name in ("langchain-openai", "openai", "langchain-anthropic"))
    return f"""\
`make bench-streams` on {datetime.now(UTC):%Y-%m-%d}, {packages}: medians of {ROUNDS} rounds, {EVENTS} events an \
answer, one answer after the other, LangChain's part included. *Ordinary* is the package's own way; the others are \
read as the product does.

| stream | CPU µs/event |
|---|---|
{rows}

aiohttp's transport is not taken. It is some 20 µs cheaper, as it reads HTTP in C, but in OpenAI's package it tells a \
connection that the provider has closed as a timeout, which people would be told and retries would go by; its \
connections belong to one event loop; and it would bring eight packages. Keeping connections saves what a new one \
costs: on loopback next to nothing, elsewhere two or three round trips for each call.
"""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, servers.recorded_provider(Path(name), EVENTS) as server:
        results.put(report(uvloop.run(measure(server.address))), TITLE)
