import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from agentic_backend.testing import call

FOLDER = Path(__file__).parent


class Shelves(BaseHTTPRequestHandler):
    """Has one book, for whoever brings a token."""

    def do_GET(self):
        is_known = self.headers["Authorization"] == "Bearer dev:ann"
        self.send_response(200 if is_known and self.path == "/books?title=Emma" else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'["Emma"]')


@pytest.fixture
def settings(monkeypatch):
    """The settings of this folder, with the address of an API that runs."""
    monkeypatch.chdir(FOLDER)
    values = yaml.safe_load((FOLDER / "config" / "settings.yaml").read_text())
    with HTTPServer(("127.0.0.1", 0), Shelves) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        values["apis"]["library"]["base_url"] = f"http://127.0.0.1:{server.server_port}"
        yield values
        server.shutdown()


def test_the_operation_is_a_tool(agent_runner, scripted_model, settings):
    model = scripted_model(call("findBooks", title="Emma"), "It is there.")
    run = agent_runner("librarian", "Emma?", model=model, settings=settings, user="ann")
    assert run.tool_uses[0].ok and "Emma" in run.tool_uses[0].result
