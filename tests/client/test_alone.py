"""The client's own distribution, in an environment with its dependencies and nothing else."""

import asyncio
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.running_server import RunningServer

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / "clients" / "python"
[EXAMPLE] = re.findall(r"^```python\n(.*?)^```", (FOLDER / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def project(folder: Path) -> dict[str, Any]:
    described: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return described


def with_what_they_need(requirements: list[str]) -> dict[str, Distribution]:
    """The installed distributions that meet `requirements`, and what these require, by name."""
    found: dict[str, Distribution] = {}
    open_ones = [Requirement(text) for text in requirements]
    while open_ones:
        requirement = open_ones.pop()
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            open_ones += [Requirement(text) for text in found[name].requires or ()]
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of a new environment with the client's wheel and its dependencies as they are locked."""
    directory = tmp_path_factory.mktemp("bare")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(directory)]
    subprocess.run([*build, str(FOLDER)], check=True, timeout=120)
    venv.create(directory / "venv", with_pip=False)
    [packages] = (directory / "venv").glob("lib/python*/site-packages")
    [wheel] = directory.glob("*.whl")
    ZipFile(wheel).extractall(packages)
    for needed in with_what_they_need(project(FOLDER)["dependencies"]).values():
        for top in {Path(str(file)).parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(needed.locate_file(top))))
    yield directory / "venv" / "bin" / "python"


async def run(interpreter: Path, *arguments: str) -> str:
    """The output of a program that succeeds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = await asyncio.create_subprocess_exec(
        interpreter, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=interpreter.parent
    )
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


def test_it_needs_pydantic_websockets_and_httpx_alone() -> None:
    server, client = project(CHECKOUT), project(FOLDER)
    assert client["dependencies"] == server["optional-dependencies"]["client"]
    assert set(client["dependencies"]) <= set(server["dependencies"])
    assert client["version"] == server["version"]
    assert {Requirement(text).name for text in client["dependencies"]} == {"pydantic", "websockets", "httpx"}


async def test_the_environment_has_nothing_of_the_server(bare: Path) -> None:
    modules = ["agentic_backend.client", "orjson", "starlette", "langchain_core", "yaml", "agentic_backend.app"]
    program = f"""
import agentic_backend.client, importlib.util
print([name for name in {modules} if importlib.util.find_spec(name)])
"""
    assert await run(bare, "-W", "error", "-c", program) == "['agentic_backend.client']\n"


async def test_the_example_has_twenty_lines_and_chats(bare: Path, server: RunningServer) -> None:
    assert len(EXAMPLE.rstrip().splitlines()) <= 20
    said = await run(bare, "-W", "error", "-c", EXAMPLE, server.address, "repeat after me: it works", "dev:ann")
    assert said == "it works\nok\n"


USERS_FILE = """
from agentic_backend.client import AwaitingHuman, Chat, Exchange, Final, answer, connect


async def text_of(chat: Chat, question: str) -> str:
    exchange: Exchange = chat.ask(question, agent_id="assistant", scope={"task": "t"})
    async for event in exchange:
        if isinstance(event, AwaitingHuman):
            await chat.decide(event, answer(event.payload.requests[0], {"any": "value"}))
        if isinstance(event, Final):
            print(event.status, event.usage.total_tokens or 0)
    async for session in chat.rest.sessions(text="x"):
        print(session.title)
    return exchange.text


async def main() -> None:
    async with connect("https://chat.example", token=lambda: "t") as chat:
        print(await text_of(chat, "hi"))
"""
MISTAKES = """
from agentic_backend.client import Chat


async def wrong(chat: Chat) -> int:
    chat.ask("hi", agent="assistant")
    chat.query("hi", session_id="s")
    await chat.decide("e1")
    return await chat.ask_text("hi")
"""


def test_a_users_program_is_checked_by_its_types(tmp_path: Path) -> None:
    def checked(program: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.py").write_text(program)
        mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "program.py"]
        environment = os.environ | {"MYPYPATH": "", "PYTHONPATH": str(CHECKOUT)}
        return subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True, timeout=200, env=environment)

    right = checked(USERS_FILE)
    assert (right.returncode, right.stdout) == (0, "")
    wrong = checked(MISTAKES).stdout.splitlines()
    assert {line.split(":")[1] for line in wrong if ": error:" in line} == {"6", "7", "8", "9"}
