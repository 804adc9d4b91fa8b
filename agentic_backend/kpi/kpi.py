"""All metrics of an instance, by what they are about; owned by the application.

Labels have bounded values: agent, status, outcome, tool, model, operation. Never a session, exchange or user: those are
in the store's KPI records, in the logs, and in exemplars. docs/metrics.md explains each metric.
"""

from uuid import uuid4

from agentic_backend.kpi.groups.agents import AgentMetrics
from agentic_backend.kpi.groups.applications import ApplicationMetrics
from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.kpi.groups.calls import CallMetrics
from agentic_backend.kpi.groups.connections import ConnectionMetrics
from agentic_backend.kpi.groups.dependencies import DependencyMetrics
from agentic_backend.kpi.groups.exchanges import ExchangeMetrics
from agentic_backend.kpi.groups.models import ModelMetrics
from agentic_backend.kpi.groups.modules import ModuleMetrics
from agentic_backend.kpi.groups.process import ProcessMetrics
from agentic_backend.kpi.groups.refusals import RefusalMetrics
from agentic_backend.kpi.groups.reloads import ReloadMetrics
from agentic_backend.kpi.groups.sessions import SessionMetrics
from agentic_backend.kpi.registry import MetricsRegistry
from agentic_backend.kpi.snapshot import Snapshot


class Kpi:
    def __init__(self) -> None:
        metrics = MetricsRegistry()
        self._metrics = metrics
        # Another one in each process.
        self._process = uuid4().hex
        self.exposition = metrics.exposition
        self.declared = metrics.declared
        self.exchanges = ExchangeMetrics(metrics)
        self.sessions = SessionMetrics(metrics)
        self.connections = ConnectionMetrics(metrics)
        self.refusals = RefusalMetrics(metrics)
        self.calls = CallMetrics(metrics)
        self.agents = AgentMetrics(metrics)
        self.models = ModelMetrics(metrics)
        self.modules = ModuleMetrics(metrics)
        self.applications = ApplicationMetrics(metrics)
        self.reloads = ReloadMetrics(metrics)
        self.dependencies = DependencyMetrics(metrics)
        self.broadcast = BroadcastMetrics(metrics)
        self.process = ProcessMetrics(metrics)

    def snapshot(self) -> Snapshot:
        """The metrics as they are now, to be merged with those of other processes."""
        return Snapshot.of(self._process, self._metrics.collect(), self.declared)
