"""Grafana's dashboards as the repository has them, and their queries as Grafana would ask them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "config" / "grafana" / "dashboards").glob("*.json"))
}
"""By the names of their files."""


@dataclass(frozen=True)
class PanelQuery:
    """One of the queries of a panel; `name` is unique among all."""

    name: str
    expression: str


def panels_of(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def panel_queries(interval: str) -> Iterator[PanelQuery]:
    """All queries with `All` chosen for each variable, and rates over this interval."""
    for name, dashboard in DASHBOARDS.items():
        values = {each["name"]: each["allValue"] for each in dashboard["templating"]["list"] if "allValue" in each}
        for panel in panels_of(dashboard):
            for target in panel["targets"]:
                expression = target["expr"].replace("$__rate_interval", interval)
                for variable, value in values.items():
                    expression = re.sub(rf"\${variable}\b", value, expression)
                yield PanelQuery(f"{name}: {panel['title']} ({target['refId']})", expression)
