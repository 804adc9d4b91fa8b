"""`serve --reload`: a save that mends what a reload was refused for is seen, also where it makes a new file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.reloads import ASSISTANT, agents_at, catalog, console_says
from support.server_process import serving

GRAPH = "from agentic_backend.experts.plain_chat.graph import build\n"
IN_A_FOLDER = {"id": "new", "class_path": "rooms.desk:build"}
DEEPER = {"id": "new", "class_path": "rooms.back.desk.build"}
WITH_A_TOOL = {"id": "new", "description": "Adds.", "prompt": "Add.", "tools": ["rooms.adding:add"]}
WITH_A_PROMPT = {"id": "new", "description": "Greets.", "prompt": {"file": "prompts/greeting.md"}}
TOOL = 'def add(a: int, b: int) -> int:\n    """The sum."""\n    return a + b\n'


@pytest.mark.parametrize(
    ("entry", "refused", "file", "content"),
    [
        (IN_A_FOLDER, "no module named 'rooms'", "rooms/desk.py", GRAPH),
        (DEEPER, "no module named 'rooms'", "rooms/back/desk.py", GRAPH),
        (WITH_A_TOOL, "no module named 'rooms'", "rooms/adding.py", TOOL),
        (WITH_A_PROMPT, "this file can't be read", "prompts/greeting.md", "You greet people.\n"),
    ],
)
async def test_a_file_that_was_missing_is_seen_when_it_comes(
    tmp_path: Path, entry: dict[str, Any], refused: str, file: str, content: str
) -> None:
    catalog(tmp_path, ASSISTANT)
    async with serving("--reload", cwd=tmp_path) as server:
        catalog(tmp_path, ASSISTANT, entry)
        await console_says(server, refused)
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(content)
        await console_says(server, "Reloaded: added new\n")
        assert "new" in await agents_at(server.address)
        assert await server.stop() == 0


def with_a_mistake(folder: Path) -> None:
    (folder / "rooms").mkdir()
    (folder / "rooms/desk.py").write_text(GRAPH + "build = build(\n")


def with_a_mistake_beside_it(folder: Path) -> None:
    (folder / "rooms").mkdir()
    (folder / "rooms/desk.py").write_text("from rooms.parts import build\n")


@pytest.mark.parametrize(
    ("write", "mended"), [(with_a_mistake, "rooms/desk.py"), (with_a_mistake_beside_it, "rooms/parts.py")]
)
async def test_what_could_not_be_imported_at_the_start_is_seen_when_it_is_mended(
    tmp_path: Path, write: Callable[[Path], None], mended: str
) -> None:
    write(tmp_path)
    catalog(tmp_path, ASSISTANT, IN_A_FOLDER)
    async with serving("--reload", cwd=tmp_path) as server:
        assert "new" not in await agents_at(server.address)
        (tmp_path / mended).write_text(GRAPH)
        await console_says(server, "Reloaded: added new\n")
        assert await server.stop() == 0
