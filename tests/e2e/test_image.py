"""The Dockerfile's steps, followed without an engine, and what they make: a server that needs nothing of its machine.

An engine is what this can't stand in for: the base image itself, and the limits that a container puts on a process.
"""

import importlib.metadata
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from services.keycloak import CLIENT, Keycloak
from support.chat_client import chat, check_exchange, final_text
from support.container import container, health
from support.dockerfile import Stage, build, instructions
from support.log_lines import log_lines, surprising
from support.ports import free_port
from support.processes import children, is_there
from support.recorded_agents import eventually
from support.server_process import PATIENCE_S, ServerProcess
from support.services import require

CHECKOUT = Path(__file__).parents[2]
DOCKERFILE = CHECKOUT / "Dockerfile"
COMPOSED = yaml.safe_load((CHECKOUT / "docker-compose.yaml").read_text())["services"]
# Where all dependencies are installed: two minutes on a slow machine whose package cache is empty.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def image() -> Iterator[Stage]:
    require("root", os.geteuid() == 0, "nobody else can start a server as another user")
    with tempfile.TemporaryDirectory(prefix="agentic-image-") as place:
        Path(place).chmod(0o755)
        built = build(DOCKERFILE, Path(place), {"VERSION": "1.2.3", "REVISION": "0123abc"})
        (built.root / "tmp").mkdir()
        (built.root / "tmp").chmod(0o1777)
        yield built


@pytest.fixture
def environment() -> dict[str, str]:
    """What a test needs beside the image's own: free ports, and a model that needs no network."""
    return {
        "AGENTIC_SERVER__PORT": "0",
        "AGENTIC_SERVER__INTERNAL_PORT": str(free_port()),
        "AGENTIC_MODELS__DEFAULT__MODEL": "offline",
    }


@pytest.fixture
def composed_keycloak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keycloak]:
    """One with the names that docker-compose.yaml gives it: not those by which a test reaches it.

    Not the shared one under other names: tests in other lanes may need that at any time.
    """
    for name, value in COMPOSED["keycloak"]["environment"].items():
        if name.startswith("KC_HOSTNAME"):
            monkeypatch.setenv(name, value)
    own = Keycloak(tmp_path)
    try:
        own.start()
        yield own
    finally:
        own.stop()


def files_in(image: Stage) -> set[Path]:
    """Every file and directory of the image, but what lies in its volume and in /tmp."""
    kept = {image.root / "data", image.root / "tmp"}
    tree = (Path(folder, name) for folder, folders, files in os.walk(image.root) for name in [*folders, *files])
    return {path for path in tree if not kept & {path, *path.parents}}


def reached_at(server: ServerProcess) -> str:
    assert server.address.startswith("http://0.0.0.0:")
    return server.address.replace("0.0.0.0", "127.0.0.1")


def user_of(server: ServerProcess) -> tuple[int, int]:
    """The ids that the process really has."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    user, group = (re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE) for name in ("Uid", "Gid"))
    assert user and group
    return int(user[1]), int(group[1])


async def serves_its_page(client: httpx.AsyncClient) -> None:
    page = await client.get("/")
    assert page.status_code == 200 and "<!doctype html>" in page.text.lower()
    referenced = re.findall(r'(?:src|href)="\.?/?(static/[^"]+)"', page.text)
    assert referenced
    for path in referenced:
        assert (await client.get(f"/{path}")).status_code == 200, path


async def serves_its_users(server: ServerProcess, keycloak: Keycloak, realm_url: str) -> None:
    """Page, catalog and agents, all of them out of the wheel; nothing without a token."""
    address = reached_at(server)
    alice, admin = [(await keycloak.sign_in(username))["access_token"] for username in ("alice", "root")]
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S, verify=False) as client:
        await serves_its_page(client)
        told = (await client.get("/agentic/v1/sign-in")).json()
        assert told == {"mode": "keycloak", "realm_url": realm_url, "client_id": CLIENT}
        assert (await client.get("/agentic/v1/agents")).status_code == 401
        listed = await client.get("/agentic/v1/agents", headers={"Authorization": f"Bearer {admin}"})
        shipped = yaml.safe_load((CHECKOUT / "agents_catalog.yaml").read_text())["agents"]
        assert [agent["id"] for agent in listed.json()["agents"]] == [agent["id"] for agent in shipped]
    assert "Zorblax" in await answer(address, alice, "my name is Zorblax", "assistant")
    # Its tools are those of an MCP server, a process of its own.
    assert "alive and ready" in await answer(address, admin, "call server_health()", "sentinel")


async def answer(address: str, token: str, message: str, agent_id: str) -> str:
    async with chat(address, token=token) as client:
        events = await client.ask(message, agent_id=agent_id)
    check_exchange(events)
    return final_text(events)


# Else that of tests with MongoDB would be the nearest.
@pytest.mark.timeout(600)
@pytest.mark.keycloak
@pytest.mark.redis
async def test_as_composed_it_needs_nothing_but_its_environment(
    image: Stage, environment: dict[str, str], composed_keycloak: Keycloak, mongodb_url: str, redis_url: str
) -> None:
    composed = {name: value for name, value in COMPOSED["server"]["environment"].items() if value is not None}
    # What the names of the other services stand for.
    environment |= {
        **composed,
        "AGENTIC_AUTH__KEYCLOAK__INTERNAL_URL": composed_keycloak.realm_url,
        "AGENTIC_STORE__URL": mongodb_url,
        "AGENTIC_BROADCAST__URL": redis_url,
    }
    before = files_in(image)
    assert not any(image.directory.iterdir()), "it starts in an empty folder"
    async with container(image, environment) as server:
        await server.started()
        assert user_of(server) == image.user
        assert await health(image, environment) == 0
        await serves_its_users(server, composed_keycloak, composed["AGENTIC_AUTH__KEYCLOAK__REALM_URL"])
        assert await server.stop() == 0
    assert files_in(image) == before
    assert surprising(log_lines(server.stderr)) == []
    assert not any((image.root / "tmp").iterdir())


@pytest.mark.keycloak
async def test_with_sqlite_it_writes_to_its_volume_only(
    image: Stage, environment: dict[str, str], keycloak: Keycloak
) -> None:
    environment |= {"AGENTIC_AUTH__MODE": "keycloak", "AGENTIC_AUTH__KEYCLOAK__REALM_URL": keycloak.realm_url}
    before = files_in(image)
    async with container(image, environment) as server:
        await server.started()
        await serves_its_users(server, keycloak, keycloak.realm_url)
        assert await server.stop() == 0
    assert files_in(image) == before
    assert (image.root / "data" / "chat.sqlite3").is_file()


async def test_it_does_not_start_open_by_accident(image: Stage, environment: dict[str, str]) -> None:
    async with container(image, environment) as server:
        assert await server.ended() == 2
        assert server.stdout == ""
        assert len(server.stderr.splitlines()) == 1
        assert "developer authentication trusts everybody" in server.stderr
        assert "auth.mode: keycloak" in server.stderr


async def test_a_container_whose_server_is_gone_is_unhealthy(image: Stage, environment: dict[str, str]) -> None:
    assert await health(image, environment) != 0


# The child that ends before its own child leaves an orphan, as an MCP server that is killed may.
LEAVES_AN_ORPHAN = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    os._exit(0)
os.wait()
time.sleep(60)
"""


