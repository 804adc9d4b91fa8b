"""docker-compose.yaml fits the server, the image, the realm, and itself. No engine reads it here."""

import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from services.keycloak import Keycloak
from support.dockerfile import instructions

from agentic_backend.config.loading import load_settings
from agentic_backend.config.settings import Settings

CHECKOUT = Path(__file__).parents[1]
COMPOSED: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSED["services"]
SECRET = re.compile(r"\$\{(\w+):\?[^}]+\}")
SERVER, KEYCLOAK = SERVICES["server"]["environment"], SERVICES["keycloak"]["environment"]


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of the server's container: the image's environment, and the service's over it."""
    image = [
        word.split("=", 1)
        for step in instructions(CHECKOUT / "Dockerfile")
        if step.keyword == "ENV"
        for word in step.words
    ]
    for name, value in {**dict(image), **SERVER}.items():
        if name.startswith("AGENTIC_"):
            monkeypatch.setenv(name, SECRET.sub("s3cret", value))
    return load_settings(None, {})


def test_the_server_understands_its_environment(settings: Settings) -> None:
    assert settings.auth.mode == "keycloak"
    assert (settings.server.host, settings.server.internal_host) == ("0.0.0.0", "0.0.0.0")
    assert settings.store.url == "mongodb://agentic:s3cret@mongodb:27017/agentic?authSource=admin"


def test_each_user_has_limits_though_nothing_is_set(settings: Settings) -> None:
    assert not any("LIMITS" in name for name in SERVER)
    limits = settings.limits.model_dump()
    assert all(limits[name] for name in limits if name.endswith("_per_user") or name == "asks_per_minute")


def test_it_stops_only_when_all_that_runs_has_had_its_time(settings: Settings) -> None:
    seconds = int(SERVICES["server"]["stop_grace_period"].removesuffix("s"))
    assert seconds > settings.server.grace_s + settings.agents.close_timeout_s


def test_tokens_name_the_keycloak_that_browsers_see_and_the_server_reaches_the_same_one(settings: Settings) -> None:
    public, internal = settings.auth.keycloak.realm_url, settings.auth.keycloak.internal_url
    assert public is not None and internal is not None
    assert public == f"{KEYCLOAK['KC_HOSTNAME']}{urlsplit(internal).path}"
    assert SERVICES["keycloak"]["ports"] == [f"127.0.0.1:{urlsplit(public).port}:{urlsplit(internal).port}"]
    assert urlsplit(internal).hostname in SERVICES
    assert KEYCLOAK["KC_HOSTNAME_BACKCHANNEL_DYNAMIC"] == "true"


def test_the_realm_that_is_imported_is_the_one_that_the_server_asks_for(settings: Settings) -> None:
    [imported] = SERVICES["keycloak"]["volumes"]
    source, target, mode = imported.split(":")
    assert (target, mode) == ("/opt/keycloak/data/import", "ro")
    assert "--import-realm" in SERVICES["keycloak"]["command"]
    realm = yaml.safe_load((CHECKOUT / source / "agentic-realm.json").read_text())
    assert str(settings.auth.keycloak.realm_url).endswith(f"/realms/{realm['realm']}")
    clients = {client["clientId"] for client in realm["clients"]}
    assert {settings.auth.keycloak.client_id, settings.auth.keycloak.audience} <= clients


def test_the_database_has_the_user_that_the_server_is(settings: Settings) -> None:
    database = urlsplit(str(settings.store.url))
    made = SERVICES["mongodb"]["environment"]
    assert database.username == made["MONGO_INITDB_ROOT_USERNAME"]
    assert SECRET.findall(made["MONGO_INITDB_ROOT_PASSWORD"]) == SECRET.findall(SERVER["AGENTIC_STORE__URL"])
    assert database.hostname in SERVICES


def test_the_workers_have_a_redis_between_them(settings: Settings) -> None:
    assert settings.server.workers > 1
    assert urlsplit(str(settings.broadcast.url)).hostname in SERVICES


def test_no_password_has_a_default() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET", name):
                assert SECRET.fullmatch(value), name
            assert "${" not in SECRET.sub("", value or ""), name


def test_only_the_page_and_keycloak_can_be_reached_and_only_from_this_machine() -> None:
    published = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert published == {
        "server": ["127.0.0.1:8000:8000"],
        "keycloak": ["127.0.0.1:8080:8080"],
        "mongodb": [],
        "redis": [],
        "prometheus": ["127.0.0.1:9090:9090"],
        "grafana": ["127.0.0.1:3000:3000"],
    }


