"""The templates of new agents and applications: folders of files, written as they would be for a `new-agent`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from agentic_backend.new_agent.agent_name import AgentName

TemplateName = Literal["yaml", "graph", "create_agent", "leader", "mcp", "approval"]
TEMPLATES: tuple[TemplateName, ...] = get_args(TemplateName)

_FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template with an agent's name."""

    modules: dict[str, str]
    """Python files by their names."""
    entries: str
    """Entries of the list `agents` of the catalog."""
    mcp_servers: str = ""
    """Entries of the mapping `mcp_servers` of the settings; empty if the agent needs none."""


@dataclass(frozen=True, slots=True)
class RenderedApplication:
    """The template of an application with its name."""

    modules: dict[str, str]
    """Python files by their names."""
    entries: str
    """Entries of the list `applications` of the settings."""


def rendered_application(name: AgentName) -> RenderedApplication:
    texts = _texts("application", name)
    return RenderedApplication(_modules(texts, name), texts["settings.yaml"])


def rendered(template: TemplateName, name: AgentName) -> Rendered:
    texts = _texts(template, name)
    return Rendered(_modules(texts, name), texts["entry.yaml"], texts.get("settings.yaml", ""))


def _texts(template: str, name: AgentName) -> dict[str, str]:
    return {path.name: name.put_into(path.read_text("utf-8")) for path in sorted((_FOLDER / template).glob("*.*"))}


def _modules(texts: dict[str, str], name: AgentName) -> dict[str, str]:
    return {name.put_into(file): text for file, text in texts.items() if file.endswith(".py")}
