"""What agents of the database may name of Python code, before and after it is imported."""

import os

import pytest
from support import reexporting

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.catalog.allowed_code import AllowedCode
from agentic_backend.agents.catalog.catalog_schema import SHIPPED_CLASSES
from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.config.topics.database_agents import SAFE_CLASSES


@pytest.mark.parametrize(
    ("pattern", "name", "is_allowed"),
    [
        ("acme.agents:*", "acme.agents:helper", True),
        ("acme.agents:*", "acme.agents.helper", True),
        ("acme.agents:*", "acme.agents.sub:helper", False),
        ("acme.agents:*", "acme.agents_evil:helper", False),
        ("acme.agents:helper", "acme.agents:helper2", False),
        ("acme.agents.*", "acme.agents:helper", True),
        ("acme.agents.*", "acme.agents.sub:helper", True),
        ("acme.agents.*", "acme.agents_evil:helper", False),
        ("acme.agents.*", "acme:agents", False),
        ("acme.agents.helper", "acme.agents:helper", True),
        ("acme.agents.helper", "acme.agents.helper:run", False),
        ("acme.*:build_*", "acme.a.b:build_it", True),
        ("acme.*:build_*", "acme.a.b:destroy", False),
        ("acme:*", "ACME:helper", False),
        ("*", "os:system", True),
    ],
)
def test_a_pattern_allows_what_it_fits_in_both_forms_of_a_name(pattern: str, name: str, is_allowed: bool) -> None:
    assert AllowedCode([pattern]).allows(name) is is_allowed


@pytest.mark.parametrize("name", ["system", "shell", "Popen", "os", "echo_graph", "missing"])
def test_what_a_module_has_only_imported_is_not_its_own(name: str) -> None:
    allowed = AllowedCode(["support.reexporting:*"])
    with pytest.raises(ClassPathError, match="comes from another module"):
        allowed.require_own(f"support.reexporting:{name}", getattr(reexporting, name, os.system))


def test_what_is_imported_from_an_allowed_place_may_be_named() -> None:
    both = AllowedCode(["support.reexporting:*", "agentic_backend.agents.agent_flow:AgentFlow"])
    both.require_own("agentic_backend.agents.agent_flow:AgentFlow", AgentFlow)
    both.require_own("agentic_backend.agents.agent_manager:AgentFlow", AgentFlow)


def test_the_default_allows_shipped_classes_without_those_that_read_files_and_the_log() -> None:
    allowed = AllowedCode(SAFE_CLASSES)
    refused = [name.rpartition(":")[2] for name in SHIPPED_CLASSES if not allowed.allows(name)]
    assert refused == ["DocumentationExpert", "SentinelExpert"]
