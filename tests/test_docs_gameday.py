"""docs/gameday.md is made from the catalogue of faults, and what the catalogue names is there."""

import json
import re

import pytest
from gameday.fault import CHECKOUT, RULES, Fault
from gameday.faults import BY_PROMTOOL_ALONE, FAULTS
from gameday.figures import measured
from gameday.page import PAGE, page
from gameday.sites import SITES

DASHBOARDS = CHECKOUT / "config" / "grafana" / "dashboards"
EVENTS = {
    line.split("|")[1].strip(" `"): set(re.findall(r"`(\w+)`", line.split("|")[3]))
    for line in (CHECKOUT / "docs" / "logs.md").read_text().splitlines()
    if line.startswith("| `")
}
OF_ANY_LINE = {"agent_id", "exchange_id", "session_id", "user_id", "request_id"}


def test_each_alert_is_fired_by_a_fault_or_by_promtool_alone() -> None:
    fired = {fault.alert for fault in FAULTS}
    assert fired | set(BY_PROMTOOL_ALONE) == set(RULES)
    assert fired & set(BY_PROMTOOL_ALONE) == set()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_what_a_fault_names_is_there(fault: Fault) -> None:
    dashboard, title = fault.panel
    panels = json.loads((DASHBOARDS / dashboard).read_text())["panels"]
    assert title in [panel.get("title") for panel in panels]
    assert fault.runbook in re.sub(r"\s+", " ", fault.runbook_file.read_text())
    assert set(fault.fields) <= EVENTS[fault.log] | OF_ANY_LINE
    assert fault.site in SITES
    assert fault.expression(in_full=False)


def test_no_two_faults_have_the_same_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_the_page_is_made_from_the_catalogue_and_what_was_measured() -> None:
    assert PAGE.read_text() == page(), "run `make gameday`, or `python -m gameday.page` in tests/"
    assert set(measured()) <= {fault.name for fault in FAULTS}
