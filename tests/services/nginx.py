"""An nginx before a server, set up as docs/production.md says, but for TLS and its addresses."""

import re
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from support.ports import free_port
from support.production_guide import fenced
from support.services import require

_START_S, _END_S = 40, 30
_MAPS = """
map $http_upgrade $connection_to {
    default upgrade;
    ''      '';
}
"""


class Nginx:
    """One process on a loopback port. It keeps one connection to the server, which requests of all clients share."""

    def __init__(self, directory: Path, server: str, *, hands_on_upgrades: bool = False, path: str = "") -> None:
        """`server` is the server's URL. Skips or fails the test if nginx is missing (see `require`).

        `path`: the server is below it, such as `/chat`, as the guide says how.
        `hands_on_upgrades`: also those that are none to a WebSocket, as a widespread example for nginx does.
        """
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        require("nginx", program is not None, "there is no `nginx` on the PATH")
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        site = documented(self.port, server)
        if path:
            site = site.replace("location / {", f"location {path}/ {{").replace("http://chat;", "http://chat/;")
            assert f"location {path}/" in site and "proxy_pass http://chat/;" in site
        if hands_on_upgrades:
            site = _MAPS + re.sub(r"^map .*?^}\n", "", site, flags=re.MULTILINE | re.DOTALL)
            site = site.replace("Upgrade $upgrade_to", "Upgrade $http_upgrade").replace(
                "HTTP2-Settings '';", "X-Unused '';"
            )
        file = directory / "nginx.conf"
        file.write_text(
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr warn;\nevents {}\n"
            f"http {{\naccess_log off;\n{_temporary_paths(directory)}{site}}}\n"
        )
        self._command = [str(program), "-p", str(directory), "-c", str(file), "-e", "stderr"]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; return when it listens."""
        with (self._directory / "nginx.log").open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up_at = time.monotonic() + _START_S
        while not self._listens():
            assert self._process.poll() is None, (self._directory / "nginx.log").read_text()
            assert time.monotonic() < give_up_at, "nginx did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(_END_S)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


def documented(port: int, server: str) -> str:
    """The guide's example, without TLS, for a server at this URL, with one kept connection to it."""
    site = fenced("nginx", "proxy_pass")
    for documented, here in (
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        (r"^ *(?:ssl_certificate|access_log).*\n", ""),
        (r"server 127\.0\.0\.1:8000;", f"server {urlsplit(server).netloc};"),
        (r"keepalive \d+;", "keepalive 1;"),
    ):
        site, found = re.subn(documented, here, site, flags=re.MULTILINE)
        assert found, f"the guide has no {documented}"
    return site


def _temporary_paths(directory: Path) -> str:
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "".join(f"{name}_temp_path {directory / name};\n" for name in names)
