"""AG-UI's client, from npm, at the version of its lock file."""

from pathlib import Path

from services.npm import installed

_SOURCE = Path(__file__).parent / "ag_ui_client"


def ag_ui_modules() -> Path:
    """The `node_modules` with it. Skips or fails the test if it is missing (see `require`)."""
    return installed("AG-UI's client", _SOURCE) / "node_modules"
