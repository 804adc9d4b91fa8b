"""The protocol's types for TypeScript are those of this version's models."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"


def test_the_types_are_current() -> None:
    types = subprocess.run([sys.executable, PACKAGE / "protocol_types.py"], capture_output=True, check=True).stdout
    assert (PACKAGE / "protocol.d.ts").read_bytes() == types, "stale: write it anew with `make clients`"
