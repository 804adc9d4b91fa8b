"""OpenAI's client for JavaScript, from npm, at the version of its lock file."""

from pathlib import Path

from services.npm import installed

_SOURCE = Path(__file__).parent / "openai_client"


def openai_modules() -> Path:
    """The `node_modules` with it. Skips or fails the test if it is missing (see `require`)."""
    return installed("OpenAI's client for JavaScript", _SOURCE) / "node_modules"
