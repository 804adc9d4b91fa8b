"""A real Keycloak with the realm of config/keycloak, one for all tests of a session.

It comes from Maven, once per machine, into a cache outside of the tree, where it is also built once: a built one starts
in half the time. Each session runs it in a home of its own, whose database and port outlive a `stop` and `start`.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import httpx
from support.services import require

VERSION = "26.4.0"
REALM = "agentic"
CLIENT = "agentic-chat"
BRIEF_CLIENT, BRIEF_LIFESPAN_S = "agentic-chat-brief", 4
"""A client of the tests' own, as `CLIENT` but with access tokens that end soon."""
SERVER_CLIENT, SERVER_SECRET = "agentic-backend", "change-this-secret"

_REALM_FILE = Path(__file__).parents[2] / "config" / "keycloak" / f"{REALM}-realm.json"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "agentic-backend", "keycloak")
_FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_FETCH_S, _BUILD_S, _START_S, _STOP_S, _ANSWER_S = 900, 300, 180, 30, 30
# What bin/kc.sh gives to Java, but little memory and the quick compiler: a test's Keycloak is young all its life.
_JAVA = (
    "java",
    *("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED"),
    "--add-opens=java.base/java.security=ALL-UNNAMED",
    "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
    "-Dpicocli.disable.closures=true",
)
_ENTRY_POINT = "io.quarkus.bootstrap.runner.QuarkusEntryPoint"
_LISTENING = re.compile(r"Listening on: http://127\.0\.0\.1:(\d+)")


class Keycloak:
    """`realm_url` is the realm's issuer too, for whoever reaches Keycloak there."""

    def __init__(self, distribution: Path, home: Path) -> None:
        """It is `distribution` that runs, with its data in the empty directory `home`."""
        _furnish(home, distribution)
        self._home = home
        self._log = home / "keycloak.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def realm_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/realms/{REALM}"

    def start(self) -> None:
        """Start it, on the port that it had before or else any free one, and wait until the realm answers."""
        places = [f"-Dkc.home.dir={self._home}", f"-Djboss.server.config.dir={self._home / 'conf'}"]
        options = ["--optimized", "--import-realm", "--cache=local", "--http-enabled=true", "--hostname-strict=false"]
        address = ["--http-host=127.0.0.1", f"--http-port={self.port}"]
        with self._log.open("wb") as log:
            # Not by bin/kc.sh: its Java would outlive it.
            self._process = subprocess.Popen(
                [*_JAVA, *places, "-cp", "lib/quarkus-run.jar", _ENTRY_POINT, "start", *options, *address],
                cwd=self._home,
                env={**os.environ, "KC_BOOTSTRAP_ADMIN_USERNAME": "admin", "KC_BOOTSTRAP_ADMIN_PASSWORD": "admin"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        give_up_at = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                self.stop()
                raise RuntimeError(f"Keycloak did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    async def sign_in(self, username: str, client_id: str = CLIENT, at: str | None = None) -> dict[str, Any]:
        """The answer of the token endpoint to a user, whose password is their name: tokens for `client_id`.

        `at` is another address that leads to this Keycloak; it then stands in the tokens' issuer.
        """
        grant = {"grant_type": "password", "scope": "openid", "username": username, "password": username}
        url = f"{at or f'http://127.0.0.1:{self.port}'}/realms/{REALM}/protocol/openid-connect/token"
        async with httpx.AsyncClient(verify=False, timeout=_ANSWER_S) as client:
            response = await client.post(url, data={**grant, "client_id": client_id})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def _answers(self) -> bool:
        if self.port == 0:
            listening = _LISTENING.search(self._log.read_text(errors="replace"))
            if listening is None:
                return False
            self.port = int(listening[1])
        try:
            with urlopen(f"{self.realm_url}/.well-known/openid-configuration", timeout=_ANSWER_S) as response:
                return bool(response.status == 200)
        except OSError:
            return False


def keycloak_distribution() -> Path:
    """Where Keycloak lies, fetched and built by whoever comes first; without Java or Maven the test is skipped."""
    destination = _CACHE / VERSION
    require("Java", shutil.which("java") is not None, "there is no `java` on the PATH to run Keycloak")
    is_there = destination.is_dir() or shutil.which("mvn") is not None
    require("Keycloak", is_there, f"there is none in {_CACHE}, and no `mvn` on the PATH to fetch it")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not destination.is_dir():
            _install(destination)
    return destination


def _install(destination: Path) -> None:
    unpacked = _CACHE / f"keycloak-{VERSION}"
    archive = _CACHE / f"keycloak-quarkus-dist-{VERSION}.tar.gz"
    shutil.rmtree(unpacked, ignore_errors=True)
    artifact = f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:tar.gz"
    _run(["mvn", "-q", "-B", _FETCH, artifact, f"-DoutputDirectory={_CACHE}"], _FETCH_S)
    shutil.unpack_archive(archive, _CACHE, filter="data")
    _run([str(unpacked / "bin" / "kc.sh"), "build", "--db=dev-file"], _BUILD_S)
    archive.unlink()
    unpacked.rename(destination)


def _run(command: list[str], timeout_s: float) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")


def _furnish(home: Path, distribution: Path) -> None:
    """Make a home with data of its own; the rest is shared."""
    for shared in ("lib", "conf", "providers", "themes"):
        (home / shared).symlink_to(distribution / shared)
    imported = home / "data" / "import"
    imported.mkdir(parents=True)
    (imported / _REALM_FILE.name).write_text(json.dumps(_realm()))


def _realm() -> dict[str, Any]:
    realm: dict[str, Any] = json.loads(_REALM_FILE.read_text())
    [chat] = [client for client in realm["clients"] if client["clientId"] == CLIENT]
    brief = {**chat["attributes"], "access.token.lifespan": str(BRIEF_LIFESPAN_S)}
    realm["clients"].append({**chat, "clientId": BRIEF_CLIENT, "attributes": brief})
    return realm
