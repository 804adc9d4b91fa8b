"""Records the databases of a release with that release's own server, which needs the repository's history.

A program: `python -m compatibility.record_databases COMMIT VERSION`, in tests/, writes `databases/VERSION` anew.
"""

import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from compatibility.contents import ANN, BOB, be_interrupted, be_left, fill, http_of, reads, write_files
from compatibility.databases import FOLDER, dump_mongodb, dump_sqlite, write_recorded
from compatibility.transcripts import Json
from services.mongo_java import MongoJava
from support.approval_agents import NOTES_VARIABLE
from support.chat_client import chat
from support.server_process import ServerProcess, serving

DATABASE = "agentic"
ROOT = Path(__file__).parent.parent.parent


def unpack(commit: str, into: Path) -> Path:
    """The tree of a commit. Raises OSError if git or the commit isn't there."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise FileNotFoundError(archive.stderr.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(into, filter="data")
    return into


@asynccontextmanager
async def release(
    tree: Path, directory: Path, store: str | None, broadcast: str | None = None
) -> AsyncIterator[ServerProcess]:
    """A server of the release in `tree`, with its files in `directory`."""
    environment = {
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "tests")]),
        NOTES_VARIABLE: str(directory / "notes"),
    }
    arguments = ["--config", "settings.yaml", *(["--store", store] if store else [])]
    arguments += ["--broadcast", broadcast] if broadcast else []
    async with serving(*arguments, cwd=directory, environment=environment) as server:
        yield server


async def record(tree: Path, directory: Path, store: str | None) -> Json:
    """Leave everything in the database; the ids, and what the release's server answers to those who read."""
    write_files(directory)
    async with release(tree, directory, store) as server:
        ids = await fill(server.address)
        async with chat(server.address, token=ANN) as client:
            ids["interrupted"] = await be_interrupted(client)
            await server.stop(signal.SIGKILL)
    async with release(tree, directory, store) as server:
        async with http_of(server.address) as http:
            while (await http.get(f"/exchanges/{ids['interrupted']}")).json()["status"] != "interrupted":
                await asyncio.sleep(0.5)
        told = await reads(server.address, ids)
        async with chat(server.address, token=BOB) as client:
            ids["left"] = await be_left(client)
            await server.stop(signal.SIGKILL)
    return {"ids": ids, "reads": told}


async def record_databases(commit: str, version: str) -> None:
    folder = FOLDER / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        tree = unpack(commit, Path(temporary) / "tree")
        for kind in ("sqlite", "mongodb"):
            directory = Path(temporary) / kind
            directory.mkdir()
            if kind == "sqlite":
                told = await record(tree, directory, None)
                dump_sqlite(directory / "data", folder)
            else:
                server = MongoJava()
                server.start()
                url = f"mongodb://127.0.0.1:{server.port}/{DATABASE}"
                told = await record(tree, directory, url)
                dump_mongodb(url, folder)
                server.stop()
            write_recorded(folder, kind, told)


if __name__ == "__main__":
    asyncio.run(record_databases(*sys.argv[1:]))
