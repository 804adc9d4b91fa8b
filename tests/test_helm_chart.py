"""The chart, rendered by Helm and read by Kubernetes' own types: it fits the server, the image, and the guide.

No cluster runs it here.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from services.helm import helm_build
from services.promtool import promtool
from support.dockerfile import instructions
from support.production_guide import largest_body

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.config.loading import load_settings
from agentic_backend.config.secret_files import read_secret_files
from agentic_backend.config.settings import Settings

pytestmark = pytest.mark.helm

CHECKOUT = Path(__file__).parents[1]
CHART = CHECKOUT / "config" / "helm" / "agentic-backend"
# The version whose types `manifests` has; with Go's build, Helm itself knows none.
KUBERNETES = "1.34"
HELM_S = 60
FLEET, SINGLE = (CHART / "ci" / name for name in ("production.yaml", "single.yaml"))
RULES = CHECKOUT / "config" / "prometheus" / "rules"
DASHBOARDS = sorted((CHECKOUT / "config" / "grafana" / "dashboards").glob("*.json"))
# Of the values in ci/production.yaml.
RUNBOOKS = "https://git.example.org/operations/runbooks"

Object = dict[str, Any]


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(helm_build() / "helm"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HELM_S)


def template(values: Path, *sets: str) -> subprocess.CompletedProcess[str]:
    options = [option for each in sets for option in ("--set", each)]
    return helm("template", "chat", CHART, "--kube-version", KUBERNETES, "--values", values, *options)


def rendered(values: Path, *sets: str) -> dict[str, Object]:
    """The objects by kind, those not named as the release by kind and name; each is one that Kubernetes knows."""
    done = template(values, *sets)
    assert done.returncode == 0, done.stderr
    read = subprocess.run(
        [helm_build() / "manifests"], input=done.stdout, capture_output=True, text=True, timeout=HELM_S
    )
    assert read.returncode == 0, read.stderr
    objects: dict[str, Object] = {}
    for made in yaml.safe_load_all(done.stdout):
        if made is not None:
            named = f"{made['kind']} {made['metadata']['name']}"
            kind = made["kind"] if made["metadata"]["name"] == "chat" else named
            objects[kind] = made
    assert len(objects) == len(read.stdout.split())
    return objects


@pytest.fixture(scope="module")
def fleet() -> dict[str, Object]:
    return rendered(FLEET)


@pytest.fixture(scope="module")
def single() -> dict[str, Object]:
    return rendered(SINGLE)


def pod(objects: dict[str, Object]) -> Object:
    spec: Object = objects["Deployment"]["spec"]["template"]["spec"]
    return spec


def container(objects: dict[str, Object]) -> Object:
    [only] = pod(objects)["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("values", [FLEET, SINGLE], ids=lambda path: path.stem)
def test_helm_finds_no_fault(values: Path) -> None:
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_field_that_no_kind_has_is_found() -> None:
    done = template(FLEET)
    wrong = done.stdout.replace("enableServiceLinks:", "enableServicesLinks:")
    read = subprocess.run([helm_build() / "manifests"], input=wrong, capture_output=True, text=True, timeout=HELM_S)
    assert read.returncode == 1 and 'unknown field "spec.template.spec.enableServicesLinks"' in read.stderr


def test_what_is_made_is_what_the_values_say(fleet: dict[str, Object], single: dict[str, Object]) -> None:
    both = {"ServiceAccount", "ConfigMap", "Service", "Service chat-internal", "Deployment", "PodDisruptionBudget"}
    assert set(fleet) == both | {
        *("NetworkPolicy", "HorizontalPodAutoscaler", "Ingress", "ServiceMonitor"),
        *("PrometheusRule chat-alerts", "PrometheusRule chat-recording"),
        *(f"ConfigMap chat-dashboard-{path.stem}" for path in DASHBOARDS),
    }
    assert set(single) == both | {"Secret", "PersistentVolumeClaim"}


def test_the_server_takes_its_settings_secrets_and_catalog(
    fleet: dict[str, Object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"AGENTIC_STORE__URL": "mongodb://db/agentic", "AGENTIC_BROADCAST__URL": "redis://redis/0"}
    [image] = [dict(word.split("=", 1) for word in step.words) for step in steps("ENV")]
    set_here = {each["name"]: each["value"] for each in container(fleet)["env"]}
    environment = {name: value for name, value in {**image, **set_here}.items() if name.startswith("AGENTIC_")}
    for name, value in given.items():
        mounted = Path(environment[f"{name}_FILE"])
        assert str(mounted.parent) == mounts(fleet)["secrets"]
        (tmp_path / mounted.name).write_text(value)
        environment[f"{name}_FILE"] = str(tmp_path / mounted.name)
    read_secret_files(environment)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name, content in fleet["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(content)
    settings = load_settings(tmp_path / "settings.yaml", {})
    assert settings.store.url == given["AGENTIC_STORE__URL"]
    assert settings.auth.mode == "keycloak"
    assert settings.server.allowed_hosts == ("chat.example.org",)
    assert settings.server.allowed_origins == ("https://chat.example.org",)
    assert Path(mounts(fleet)["config"]).name == "config" and settings.catalog == Path("config/agents_catalog.yaml")
    agents = AgentManager.load(tmp_path / "agents_catalog.yaml", settings.models.keys())
    assert not agents.problems and len(agents.served()) == 1


def steps(keyword: str) -> list[Any]:
    return [step for step in instructions(CHECKOUT / "Dockerfile") if step.keyword == keyword]


def mounts(objects: dict[str, Object]) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}


def test_a_pod_has_the_time_to_drain_that_its_settings_ask_for() -> None:
    objects = rendered(FLEET, "drain.graceSeconds=300", "drain.sleepSeconds=7")
    environment = {each["name"]: each.get("value") for each in container(objects)["env"]}
    grace_s, close_s = (
        float(environment[name]) for name in ("AGENTIC_SERVER__GRACE_S", "AGENTIC_AGENTS__CLOSE_TIMEOUT_S")
    )
    assert grace_s == 300
    assert container(objects)["lifecycle"]["preStop"] == {"sleep": {"seconds": 7}}
    assert pod(objects)["terminationGracePeriodSeconds"] > grace_s + close_s + 7


def test_by_default_the_drain_is_the_server_s(fleet: dict[str, Object]) -> None:
    environment = {each["name"]: each.get("value") for each in container(fleet)["env"]}
    settings = Settings()
    assert float(environment["AGENTIC_SERVER__GRACE_S"]) == settings.server.grace_s
    assert float(environment["AGENTIC_AGENTS__CLOSE_TIMEOUT_S"]) == settings.agents.close_timeout_s


def test_probes_are_those_of_the_guide(fleet: dict[str, Object]) -> None:
    guide = (CHECKOUT / "docs" / "production.md").read_text()
    documented = yaml.safe_load(guide.partition("```yaml\n# Kubernetes, in the pod's spec\n")[2].partition("```")[0])
    ports = {port["name"]: port["containerPort"] for port in container(fleet)["ports"]}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe, told = container(fleet)[name], documented["containers"][0][name]
        port = ports[probe["httpGet"].pop("port")]
        assert {**probe, "httpGet": {**probe["httpGet"], "port": port}} == told
        probe["httpGet"]["port"] = "internal"
        assert probe["timeoutSeconds"] > Settings().health.ready_timeout_s


def test_a_pod_may_do_no_more_than_it_needs(fleet: dict[str, Object]) -> None:
    assert container(fleet)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    context = pod(fleet)["securityContext"]
    [user] = steps("USER")
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user.rest
    assert context["runAsNonRoot"] is True and context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(fleet)["automountServiceAccountToken"] is False
    assert fleet["ServiceAccount"]["automountServiceAccountToken"] is False
    # What the image writes to.
    [volume] = steps("VOLUME")
    assert {mounts(fleet)["data"], mounts(fleet)["tmp"]} == {volume.rest, "/tmp"}


def test_secrets_are_files_and_in_no_variable(fleet: dict[str, Object], single: dict[str, Object]) -> None:
    names = {item["key"] for volume in pod(single)["volumes"] for item in volume.get("secret", {}).get("items", [])}
    assert names == set(single["Secret"]["stringData"]) == {"OPENAI_API_KEY"}
    for objects in (fleet, single):
        assert not any("valueFrom" in each or each["name"] in names for each in container(objects)["env"])
    assert "only: for a trial" not in yaml.safe_dump(single["Deployment"])
    assert "Secret" not in fleet


def test_a_change_of_settings_or_of_a_secret_rolls_the_pods(single: dict[str, Object]) -> None:
    def checksums(objects: dict[str, Object]) -> dict[str, str]:
        return dict(objects["Deployment"]["spec"]["template"]["metadata"]["annotations"])

    before = checksums(single)
    settings = checksums(rendered(SINGLE, "settings.log.level=warning"))
    secret = checksums(rendered(SINGLE, "secrets.values.OPENAI_API_KEY=another"))
    assert before["checksum/config"] != settings["checksum/config"]
    assert before["checksum/secret"] != secret["checksum/secret"]
    assert before["checksum/secret"] == settings["checksum/secret"]


def test_pods_are_scaled_by_a_metric_that_the_server_has_and_the_readme_has_its_rule(fleet: dict[str, Object]) -> None:
    scaler = fleet["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == fleet["Deployment"]["metadata"]["name"]
    assert "replicas" not in fleet["Deployment"]["spec"], "it would undo what the autoscaler does"
    [metric] = [each["pods"]["metric"]["name"] for each in scaler["metrics"]]
    assert f"| `{metric}` | gauge |" in (CHECKOUT / "docs" / "metrics.md").read_text()
    [rule] = yaml.safe_load((CHART / "README.md").read_text().rpartition("```yaml\n")[2].partition("```")[0])["rules"]
    assert rule["name"]["matches"] == f"^{metric}$" and rule["seriesQuery"].startswith(f"{metric}{{")
    average = int(scaler["metrics"][0]["pods"]["target"]["averageValue"])
    assert average < Settings().limits.max_running


def test_what_selects_finds_the_pods(fleet: dict[str, Object]) -> None:
    labels = fleet["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    monitored = fleet["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    for selector in (
        fleet["Deployment"]["spec"]["selector"]["matchLabels"],
        fleet["Service"]["spec"]["selector"],
        fleet["Service chat-internal"]["spec"]["selector"],
        fleet["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        fleet["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in pod(fleet)["topologySpreadConstraints"]),
    ):
        assert selector.items() <= labels
    assert monitored.items() <= fleet["Service chat-internal"]["metadata"]["labels"].items()
    assert not monitored.items() <= fleet["Service"]["metadata"]["labels"].items()
    [endpoint] = fleet["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in fleet["Service chat-internal"]["spec"]["ports"]}


def test_who_may_reach_which_port(fleet: dict[str, Object]) -> None:
    ports = {port["name"]: port["containerPort"] for port in container(fleet)["ports"]}
    environment = dict(word.split("=", 1) for step in steps("ENV") for word in step.words)
    assert str(ports["public"]) == environment["AGENTIC_SERVER__PORT"]
    assert str(ports["internal"]) == environment["AGENTIC_SERVER__INTERNAL_PORT"]
    allowed = {
        rule["ports"][0]["port"]: rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for rule in fleet["NetworkPolicy"]["spec"]["ingress"]
    }
    assert allowed == {"public": "ingress-nginx", "internal": "monitoring"}
    out = {port["port"] for rule in fleet["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]}
    assert out == {53, 443, 27017, 6379}
    [path] = fleet["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "chat", "port": {"name": "public"}}
    body = fleet["Ingress"]["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert int(body) == largest_body(Settings().limits)


def rules_of(objects: dict[str, Object], name: str) -> tuple[Object, Object]:
    """The rules that the chart has made, and those of config/prometheus."""
    written: Object = yaml.safe_load((RULES / f"{name}.yaml").read_text())
    made: Object = objects[f"PrometheusRule chat-{name}"]
    assert made["metadata"]["labels"]["release"] == "prometheus", "else the operator does not find it"
    return made["spec"], written


def test_rules_are_those_of_prometheus_and_lead_to_the_runbooks(fleet: dict[str, Object]) -> None:
    made, written = rules_of(fleet, "recording")
    assert made == written
    made, written = rules_of(fleet, "alerts")
    urls = [rule["annotations"].pop("runbook_url") for group in made["groups"] for rule in group["rules"]]
    names = [rule["annotations"].pop("runbook_url") for group in written["groups"] for rule in group["rules"]]
    assert made == written
    assert urls == [name.replace("{{ $externalLabels.runbooks }}", RUNBOOKS) for name in names]
    for url in urls:
        assert (CHECKOUT / "docs" / "runbooks" / url.removeprefix(f"{RUNBOOKS}/")).is_file()


@pytest.mark.parametrize("name", ["alerts", "recording"])
def test_prometheus_takes_the_rules(fleet: dict[str, Object], name: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules_of(fleet, name)[0]))
    succeeded, said = promtool("check", "rules", str(tmp_path / "rules.yaml"))
    assert succeeded, said


def test_alerts_know_the_server_by_the_job_of_its_release(fleet: dict[str, Object]) -> None:
    [endpoint] = fleet["ServiceMonitor"]["spec"]["endpoints"]
    [relabeling] = endpoint["relabelings"]
    assert relabeling == {"targetLabel": "job", "replacement": "agentic-default-chat"}
    selectors = set(re.findall(r'\bjob=~"([^"]+)"', yaml.safe_dump(rules_of(fleet, "alerts")[0])))
    assert selectors
    for selector in selectors:
        assert re.fullmatch(selector, relabeling["replacement"])


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_grafana_s_sidecar_finds_the_dashboards(fleet: dict[str, Object], path: Path) -> None:
    made = fleet[f"ConfigMap chat-dashboard-{path.stem}"]
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    [(name, content)] = made["data"].items()
    assert name == f"agentic-{path.name}", "the sidecar writes all dashboards to one folder"
    dashboard, written = json.loads(content), json.loads(path.read_text())
    for each in written["templating"]["list"]:
        if each["name"] == "runbooks":
            each["query"] = RUNBOOKS
    assert dashboard == written


def test_a_single_pod_lets_go_of_its_file_before_the_next_takes_it(single: dict[str, Object]) -> None:
    assert single["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert single["Deployment"]["spec"]["replicas"] == 1
    [claim] = [each["persistentVolumeClaim"] for each in pod(single)["volumes"] if "persistentVolumeClaim" in each]
    assert claim["claimName"] == single["PersistentVolumeClaim"]["metadata"]["name"]


@pytest.mark.parametrize(
    ("values", "change", "reason"),
    [
        (FLEET, "image.repository=", "image/repository"),
        (FLEET, "image.digest=latest", "image/digest"),
        (FLEET, "replica=3", "additional properties 'replica' not allowed"),
        (FLEET, "settings.auth.mode=developer", "settings/auth/mode"),
        (FLEET, "secrets.names={OPENAI_API_KEY}", "there is no store"),
        (FLEET, "secrets.existingSecret=", "secrets.values has no AGENTIC_STORE__URL"),
        (FLEET, "runbooks=", "alerts and dashboards link to runbooks"),
        (FLEET, "runbooks=docs/runbooks", "runbooks"),
        (SINGLE, "replicas=2", "serves one pod"),
        (SINGLE, "autoscaling.enabled=true", "serves one pod"),
    ],
)
def test_values_that_would_not_serve_anybody_are_refused(values: Path, change: str, reason: str) -> None:
    done = template(values, change)
    assert done.returncode != 0 and reason in done.stderr


def test_versions_are_the_package_s() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]
