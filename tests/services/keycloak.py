"""A real Keycloak with the realm of config/keycloak, one for all tests of a session.

It is fetched by Maven and built once per machine: after a build it starts in half the time. It has its own home, whose
database and port survive `stop` and `start`.
"""

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
from services.cache import cached, run
from support.services import require

VERSION = "26.4.0"
REALM = "agentic"
CLIENT = "agentic-chat"
BRIEF_CLIENT, BRIEF_LIFESPAN_S = "agentic-chat-brief", 6
"""A client for tests, like `CLIENT` but with short-lived access tokens."""
SERVER_CLIENT, SERVER_SECRET = "agentic-backend", "change-this-secret"

_REALM_FILE = Path(__file__).parents[2] / "config" / "keycloak" / f"{REALM}-realm.json"
_FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_FETCH_S, _BUILD_S, _START_S, _STOP_S, _ANSWER_S = 900, 300, 180, 30, 30
# The options of bin/kc.sh, but with little memory and the quick compiler, because a test's Keycloak runs only briefly.
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
    """`realm_url` is also the issuer in the tokens of clients that use this address."""

    def __init__(self, home: Path) -> None:
        """Keeps its data in the empty directory `home`. Skips or fails the test if Keycloak is missing."""
        _furnish(home, keycloak_distribution())
        self._home = home
        self._log = home / "keycloak.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def realm_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/realms/{REALM}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it on its previous port, or first on any free one, and wait until the realm answers."""
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

    async def sign_in(self, username: str, client_id: str = CLIENT) -> dict[str, Any]:
        """The token endpoint's answer for a user, whose password is the username: tokens for `client_id`."""
        grant = {"grant_type": "password", "scope": "openid", "username": username, "password": username}
        url = f"{self.realm_url}/protocol/openid-connect/token"
        async with httpx.AsyncClient(timeout=_ANSWER_S) as client:
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
    """Its directory, shared by all homes. Skips or fails the test if Keycloak is missing (see `require`)."""
    require("Keycloak", shutil.which("java") is not None, "there is no `java` on the PATH to run it")
    return cached("keycloak", VERSION, _install)


def _install(directory: Path) -> None:
    require("Keycloak", shutil.which("mvn") is not None, "there is no `mvn` on the PATH to fetch it")
    artifact = f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:tar.gz"
    failure = run(["mvn", "-q", "-B", _FETCH, artifact, f"-DoutputDirectory={directory}"], _FETCH_S)
    require("Keycloak", failure is None, f"{failure}")
    archive = directory / f"keycloak-quarkus-dist-{VERSION}.tar.gz"
    shutil.unpack_archive(archive, directory, filter="data")
    archive.unlink()
    unpacked = directory / f"keycloak-{VERSION}"
    for path in unpacked.iterdir():
        path.rename(directory / path.name)
    unpacked.rmdir()
    failure = run([str(directory / "bin" / "kc.sh"), "build", "--db=dev-file"], _BUILD_S)
    require("Keycloak", failure is None, f"{failure}")


def _furnish(home: Path, distribution: Path) -> None:
    """Create a home with its own data; the rest is shared."""
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
    # The protection refuses one of two concurrent sign-ins of a user, which happen with several lanes.
    realm["bruteForceProtected"] = False
    return realm
