"""The module of docs/policy.md is loaded from a file, and does what the page says."""

import re
from pathlib import Path

import pytest
import yaml
from support.chat_client import chat, check_exchange, final_text
from support.running_server import running_server

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()


async def test_the_module_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"## Writing a module\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / "my_page_module.py").write_text(code)
    entry = {"name": "no-shouting", "class_path": "my_page_module:NoShouting", "settings": {"longest": 5}}
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry]}))
    async with running_server(tmp_path, settings={"modules": {"file": str(file)}}) as server:
        async with chat(server.address) as client:
            events = await client.ask("TELL ME ALL NOW")
            check_exchange(events)
            assert (events[-1]["status"], final_text(events)) == ("blocked", "Please don't shout.")
            events = await client.ask("tell me all now")
            assert events[-1]["status"] == "ok"
