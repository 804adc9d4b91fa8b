"""AsyncAPI's own parser, `@asyncapi/parser`, from npm, at the version of its lock file."""

import json
import subprocess
from pathlib import Path
from typing import Any

from services.npm import installed

_SOURCE = Path(__file__).parent / "asyncapi_parser"
_CHECK_S = 60


def asyncapi_parser() -> Path:
    """The program that checks a document. Skips or fails the test if it is missing (see `require`)."""
    return installed("AsyncAPI's parser", _SOURCE) / "check.mjs"


def diagnostics(document: bytes) -> list[dict[str, Any]]:
    """What the parser says of a document: `severity` (0 is an error, 1 a warning), `code`, `path` and `message`."""
    done = subprocess.run(
        ["node", asyncapi_parser()], input=document, capture_output=True, timeout=_CHECK_S, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
