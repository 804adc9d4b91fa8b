"""Rules, alerts, objectives and runbooks under test: each alert has its runbook, and fires and is silent as it should.

promtool runs the rules' own tests, config/prometheus/rules/tests. What is asked of Prometheus, in rules and in the
documents, names metrics and labels that there are.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from services.promtool import promtool
from support.documented_metrics import LABELS_OF_THE_CLIENT, METRICS, OF_THE_CLIENT, unknown_in, unknown_in_query

CHECKOUT = Path(__file__).parents[1]
PROMETHEUS, DOCS = CHECKOUT / "config" / "prometheus", CHECKOUT / "docs"
RULES = sorted((PROMETHEUS / "rules").glob("*.yaml"))
CASES = sorted((PROMETHEUS / "rules" / "tests").glob("*.yaml"))
RUNBOOKS = sorted(path for path in (DOCS / "runbooks").glob("*.md") if path.name != "README.md")
INDEX = DOCS / "runbooks" / "README.md"
SECTIONS = ["What users feel", "What to look at", "What ends it"]
SECTION_OF_A_RUNBOOK = re.compile(r"^## (.+)\n\n(?:.+\n|\n(?!## ))+", re.MULTILINE)
QUERIES = re.compile(r"^ *```promql\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LOG_LINES = re.compile(r"^- Log: ((?:.|\n(?!-|\n))+)", re.MULTILINE)
SERIES = re.compile(r"([a-z_:]+)\{([^}]*)\}")


def rules() -> Iterator[dict[str, Any]]:
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in rules() if "alert" in rule}


def name_of_runbook(alert: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", alert).lower() + ".md"


def test_promtool_finds_nothing_wrong_with_configuration_and_rules() -> None:
    is_valid, said = promtool("check", "config", str(PROMETHEUS / "prometheus.yaml"))
    assert is_valid, said
    # `check config` looks at the rules that it names; without them it is content too.
    assert all(f"Checking {path}" in said for path in RULES), said


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_alerts_fire_and_are_silent(path: Path) -> None:
    is_passed, said = promtool("test", "rules", str(path))
    assert is_passed, said


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    fires, silent = set(), set()
    for path in CASES:
        for case in yaml.safe_load(path.read_text())["tests"]:
            for expected in case.get("alert_rule_test", []):
                (fires if expected.get("exp_alerts") else silent).add(expected["alertname"])
    assert fires == silent == set(ALERTS)


def test_the_cases_are_made_of_series_that_there_are() -> None:
    for path in CASES:
        for case in yaml.safe_load(path.read_text())["tests"]:
            for each in case["input_series"]:
                found = SERIES.fullmatch(each["series"])
                assert found, each
                name, labels = found[1], set(re.findall(r"(\w+)=", found[2])) - {"job", "instance", "le"}
                known = name == "up" or OF_THE_CLIENT.fullmatch(name)
                assert labels - LABELS_OF_THE_CLIENT == set() if known else labels == METRICS[name], each


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_it_is_and_where_to_read_on(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert "for" in rule
    assert rule["annotations"]["runbook_url"] == "{{ $externalLabels.runbooks }}/" + name_of_runbook(alert)
    summary = rule["annotations"]["summary"]
    assert summary.endswith((".", "{{ end }}"))
    assert re.search(r"\$labels\.(?:instance|job|dependency|gen_ai_\w+)", summary), "it names what is sick"
    assert (DOCS / "runbooks" / name_of_runbook(alert)).exists()


def test_the_place_of_the_runbooks_is_configured() -> None:
    configured = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())
    assert re.match(r"https://.+[^/]$", configured["global"]["external_labels"]["runbooks"])


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_each_runbook_is_of_an_alert_and_says_what_has_to_be_known(path: Path) -> None:
    text = path.read_text()
    alert = text.splitlines()[0].removeprefix("# ")
    assert alert in ALERTS
    assert path.name == name_of_runbook(alert)
    assert SECTION_OF_A_RUNBOOK.findall(text) == SECTIONS
    assert len(text.splitlines()) <= 40
    events = {line.split("|")[1].strip(" `") for line in (DOCS / "logs.md").read_text().splitlines() if "| `" in line}
    # Fields of events stand in brackets.
    named = [event for line in LOG_LINES.findall(text) for event in re.findall(r"`([^`]+)`", events_only(line))]
    assert set(named) - events == set()


def events_only(line: str) -> str:
    """What a log line of a runbook names before its explanation, without the events' fields."""
    return re.sub(r": [^;]*", "", re.sub(r"\([^)]*\)", "", line.replace("\n", " ")))


def test_the_index_has_each_alert_with_its_severity() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\(([a-z-]+\.md)\) \| (\w+) \|", INDEX.read_text(), re.MULTILINE)
    assert listed == [(alert, name_of_runbook(alert), rule["labels"]["severity"]) for alert, rule in ALERTS.items()]


@pytest.mark.parametrize("rule", list(rules()), ids=lambda rule: rule.get("alert", rule.get("record")))
def test_rules_ask_for_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    assert unknown_in_query(rule["expr"]) == set()


@pytest.mark.parametrize("path", [DOCS / "slo.md", INDEX, *RUNBOOKS], ids=lambda path: path.stem)
def test_documents_ask_for_metrics_and_labels_that_there_are(path: Path) -> None:
    text = path.read_text()
    assert set().union(*(unknown_in_query(query) for query in QUERIES.findall(text))) == set()
    assert unknown_in("\n".join(re.findall(r"`([^`\n]+)`", QUERIES.sub("", text)))) == set()
    for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
        assert (path.parent / target).exists(), target


def test_prometheus_understands_every_query_of_the_documents(tmp_path: Path) -> None:
    # One on each line; indented lines go on with the one before.
    queries = [
        query
        for path in [DOCS / "slo.md", *RUNBOOKS]
        for block in QUERIES.findall(path.read_text())
        for query in re.split(r"\n(?! |\))", dedent(block).strip())
    ]
    assert len(queries) > len(RUNBOOKS)
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    rules_file = tmp_path / "queries.yaml"
    rules_file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    is_valid, said = promtool("check", "rules", str(rules_file))
    assert is_valid, said


def test_the_objectives_are_the_budgets_of_the_rules() -> None:
    """A row of the table: `| name | ... | 99.9 % | 0.1 % | ...`."""
    rows = re.findall(r"^\| \[?`(\w+)`.*\| ([\d.]+) % \| ([\d.]+) % \|", (DOCS / "slo.md").read_text(), re.MULTILINE)
    told = {name: (float(objective), float(budget)) for name, objective, budget in rows}
    budgets = {
        rule["labels"]["slo"]: float(rule["expr"].removeprefix("vector(").removesuffix(")"))
        for rule in rules()
        if rule.get("record") == "slo:error_budget:ratio"
    }
    assert {name: budget for name, (_, budget) in told.items()} == pytest.approx(
        {name: budget * 100 for name, budget in budgets.items()}
    )
    assert all(objective + budget == pytest.approx(100) for objective, budget in told.values())
