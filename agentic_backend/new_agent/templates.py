"""The templates of new agents: folders of files, written as they would be for an agent called `new-agent`."""

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


def rendered(template: TemplateName, name: AgentName) -> Rendered:
    texts = {path.name: name.put_into(path.read_text("utf-8")) for path in sorted((_FOLDER / template).glob("*.*"))}
    modules = {name.put_into(file): text for file, text in texts.items() if file.endswith(".py")}
    return Rendered(modules, texts["entry.yaml"], texts.get("settings.yaml", ""))
