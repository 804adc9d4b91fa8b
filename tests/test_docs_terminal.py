"""docs/terminal.md has every command and flag of `chat`, and its examples run."""

import argparse
import asyncio
import re
import sys
from pathlib import Path

from support.documents import DOCS, blocks
from support.process_agents import write_catalog
from support.terminal_chat import PATIENCE_S, chat_environment

from agentic_backend.terminal.command import add_arguments
from agentic_backend.terminal.typed_commands import HELP

PAGE = (DOCS / "terminal.md").read_text()
EXAMPLES = [block.text for block in blocks(DOCS / "terminal.md")]


def test_every_command_has_its_row() -> None:
    in_help = [line.partition("  ")[0] for line in HELP.splitlines() if line.startswith("/")]
    assert re.findall(r"^\| `(/[^`]+)` \|", PAGE, re.MULTILINE) == in_help


def test_every_flag_is_there() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    rows = [line for line in PAGE.splitlines() if line.startswith("| `-")]
    assert flags == set(re.findall(r"--[\w-]+", " ".join(row.partition(" | ")[0] for row in rows)))


async def test_the_examples_run(tmp_path: Path) -> None:
    first, piped = EXAMPLES
    write_catalog(tmp_path)
    script = f'agentic-backend() {{ "{sys.executable}" -m agentic_backend "$@"; }}\n{piped}'
    process = await asyncio.create_subprocess_exec("bash", "-ec", script, cwd=tmp_path, env=chat_environment())
    async with asyncio.timeout(2 * PATIENCE_S):
        assert await process.wait() == 0
    answer, note = (tmp_path / "answers.txt").read_text().splitlines()
    assert (answer, note) == ("12*34 = 408.", "Written to 12x34.md")
    assert "12*34 = 408." in (tmp_path / "12x34.md").read_text()
    assert re.fullmatch(r"agentic-backend chat \w+\n", first)
