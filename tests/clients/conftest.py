"""The TypeScript client as a program of somebody else has it: packed by npm, and installed from that."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from services.shared import once_a_run
from services.typescript import PACKAGE, typescript_modules
from support import approval_agents, paced_agent
from support.paced_agent import Pace
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from support.typescript_client import Consumer, TypescriptClient, typescript_client

CHECKOUT = PACKAGE.parents[1]
_PACK_S = 120


def _pack(directory: Path) -> None:
    modules = typescript_modules()
    web = Path("agentic_backend", "web", "client")
    shutil.copytree(CHECKOUT / web, directory / web)
    own = directory / PACKAGE.relative_to(CHECKOUT)
    shutil.copytree(PACKAGE, own, ignore=shutil.ignore_patterns("dist", "node_modules"))
    (own / "node_modules").symlink_to(modules)
    # It compiles before it packs.
    pack = subprocess.run(["npm", "pack", "--json"], cwd=own, capture_output=True, text=True, timeout=_PACK_S)
    assert pack.returncode == 0, pack.stdout + pack.stderr
    [package] = json.loads(pack.stdout[pack.stdout.index("[\n") :])
    (own / package["filename"]).rename(directory / "package.tgz")
    (directory / "files.json").write_text(json.dumps([file["path"] for file in package["files"]]))


@pytest.fixture(scope="session")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Consumer:
    modules = typescript_modules()
    packed = once_a_run("typescript-package", _pack)
    directory = tmp_path_factory.mktemp("typescript-consumer")
    consumer = Consumer(directory, json.loads((packed / "files.json").read_text()))
    consumer.client.parent.mkdir(parents=True)
    with tarfile.open(packed / "package.tgz") as archive:
        archive.extractall(consumer.client.parent, filter="data")
    (consumer.client.parent / "package").rename(consumer.client)
    for name in ("ws", "@types"):
        (directory / "node_modules" / name).symlink_to(modules / name)
    shutil.copy(Path(__file__).parent / "driven.mjs", directory)
    return consumer


@pytest.fixture
def pace() -> Pace:
    return paced_agent.begin()


@pytest.fixture
async def chat_server(tmp_path: Path, pace: Pace) -> AsyncIterator[RunningServer]:
    agents = [*ENTRIES, *approval_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path, agents=agents) as server:
        yield server


@pytest.fixture
async def client(consumer: Consumer, chat_server: RunningServer) -> AsyncIterator[TypescriptClient]:
    async with typescript_client(consumer, chat_server.address) as client:
        yield client
