"""docs/tutorial.md, done as it says in an empty folder: each command shows what the page shows, in under ten minutes.

Its shell blocks are run, its files written, its changes made; a block of text is what the command before it prints.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import DOCS, Block, blocks, prose

PAGE = DOCS / "tutorial.md"
STEPS = blocks(PAGE)
PATIENCE_S = 600
MINUTES = 10
WORDS_A_MINUTE = 200
CHARACTERS_A_MINUTE = 200
"""Of somebody who types 40 words of five letters a minute."""

PROGRAMS = f"""
agentic-backend() {{ "{sys.executable}" -m agentic_backend "$@"; }}
python() {{ "{sys.executable}" "$@"; }}
"""


def typed(block: Block) -> list[str]:
    """The lines of a block that a reader types."""
    if block.language == "text":
        return []
    lines = block.text.splitlines()
    return [line[1:] for line in lines if line.startswith("+")] if block.language == "diff" else lines


def change(folder: Path, block: Block) -> None:
    """Make the changes of a block: each part of it stands once in the file."""
    head, *parts = re.split(r"^@@\n", block.text, flags=re.MULTILINE)
    file = folder / head.removeprefix("--- ").strip()
    text = file.read_text()
    for part in parts:
        lines = part.splitlines()
        before, after = ("".join(f"{line[1:]}\n" for line in lines if not line.startswith(left)) for left in ("+", "-"))
        assert text.count(before) == 1, f"{block}: {before}"
        text = text.replace(before, after)
    file.write_text(text)


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTIC_", "OPENAI_"))}
    # Port 8000 may be taken; the plugin of schemathesis takes seconds to load.
    return {**inherited, "AGENTIC_SERVER__PORT": "0", "PYTEST_ADDOPTS": "-p no:schemathesis"}


def run(folder: Path, block: Block) -> str:
    """All that the block's commands print. A server is ended, as by Ctrl-C, once it has told its address."""
    process = subprocess.Popen(
        ["bash", "-ec", PROGRAMS + block.text],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    shown = ""
    with process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                shown += line
                if line.startswith("Chat at "):
                    os.killpg(process.pid, signal.SIGINT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert "serve" in block.text or process.returncode == 0, f"{block}: {shown}"
    return shown


def shows(block: Block, output: str) -> bool:
    """Whether the lines of the block are printed, in this order; `…` stands for anything."""
    lines = (re.escape(line).replace("…", "[^\\n]*") for line in block.text.splitlines() if line != "…")
    return re.search(".*".join(f"^{line}$.*?" for line in lines), output, re.MULTILINE | re.DOTALL) is not None


@pytest.mark.timeout(PATIENCE_S)
def test_it_goes_as_the_page_says(tmp_path: Path) -> None:
    output, compared = "", 0
    for block in STEPS:
        match block.language:
            case "sh":
                output = run(tmp_path, block)
            case "text":
                assert shows(block, output), f"{block}: {output}"
                compared += 1
            case "diff":
                change(tmp_path, block)
            case _:
                assert block.file is not None
                (tmp_path / block.file).write_text(block.text)
    assert compared == sum(block.language == "sh" for block in STEPS)


def test_it_takes_less_than_ten_minutes() -> None:
    commands = [line for block in STEPS if block.language == "sh" for line in typed(block)]
    # An editor indents.
    lines = [line.strip() for block in STEPS for line in typed(block) if line.strip()]
    shown = [block.text for block in STEPS if block.language == "text"]
    words = len(" ".join([prose(PAGE), *shown]).split())
    minutes = words / WORDS_A_MINUTE + sum(map(len, lines)) / CHARACTERS_A_MINUTE
    told = f"you type {len(commands)} commands and {len(lines) - len(commands)} lines of files."
    assert told in PAGE.read_text(), told
    assert minutes < MINUTES, f"{told} {words} words: {minutes:.1f} minutes"
