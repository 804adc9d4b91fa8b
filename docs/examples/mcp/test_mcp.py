import os
import sys
from pathlib import Path

from agentic_backend.testing import call

FOLDER = Path(__file__).parent


def test_the_server_s_tool_answers(agent_runner, scripted_model, monkeypatch):
    # The settings name the program and its file as in this folder, and this Python.
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    model = scripted_model(call("forecast", city="Bern"), "It rains.")
    run = agent_runner("weather", "Bern?", model=model, settings="config/settings.yaml")
    assert [use.result for use in run.tool_uses] == ["Tomorrow it rains in Bern."]
