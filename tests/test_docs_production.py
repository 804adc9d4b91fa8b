"""What is said of production can be done: its variables are settings, its files are there, its example is valid."""

import re
from pathlib import Path

import pytest
import yaml
from support.dockerfile import instructions
from support.shell_commands import is_setting

from agentic_backend.config.loading import documented_settings, load_settings
from agentic_backend.config.settings import Settings

CHECKOUT = Path(__file__).parents[1]
GUIDE, README, DOCKERFILE = CHECKOUT / "docs" / "production.md", CHECKOUT / "README.md", CHECKOUT / "Dockerfile"
EXAMPLES = CHECKOUT / "config" / "production.yaml"
SETTINGS = dict(documented_settings())


@pytest.mark.parametrize("document", [GUIDE, README, DOCKERFILE, EXAMPLES], ids=lambda path: path.name)
def test_every_variable_is_a_setting(document: Path) -> None:
    variables = set(re.findall(r"\bAGENTIC_\w+", document.read_text()))
    assert variables
    assert [variable for variable in variables if not is_setting(variable)] == []


@pytest.mark.parametrize("document", [GUIDE, README], ids=lambda path: path.name)
def test_every_setting_that_is_named_is_one(document: Path) -> None:
    sections = "|".join(name for name in Settings.model_fields)
    named = set(re.findall(rf"`((?:{sections})\.[a-z_.<>]+)`", document.read_text()))
    assert sorted(named - set(SETTINGS)) == []


def test_the_example_is_valid_and_keeps_secrets_out() -> None:
    settings = load_settings(EXAMPLES, {})
    assert settings.auth.mode == "keycloak"
    assert settings.auth.keycloak.client_secret is None and settings.store.url is None


def test_files_that_the_guide_leads_to_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", GUIDE.read_text()):
        # The figures are written by `make bench`.
        assert (GUIDE.parent / target).exists() or target.endswith("bench/RESULTS.md"), target


def test_the_guide_s_sections_are_the_ones_it_lists() -> None:
    text = GUIDE.read_text()
    anchors = [
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.+)$", text, re.MULTILINE)
    ]
    assert re.findall(r"^- \[[^]]+\]\(#([^)]+)\)$", text, re.MULTILINE) == anchors


def test_the_pods_of_the_guide_ask_the_internal_port_of_the_image() -> None:
    pod = yaml.safe_load(
        re.findall(r"^```yaml\n# Kubernetes.*?^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[0][7:-3]
    )
    [environment] = [step.words for step in instructions(DOCKERFILE) if step.keyword == "ENV"]
    internal_port = int(dict(word.split("=", 1) for word in environment)["AGENTIC_SERVER__INTERNAL_PORT"])
    [container] = pod["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == internal_port
    settings = Settings()
    assert pod["terminationGracePeriodSeconds"] > settings.server.grace_s + settings.agents.close_timeout_s
