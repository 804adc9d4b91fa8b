"""The Python of the documentation runs: blocks of the how-to pages stand in an example, whose test runs them; what else
is no whole file is run here, in a node of a graph or against a server.
"""

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import websockets
from langgraph.graph import START, MessagesState, StateGraph
from support import python_snippets
from support.documents import DOCS, Block, of
from support.running_server import running_server

from agentic_backend.client import connect
from agentic_backend.protocol.events import HumanRequest
from agentic_backend.testing import run_agent

HOW_TO = DOCS / "how-to"
FRAGMENTS = [block for block in of("python") if block.page.parent != HOW_TO]
IN_NODES = [
    block
    for block in FRAGMENTS
    if block.place == "docs/agents.md" and not python_snippets.is_only_definitions(block.text)
]
ON_SERVERS = [block for block in FRAGMENTS if block.place in ("docs/clients.md", "docs/doors.md")]
OF_THE_READER = frozenset({"TOOLS", "chat", "clear_what_was_shown", "connect", "newest_token"})
"""Names that fragments take for the reader's own."""
PATIENCE_S = 60


def stands_in(excerpt: str, text: str) -> bool:
    """Whether the lines stand in the text one after another, at any one indentation."""
    wanted, lines = excerpt.strip("\n").splitlines(), text.splitlines()
    windows = ("\n".join(lines[first : first + len(wanted)]) for first in range(len(lines) - len(wanted) + 1))
    return any(textwrap.dedent(window).splitlines() == wanted for window in windows)


def examples_of(page: Path) -> list[Path]:
    """The examples that a page of the how-to leads to."""
    names = re.findall(r"\]\(\.\./examples/([\w-]+)/README\.md\)", page.read_text())
    return [DOCS / "examples" / name for name in names]


@pytest.mark.parametrize("block", [block for block in of("python", "yaml") if block.page.parent == HOW_TO], ids=str)
def test_what_a_how_to_shows_stands_in_the_example_that_it_leads_to(block: Block) -> None:
    ending = {"python": "py", "yaml": "yaml"}[block.language]
    files = [file for example in examples_of(block.page) for file in example.rglob(f"*.{ending}")]
    # Settings and limits alone are read in test_docs_snippets.py.
    assert files or block.language == "yaml"
    assert not files or any(stands_in(block.text, file.read_text()) for file in files)


@pytest.mark.parametrize("block", FRAGMENTS, ids=str)
async def test_fragments_use_names_that_there_are(block: Block) -> None:
    assert python_snippets.missing_names(block.text, OF_THE_READER) == set()
    if python_snippets.is_only_definitions(block.text):
        await python_snippets.run(block.text)
    else:
        assert block in IN_NODES or block in ON_SERVERS


def first_choice(request: HumanRequest) -> object:
    return request.choices[0].id


@pytest.mark.parametrize("block", IN_NODES, ids=str)
async def test_code_of_nodes_runs_in_one(block: Block) -> None:
    async def node(state: MessagesState) -> dict[str, Any]:
        names = await python_snippets.run(block.text)
        return {"messages": [("ai", f"ran {names.get('answer', '')}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    run = await run_agent(graph.compile(), "Hello", answer=first_choice)
    assert run.status == "ok" and run.final_text.startswith("ran"), str(run)


class Said(Exception):
    """All that a fragment is for has been printed."""


async def test_code_of_clients_runs_against_a_server(tmp_path: Path) -> None:
    assert len(ON_SERVERS) == 3
    async with running_server(tmp_path) as server:
        for block in ON_SERVERS:
            printed: list[str] = []

            def note(*values: object, end: str = "\n", printed: list[str] = printed) -> None:
                printed.append("".join(map(str, values)) + end)
                if '"type":"final"' in printed[-1]:
                    raise Said

            code = block.text.replace("https://chat.example", server.address)
            code = code.replace("ws://127.0.0.1:8000", server.address.replace("http", "ws"))
            given = {"print": note, "newest_token": "dev:ann", "clear_what_was_shown": printed.clear}
            async with asyncio.timeout(PATIENCE_S), connect(server.address, token="dev:ann") as chat:
                try:
                    await python_snippets.run(code, chat=chat, connect=websockets.connect, **given)
                except Said:
                    pass
            assert "".join(printed).strip(), str(block)
