"""pytest as an author of agents runs it: as a process, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 400

_CHECKOUT = Path(__file__).parents[2]


def run_pytest(directory: Path, *arguments: str) -> str:
    """What pytest says of the files in `directory`, with the plugin as its entry point loads it."""
    plugins = ["-p", "agentic_backend.pytest_plugin", "-p", "no:schemathesis", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_CHECKOUT), str(directory)])}
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    ran = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return ran.stdout + ran.stderr
