"""Sets the clock of a server process wrong by so many seconds as CLOCK_AHEAD_FILE says, each time that it is asked.

Python runs this first where the directory is in PYTHONPATH. The server takes its time from `utc_now` and `time.time`.
"""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

_file = Path(os.environ["CLOCK_AHEAD_FILE"])
_real_time = time.time


def _ahead_s() -> float:
    return float(_file.read_text())


time.time = lambda: _real_time() + _ahead_s()

from agentic_backend.protocol import messages  # noqa: E402

_real_now = messages.utc_now


def _skewed_now() -> datetime:
    return _real_now() + timedelta(seconds=_ahead_s())


messages.utc_now = _skewed_now
