"""`new-agent` from the command line, in an empty folder: the test that it writes passes, and the agents answer."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from support.chat_client import chat, final_text
from support.further_cases import further
from support.server_process import PATIENCE_S, command, serving

from agentic_backend.new_agent.templates import TEMPLATES


async def new_agent(folder: Path, name: str, template: str) -> str:
    async with command("new-agent", name, "--template", template, cwd=folder) as process:
        assert await process.ended() == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("templates", [TEMPLATES, *(further((each,), id=each) for each in TEMPLATES)])
async def test_the_written_test_passes_at_once(templates: tuple[str, ...], tmp_path: Path) -> None:
    files = []
    for template in templates:
        told = await new_agent(tmp_path, f"help-{template.replace('_', '-')}", template)
        files.append(f"test_help_{template}.py")
        assert f"python -m pytest {files[-1]}" in told
    tests = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "pytest", "-v", "-p", "no:schemathesis", *files],
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(2 * PATIENCE_S):
            output, _ = await tests.communicate()
    finally:
        if tests.returncode is None:
            tests.kill()
            await tests.wait()
    assert tests.returncode == 0, output.decode()
    assert all(re.search(rf"^{re.escape(file)}::.* PASSED", output.decode(), re.MULTILINE) for file in files)


async def test_the_agents_are_valid_and_answer(tmp_path: Path) -> None:
    for name, template in [("diary", "yaml"), ("words", "create_agent"), ("mailer", "approval")]:
        await new_agent(tmp_path, name, template)
    async with command("validate", cwd=tmp_path) as process:
        assert await process.ended() == 0, process.stdout + process.stderr
    assert process.stdout.startswith("3 agents can be served, 0 problems\n")
    async with serving("--data", tmp_path / "data", cwd=tmp_path) as server, chat(server.address) as client:
        events = await client.ask('call create_note(title="Milk", text="two litres")', agent_id="diary")
        assert "Milk" in str([event for event in events if event["type"] == "stream"])
        assert "3" in final_text(await client.ask('call word_count(text="one two three")', agent_id="words"))
        await client.send({"message": 'call send_mail(to="ann@example.org", text="Hi")', "agent_id": "mailer"})
        waiting = await client.until("awaiting_human")
        assert [request["name"] for request in waiting["payload"]["requests"]] == ["send_mail"]
