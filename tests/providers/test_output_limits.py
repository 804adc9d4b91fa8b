"""The limits of titles and summaries reach the provider, whatever its API calls them; answers have none of them."""

import asyncio
from pathlib import Path

import yaml
from support.chat_client import chat
from support.providers.model_server import ModelServer, Received
from support.running_server import running_server

_THOUGHTS = 16_384


def limit(request: Received) -> int | None:
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    [found] = [request.body[name] for name in names if name in request.body] or [None]
    return found


async def test_titles_and_summaries_are_limited(provider: ModelServer, model: str, tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(yaml.safe_dump({"profiles": {"default": {"max_history_turns": 1}}}))
    settings = {"models": {"default": {"model": model}}, "chat_profiles": {"file": str(profiles)}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address) as client:
        [first, *_] = await client.ask("hello")
        await client.ask("and now", session_id=first["session_id"])
        async with asyncio.timeout(10):
            while not (summaries := [one for one in provider.received if "summarise" in one.asked.system]):
                await asyncio.sleep(0.01)
    assert {limit(one) for one in summaries} == {500 + _THOUGHTS}
    assert {limit(one) for one in provider.received if one.wants_title} == {200 + _THOUGHTS}
    answers = {limit(one) for one in provider.asked if one not in summaries}
    assert answers.isdisjoint({500 + _THOUGHTS, 200 + _THOUGHTS})
