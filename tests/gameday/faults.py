"""The catalogue of faults: what is known to go wrong, and what shows it.

Three uses, and no second list: gameday/test_faults.py injects each, `make gameday` measures each, and
test_docs_gameday.py compares them with alerts, dashboards, runbooks and the log.
"""

from gameday.disk_faults import DISK_FAULTS
from gameday.mcp_faults import MCP_FAULTS
from gameday.model_faults import MODEL_FAULTS
from gameday.process_faults import PROCESS_FAULTS
from gameday.realm_faults import REALM_FAULTS
from gameday.store_faults import BROADCAST_FAULTS, STORE_FAULTS

_ALL = [
    *MODEL_FAULTS,
    *DISK_FAULTS,
    *MCP_FAULTS,
    *PROCESS_FAULTS,
    *STORE_FAULTS,
    *BROADCAST_FAULTS,
    *REALM_FAULTS,
]
FAULTS = sorted(_ALL, key=lambda fault: fault.site)
"""Those of one server follow each other."""

_HOURS = "Its ranges are of hours."
BY_PROMTOOL_ALONE = {
    "AvailabilityBurnsFast": _HOURS,
    "AvailabilityBurnsSlow": _HOURS,
    "CompletionBurnsFast": "tests/test_alerts_on_a_server.py fires it with a model that fails.",
    "CompletionBurnsSlow": _HOURS,
    "StartSlow": _HOURS,
    "InstanceDown": "tests/test_alerts_on_a_server.py fires it with an instance that is not there.",
    "RunningNearLimit": "It is load, and no fault.",
    "EventLoopLate": "It is load, and no fault.",
    "ChoresFail": "It looks back for half an hour.",
    "IngestionStalled": "It looks back for half an hour.",
    "UsageLost": "It takes a store that is away for longer than a game day.",
}
"""Alerts that no fault fires, with the reason."""
