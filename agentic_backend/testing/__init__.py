"""What a test of an agent needs: models that say what it wants, and a run through all of the server but its sockets.

`agentic_backend.pytest_plugin` has the same as fixtures. See docs/testing.md.
"""

from agentic_backend.auth.user import User
from agentic_backend.testing.agent_fault import AgentFault, ScriptEnded
from agentic_backend.testing.agent_run import AgentRun, ToolUse
from agentic_backend.testing.decisions import Answers, Approve, Edit, Reject, Unanswered
from agentic_backend.testing.network import NetworkBlocked, blocked_network
from agentic_backend.testing.opened_agent import OpenedAgent, open_agent, run_agent
from agentic_backend.testing.opened_application import OpenedApplication, open_application
from agentic_backend.testing.recorded_model import NotRecorded, RecordedModel
from agentic_backend.testing.scripted_embeddings import ScriptedEmbeddings
from agentic_backend.testing.scripted_model import Call, ModelAsk, ScriptedModel, Turn, call
from agentic_backend.testing.served_catalog import ApplicationProblems, CatalogProblems

__all__ = [
    "AgentFault",
    "AgentRun",
    "Answers",
    "ApplicationProblems",
    "Approve",
    "Call",
    "CatalogProblems",
    "Edit",
    "ModelAsk",
    "NetworkBlocked",
    "NotRecorded",
    "OpenedAgent",
    "OpenedApplication",
    "RecordedModel",
    "Reject",
    "ScriptEnded",
    "ScriptedEmbeddings",
    "ScriptedModel",
    "ToolUse",
    "Turn",
    "Unanswered",
    "User",
    "blocked_network",
    "call",
    "open_agent",
    "open_application",
    "run_agent",
]
