import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from books import build

from agentic_backend.testing import call


class Library(BaseHTTPRequestHandler):
    """Has one book, for whoever brings a token."""

    def do_GET(self):
        is_known = self.headers["Authorization"] == "Bearer dev:ann"
        self.send_response(200 if is_known and self.path == "/books?title=Emma" else 401)
        self.end_headers()
        self.wfile.write(b'["Emma"]')


@pytest.fixture
def library():
    with HTTPServer(("127.0.0.1", 0), Library) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"tuning": {"fields": {"base_url": f"http://127.0.0.1:{server.server_port}"}}}
        server.shutdown()


def test_it_asks_with_the_user_s_token(agent_runner, scripted_model, library):
    model = scripted_model(call("find_books", title="Emma"), "It is there.")
    run = agent_runner(build, "Emma?", model=model, entry=library, user="ann")
    assert [use.result for use in run.tool_uses] == ['["Emma"]']


def test_the_model_reads_that_the_library_refused(agent_runner, scripted_model, library):
    model = scripted_model(call("find_books", title="Emma"), "I can't tell.")
    run = agent_runner(build, "Emma?", model=model, entry=library, user="bob")
    assert not run.tool_uses[0].ok
    assert model.asks[1].messages[-1].text == "The library can't be asked: HTTPStatusError."
