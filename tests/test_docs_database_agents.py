"""The scripts of the how-to pages about agents of the database do on two servers what the pages say."""

import asyncio
import os
import re
import shutil
from pathlib import Path

from support.admin_agents import SETTINGS, call, entry
from support.documents import DOCS, blocks
from support.running_server import RunningServer, running_server
from support.services import require

PATIENCE_S = 60
TOKEN = re.compile(r'-H "Authorization: Bearer \$(OTHER_)?TOKEN" ')


async def run(page: str, folder: Path, server: RunningServer, other: RunningServer) -> str:
    """What the page's script prints."""
    for program in ("curl", "jq"):
        require(program, shutil.which(program) is not None, "it is not on the PATH")
    [script] = [block for block in blocks(DOCS / "how-to" / page) if block.language == "sh"]
    # The admin of developer mode has no token.
    typed, tokens = TOKEN.subn("", script.text)
    assert tokens == script.text.count("curl ")
    given = {"SERVER": server.address, "OTHER_SERVER": other.address}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", typed), cwd=folder, env=os.environ | given, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_an_agent_is_rolled_back_and_moved(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    async with (
        running_server(tmp_path / "here", settings=SETTINGS) as here,
        running_server(tmp_path / "there", settings=SETTINGS) as there,
    ):
        first = entry("help-desk", more="description: The first.\n")
        await call(here, "POST", "", {"yaml": first})
        await call(here, "PUT", "/help-desk", {"yaml": entry("help-desk"), "version": 1})
        assert '"action":"changed"' in await run("roll-back-an-agent.md", tmp_path, here, there)
        _, agent = await call(here, "GET", "/help-desk")
        assert (agent["version"], agent["yaml"]) == (3, first)
        await run("move-agents-to-another-server.md", tmp_path, here, there)
        _, moved = await call(there, "GET", "/help-desk")
        assert (moved["description"], moved["updated_by"]) == ("The first.", "developer")
