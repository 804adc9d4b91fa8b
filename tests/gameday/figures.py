"""What `make gameday` has measured, in docs/figures/gameday.json: seconds from injection to the alert's expression."""

import json

from gameday.fault import CHECKOUT, Fault

FILE = CHECKOUT / "docs" / "figures" / "gameday.json"


def measured() -> dict[str, int]:
    """Seconds by the fault's name."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def keep(fault: Fault, detected_s: float) -> None:
    FILE.write_text(json.dumps({**measured(), fault.name: round(detected_s)}, indent=2, sort_keys=True) + "\n")
