"""Machines with wrong clocks: servers that read the offset of their clock from a file that the test writes."""

import os
from pathlib import Path

_SITE = Path(__file__).parent / "skewed_clock_site"


class SkewedClock:
    """The clock of one machine; a server with `environment` uses it."""

    def __init__(self, file: Path, ahead_s: float) -> None:
        self._file = file
        self.ahead_s = ahead_s

    @property
    def ahead_s(self) -> float:
        """The offset in seconds; negative if the clock is behind."""
        return float(self._file.read_text())

    @ahead_s.setter
    def ahead_s(self, ahead_s: float) -> None:
        # Atomically, because servers may read it at any moment.
        new = self._file.with_suffix(".new")
        new.write_text(str(ahead_s))
        new.rename(self._file)

    @property
    def environment(self) -> dict[str, str]:
        paths = [str(_SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"CLOCK_AHEAD_FILE": str(self._file), "PYTHONPATH": os.pathsep.join(paths)}
