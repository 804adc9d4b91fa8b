"""What modules change of an answer, as AG-UI's clients get it."""

from pathlib import Path

import yaml
from support.hostile_modules import entry
from support.running_server import running_server
from transports.ag_ui.test_protocol import run

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
