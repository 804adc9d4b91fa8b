"""Prometheus' promtool, which checks rules and runs the tests of rules."""

import shutil
import subprocess

from support.services import require

_LONGEST_S = 200


def promtool(*arguments: str) -> tuple[bool, str]:
    """Run it; return whether it succeeded, and what it said."""
    program = shutil.which("promtool")
    require("promtool", program is not None, "there is no promtool on the PATH (Debian's package prometheus)")
    command = [str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    return done.returncode == 0, done.stdout + done.stderr
