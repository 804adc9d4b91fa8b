"""Runs of AG-UI on servers of their own: with modules that change an answer, and over a restart."""

from pathlib import Path

import yaml
from support.hostile_modules import entry
from support.running_server import running_server
from transports.ag_ui.test_protocol import NAME, run

THINKING = {"id": "thinking", "class_path": "support.openai_agents:thinking"}


async def test_what_a_module_has_changed_is_put_right_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry(settings={"after": "redact"})]}))
    settings = {"modules": {"file": str(file)}, "server": {"port": 0, "doors": ["ag-ui"]}}
    async with running_server(tmp_path, agents=[THINKING], settings=settings) as server:
        _, events = await run(server, "ann", "thinking")
    [snapshot] = [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert [(each["role"], each["content"]) for each in snapshot["messages"]] == [
        ("user", "hello"),
        ("reasoning", "my ***"),
        ("assistant", "a ***"),
    ]


async def test_an_interrupt_of_before_a_restart_is_answered_after_it(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[NAME]) as server:
        _, events = await run(server, "ann", "name")
    [interrupt] = events[-1]["outcome"]["interrupts"]
    async with running_server(tmp_path, agents=[NAME]) as server:
        _, events = await run(server, "ann", "name", runId="r2", messages=[])
        assert events[-1]["outcome"]["interrupts"] == [interrupt]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "Ann"}]
        _, events = await run(server, "ann", "name", runId="r3", messages=[], resume=resume)
    texts = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert texts == ['You said "Ann"'] and events[-1]["outcome"] == {"type": "success"}
