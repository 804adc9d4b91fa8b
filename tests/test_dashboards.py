"""Grafana's dashboards as files: complete, well laid out, provisioned, and about metrics that there are."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.dashboards import DASHBOARDS, panels_of
from support.documented_metrics import METRICS, unknown_in_query

CHECKOUT = Path(__file__).parents[1]
GRAFANA = CHECKOUT / "config" / "grafana"
NAMES = {"overview", "exchanges", "agents", "models", "sockets", "stores", "saturation"}
# Of Grafana 12.2, which docker-compose.yaml starts.
SCHEMA = 42
UNITS = {"s", "bytes", "short", "percentunit", "ops", "none"}
OF_PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}
VARIABLE = re.compile(r"\$\{?(\w+)")

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


def panels() -> Iterator[Any]:
    for name, dashboard in DASHBOARDS.items():
        for panel in panels_of(dashboard):
            yield pytest.param(panel, id=f"{name}: {panel['title']}")


each_panel = pytest.mark.parametrize("panel", list(panels()))


def test_there_is_a_dashboard_for_each_question() -> None:
    assert DASHBOARDS.keys() == NAMES
    document = (CHECKOUT / "docs" / "production.md").read_text()
    assert set(re.findall(r"grafana/dashboards/(\w+)\.json", document)) == NAMES


@each_dashboard
def test_a_dashboard_is_found_by_its_uid_and_leads_to_the_others(dashboard: dict[str, Any]) -> None:
    [name] = [name for name, other in DASHBOARDS.items() if other is dashboard]
    assert dashboard["uid"] == f"agentic-{name}"
    assert dashboard["schemaVersion"] == SCHEMA
    assert dashboard["description"] and dashboard["title"].startswith("Agentic / ")
    assert [link["tags"] for link in dashboard["links"]] == [["agentic"]] and dashboard["tags"] == ["agentic"]
    assert sum(other["title"] == dashboard["title"] for other in DASHBOARDS.values()) == 1


@each_dashboard
def test_panels_have_ids_and_places_of_their_own(dashboard: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(set(titles)) == len(titles), "a runbook names a panel by its title"
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)
    assert dashboard["panels"][0]["type"] == "row"


@each_dashboard
def test_variables_are_those_that_are_used(dashboard: dict[str, Any]) -> None:
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert {"datasource", "job", "instance", "runbooks"} <= variables.keys()
    used = set(VARIABLE.findall(json.dumps(dashboard))) - {"__url_time_range", "__rate_interval", "__all"}
    assert used == variables.keys()
    for variable in variables.values():
        if variable["type"] == "query":
            assert variable["multi"] and variable["includeAll"] and variable["datasource"] == OF_PROMETHEUS
            [(series, label)] = re.findall(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert unknown_in_query(f"count by ({label}) ({series})") == set()


def test_the_runbooks_are_where_the_alerts_say() -> None:
    prometheus = yaml.safe_load((CHECKOUT / "config" / "prometheus" / "prometheus.yaml").read_text())
    for dashboard in DASHBOARDS.values():
        [runbooks] = [each for each in dashboard["templating"]["list"] if each["name"] == "runbooks"]
        assert runbooks["query"] == prometheus["global"]["external_labels"]["runbooks"]


def test_grafana_is_given_all_dashboards_and_the_source_that_they_begin_with() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text())["datasources"]
    for dashboard in DASHBOARDS.values():
        chosen = dashboard["templating"]["list"][0]
        assert (chosen["name"], chosen["current"]["value"]) == ("datasource", source["uid"])
    [provider] = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "files.yaml").read_text())["providers"]
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yaml").read_text())
    mounted = f"./{GRAFANA.relative_to(CHECKOUT)}/dashboards:{provider['options']['path']}:ro"
    assert mounted in compose["services"]["grafana"]["volumes"]


def test_each_objective_has_a_panel_with_what_is_left_of_its_budget() -> None:
    rules = yaml.safe_load((CHECKOUT / "config" / "prometheus" / "rules" / "recording.yaml").read_text())
    recorded = [rule for group in rules["groups"] for rule in group["rules"]]
    objectives = [rule["labels"]["slo"] for rule in recorded if rule["record"] == "slo:error_budget:ratio"]
    left = "slo:error_budget_left:ratio30d"
    assert left in {rule["record"] for rule in recorded}
    panels = {panel["title"]: panel for panel in panels_of(DASHBOARDS["overview"])}
    for objective in objectives:
        panel = panels[f"Budget left: {objective.replace('_', ' ')}"]
        [target] = panel["targets"]
        assert target["expr"] == f'{left}{{job=~"$job", slo="{objective}"}}'
        assert panel["timeFrom"] == "30d", "the window of the objectives, whatever the dashboard shows"
    assert len(objectives) == sum(title.startswith("Budget left: ") for title in panels)


@each_panel
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["title"] and panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["datasource"] == OF_PROMETHEUS
    assert panel["targets"]
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)
    for target in panel["targets"]:
        assert target["legendFormat"] or panel["type"] == "table"


@each_panel
def test_a_panel_asks_for_metrics_and_labels_that_there_are_of_the_chosen_instances(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        query = target["expr"]
        assert unknown_in_query(query) == set()
        # Each selector; what is recorded is of a whole job.
        for name, selector in re.findall(r"\b([a-z_]+(?::[a-z_0-9]+)*|ALERTS)\{([^}]*)\}", query):
            assert 'job=~"$job' in selector, query
            assert 'instance=~"$instance"' in selector or ":" in name or name == "ALERTS", query
        metrics = re.sub(r"\b(?:by|on|group_left) ?\([^)]*\)|\{[^}]*\}", lambda found: found[0][0], query)
        assert not re.findall(r"\b(?:chat_|gen_ai_|process_|python_|slo:)[\w:]+(?![\w:{])", metrics), "no selector"
        assert "rate(" not in query or "$__rate_interval" in query
        # The legend tells series apart by labels that the query leaves.
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert all(label in query or label in {"instance", "worker", "slo"} for label in shown), query


@each_panel
def test_the_links_of_a_panel_lead_somewhere(panel: dict[str, Any]) -> None:
    for link in panel.get("links", []):
        runbook = re.fullmatch(r"\$\{runbooks\}/([a-zA-Z-]+\.md)", link["url"])
        other = re.match(r"/d/agentic-(\w+)\?", link["url"])
        assert runbook or other, link
        assert not runbook or (CHECKOUT / "docs" / "runbooks" / runbook[1]).exists(), link
        assert not other or other[1] in NAMES, link


def test_every_metric_is_on_a_dashboard() -> None:
    asked = " ".join(target["expr"] for panel in panels() for target in panel.values[0]["targets"])
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in METRICS}
    assert {name for name in names if not re.search(rf"\b{name}\b|\b{name}_(bucket|count|sum)\b", asked)} == {
        # `Calls that fail, by tool` tells the same, with more labels.
        "chat_tool_failures_total",
        "chat_tool_refusals_total",
    }
