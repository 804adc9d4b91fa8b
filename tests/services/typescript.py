"""What the TypeScript client is built and tried with, from npm: its compiler, and `ws`, a WebSocket for Node 20."""

from pathlib import Path

from services.npm import installed

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"


def typescript_modules() -> Path:
    """The `node_modules` of the package's lock file. Skips or fails the test if it is missing (see `require`)."""
    return installed("TypeScript", PACKAGE, ("package.json", "package-lock.json")) / "node_modules"
