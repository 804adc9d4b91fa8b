"""Shifts the clock of a server process by the seconds in CLOCK_AHEAD_FILE, which is read at each call.

Python runs this at startup if the directory is in PYTHONPATH. The server gets its time from `utc_now` and `time.time`.
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