def test_the_server_may_do_no_more_than_it_needs() -> None:
    server = SERVICES["server"]
    assert server["build"] == "."
    assert server["read_only"] is True and server["tmpfs"] == ["/tmp"]
    assert server["cap_drop"] == ["ALL"]
    for service in SERVICES.values():
        assert "no-new-privileges:true" in service["security_opt"]
        assert not service.get("privileged")


def test_who_is_waited_for_says_when_it_is_healthy() -> None:
    for service in SERVICES.values():
        for name, needed in service.get("depends_on", {}).items():
            assert needed == {"condition": "service_healthy"}
            assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_every_image_is_pinned_by_its_digest_and_keeps_its_tag() -> None:
    """The digest says which image it is, whatever the tag is moved to; the tag says where the next one is found."""
    images = {name: service["image"] for name, service in SERVICES.items() if "image" in service}
    assert set(images) == set(SERVICES) - {"server"}
    steps = [step.words[0] for step in instructions(CHECKOUT / "Dockerfile") if step.keyword == "FROM"]
    assert len(set(steps)) == 1, "what is built and what it runs on is one image"
    for image in [*images.values(), *steps]:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image), image


def mounted(name: str) -> dict[str, Path]:
    """What a service has of the checkout, by its place in the container."""
    volumes = [volume.split(":") for volume in SERVICES[name]["volumes"]]
    bound = {
        target: CHECKOUT / source for source, target, *mode in volumes if source.startswith("./") and mode == ["ro"]
    }
    kept = {source for source, *_ in volumes if not source.startswith("./")}
    assert kept <= COMPOSED["volumes"].keys() and len(bound) + len(kept) == len(volumes)
    return bound


def test_monitoring_is_started_only_where_it_is_asked_for() -> None:
    asked_for = {name for name, service in SERVICES.items() if service.get("profiles")}
    assert asked_for == {"prometheus", "grafana"}
    for name in SERVICES.keys() - asked_for:
        assert not asked_for & SERVICES[name].get("depends_on", {}).keys()


def test_prometheus_scrapes_the_server_by_a_name_that_it_answers_to(settings: Settings) -> None:
    [configuration] = [word for word in SERVICES["prometheus"]["command"] if word.startswith("--config.file=")]
    place, name = configuration.removeprefix("--config.file=").rsplit("/", 1)
    read = yaml.safe_load((mounted("prometheus")[place] / name).read_text())
    targets = [target for job in read["scrape_configs"] for each in job["static_configs"] for target in each["targets"]]
    # One port tells of all workers.
    assert targets == [f"server:{settings.server.internal_port}"]
    for target in targets:
        host = target.partition(":")[0]
        assert host in SERVICES and host in settings.server.allowed_hosts


def test_prometheus_keeps_the_month_of_the_objectives() -> None:
    [kept] = [word for word in SERVICES["prometheus"]["command"] if "retention.time=" in word]
    assert f"`{kept}`" in (CHECKOUT / "docs" / "slo.md").read_text()
    rules = (CHECKOUT / "config" / "prometheus" / "rules" / "recording.yaml").read_text()
    longest_days = max(map(int, re.findall(r"\[(\d+)d(?::\w+)?\]", rules)))
    assert int(kept.rpartition("=")[2].removesuffix("d")) > longest_days


def test_grafana_finds_its_prometheus_and_its_dashboards() -> None:
    places = mounted("grafana")
    provisioning = places["/etc/grafana/provisioning"]
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    url = urlsplit(source["url"])
    assert url.hostname == "prometheus" and SERVICES["prometheus"]["ports"][0].endswith(f":{url.port}")
    [provider] = yaml.safe_load((provisioning / "dashboards" / "files.yaml").read_text())["providers"]
    assert places[provider["options"]["path"]] == CHECKOUT / "config" / "grafana" / "dashboards"
    assert SERVICES["grafana"]["ports"] == ["127.0.0.1:3000:3000"], "it asks nobody for a password"


@pytest.mark.keycloak
@pytest.mark.timeout(120, func_only=True)
def test_the_health_check_of_keycloak_tells_a_realm_that_is_there_from_one_that_is_not(keycloak: Keycloak) -> None:
    def status(script: str) -> int:
        return subprocess.run([*command, script], capture_output=True, timeout=35).returncode

    _, *command, script = SERVICES["keycloak"]["healthcheck"]["test"]
    here = script.replace("$$", "$").replace("/8080", f"/{keycloak.port}")
    assert status(here) == 0
    assert status(here.replace("/realms/agentic", "/realms/nowhere")) != 0
    assert status(script.replace("$$", "$").replace("/8080", "/1")) != 0