async def test_its_init_collects_what_others_leave_behind(image: Stage, environment: dict[str, str]) -> None:
    *init, server = json.loads(image.said["ENTRYPOINT"])
    assert server == "agentic-backend"
    async with container(image, environment, *init, "python3", "-I", "-c", LEAVES_AN_ORPHAN) as running:
        await eventually(lambda: len(children(running.pid)) == 2)
        _, orphan = children(running.pid)
        await eventually(lambda: not is_there(orphan))


def test_its_labels_say_what_it_was_built_from(image: Stage) -> None:
    labels = {name.rpartition(".")[2]: value for name, value in image.labels.items()}
    assert (labels["title"], labels["version"], labels["revision"]) == ("agentic-backend", "1.2.3", "0123abc")
    assert {"source", "licenses", "created", "description"} <= labels.keys()
    [base] = {step.words[0] for step in instructions(DOCKERFILE) if step.keyword == "FROM"}
    assert f"{image.labels['org.opencontainers.image.base.name']}@{labels['digest']}" == base


def test_it_lists_what_it_is_made_of(image: Stage) -> None:
    """The bill names what is installed, all of it and nothing else."""
    bill = json.loads(Path(image.inside(image.labels["org.cyclonedx.sbom"])).read_text())
    [site] = image.root.glob("opt/venv/lib/python*/site-packages")
    installed = {
        f"{re.sub(r'[-_.]+', '-', found.name).lower()}@{found.version}"
        for found in importlib.metadata.distributions(path=[str(site)])
        # They came with the virtual environment, not with the lock.
        if found.name not in ("pip", "setuptools")
    }
    described = [bill["metadata"]["component"], *bill["components"]]
    listed = {each["bom-ref"].removeprefix("pkg:pypi/") for each in described if "pypi" in each["bom-ref"]}
    assert installed == listed


@pytest.mark.further
def test_its_step_that_installs_the_lock_leaves_what_was_copied_for_it(image: Stage, tmp_path: Path) -> None:
    anew = build(DOCKERFILE, tmp_path, installs_anew=True)
    left, copied = ({path.relative_to(each.root) for path in files_in(each)} for each in (anew, image))
    assert left ^ copied == set()


def test_its_user_owns_nothing_but_the_volume(image: Stage) -> None:
    user, group = image.user
    assert user and group
    for path in files_in(image):
        of = path.lstat()
        assert user != of.st_uid and group != of.st_gid, path
        assert stat.S_ISLNK(of.st_mode) or not of.st_mode & stat.S_IWOTH, path
    volume = (image.root / image.said["VOLUME"].lstrip("/")).stat()
    assert (volume.st_uid, volume.st_gid) == image.user


def test_modules_are_compiled_for_they_can_not_be_later(image: Stage) -> None:
    [package] = image.root.glob("opt/venv/lib/python*/site-packages/agentic_backend")
    modules = {path.relative_to(package) for path in package.rglob("*.py")}
    compiled = {
        path.relative_to(package).parent.parent / f"{path.name.partition('.')[0]}.py" for path in package.rglob("*.pyc")
    }
    assert modules and modules == compiled
    assert image.environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_context_has_all_that_is_copied_and_nothing_else() -> None:
    copied = [step.words for step in instructions(DOCKERFILE) if step.keyword == "COPY"]
    sources = [source for *sources, _ in copied for source in sources if not sources[0].startswith("--from=")]
    assert [source for source in sources if not (CHECKOUT / source).exists()] == []
    ignored = [line for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*"
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(sources)


def test_base_images_are_pinned_to_a_python_that_will_do() -> None:
    bases = {step.words[0] for step in instructions(DOCKERFILE) if step.keyword == "FROM"}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.1[1-9]-slim-\w+@sha256:[0-9a-f]{64}", bases.pop())
