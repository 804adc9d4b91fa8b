"""`llm-comply`, which checks answers in OpenAI's forms against the schemas of OpenAI and of Open Responses."""

import asyncio
import json
import sys

import pytest
from support.running_server import RunningServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PATIENCE_S = 120
# It wants a call of a function that it brings; an agent calls its own.
_TOOLS = {"chat-tool-calling", "tool-calling"}
# A history is compacted by its session's chat profile; there is no such call.
_COMPACTION = {"compact-response", "compact-missing-model"}
# It asks for these only of models with certain names.
_REASONING = {"chat-reasoning-summary", "reasoning-summary"}


@pytest.mark.parametrize("form", ["openai-chat", "open-responses"])
async def test_all_that_an_agent_can_do_complies(server: RunningServer, form: str) -> None:
    target = ["--base-url", f"{server.address}/v1", "--api-key", "dev:comply", "--model", "assistant"]
    checking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "llm_comply.cli", "--format", form, "--json", *target), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_PATIENCE_S):
        out, _ = await checking.communicate()
    results = {each["id"]: each["status"] for each in json.loads(out)["results"]}
    assert {name for name, status in results.items() if status == "failed"} == (_TOOLS | _COMPACTION) & results.keys()
    assert {name for name, status in results.items() if status == "skipped"} == _REASONING & results.keys()
    assert len(results) == {"openai-chat": 9, "open-responses": 13}[form]
