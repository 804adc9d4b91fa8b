"""The REST calls of an agent's author: the graph of an agent, the steps of a run, and the run again from a step."""

from typing import Any, Literal

from pydantic import Field
from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import CheckpointMissing, ExchangeNotFound, LimitReached, NotFound
from agentic_backend.protocol.frames import Frame, JsonInteger
from agentic_backend.protocol.messages import Timestamp
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.sessions.reading.run_views import DrawnGraph, ShownRun
from agentic_backend.stores.protocol.trail import PromptSection
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import ASKING, OPENING, PREFIX, Operation


class GraphNode(Value):
    """`id` is the path of the node's names, those of outer graphs first, joined by `:`."""

    id: str = Field(examples=["research:search"])
    name: str = Field(examples=["search"])


class GraphEdge(Value):
    """`conditional`: whether a function of the graph decides if it is taken."""

    source: str = Field(examples=["__start__"])
    target: str = Field(examples=["model"])
    label: str | None = absent()
    conditional: bool


class AgentGraph(Value):
    """The graph of one agent, with its subgraphs; `mermaid` is LangGraph's own drawing of it."""

    agent_id: str = Field(examples=["assistant"])
    name: str
    mermaid: str = Field(examples=["graph TD;\n\t__start__ --> model;\n"])
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphsView(Value):
    """The graph of an agent, then those of its crew."""

    graphs: list[AgentGraph]

    @classmethod
    def of(cls, drawn: list[DrawnGraph]) -> "GraphsView":
        return cls(
            graphs=[
                AgentGraph(
                    agent_id=one.agent_id,
                    name=one.name,
                    mermaid=one.mermaid,
                    nodes=[GraphNode(id=node.id, name=node.name) for node in one.nodes],
                    edges=[
                        GraphEdge(
                            source=edge.source, target=edge.target, label=edge.label, conditional=edge.conditional
                        )
                        for edge in one.edges
                    ],
                )
                for one in drawn
            ]
        )


class StepTokens(Value):
    """`cached` are those of `input` that the provider had cached."""

    input: int
    output: int
    cached: int


class RunStepView(Value):
    """A node, or a call of a model or a tool; times are in milliseconds, `at_ms` is from the beginning of the run.

    `path` are the names of the nodes around a node, and its own; `graph_step` is the number of its graph's step, which
    parallel nodes share. `input` and `output` are shortened.
    """

    id: int
    parent: int | None = absent()
    """The id of the step within which it ran."""
    kind: Literal["node", "model", "tool"]
    name: str = Field(examples=["model"])
    agent_id: str | None = absent()
    path: list[str] = Field(examples=[["model"]])
    graph_step: int | None = absent()
    state: Literal["running", "ok", "failed", "waiting", "cut"]
    at_ms: int
    ms: int | None = absent()
    input: Any = Field(None, examples=[{"messages": [{"type": "human", "content": "How warm is it in Bern?"}]}])
    output: Any = Field(None, examples=[{"messages": [{"type": "ai", "content": "It is 18 °C in Bern."}]}])
    error: str | None = absent()
    model: str | None = absent()
    tokens: StepTokens | None = absent()
    rerunnable: bool
    """Whether the exchange can be run again from this step."""


class AgentPrompt(Value):
    """The system prompt that one agent was given, in its sections."""

    agent_id: str
    sections: list[PromptSection]


class RunView(Value):
    """The steps of a run in the order in which they began. `cut`: whether something was left out."""

    exchange_id: str
    agent_id: str
    began_at: Timestamp
    steps: list[RunStepView]
    prompts: list[AgentPrompt]
    cut: bool

    @classmethod
    def of(cls, run: ShownRun) -> "RunView":
        run_steps = run.run_steps
        replayable = run_steps.replayable
        steps = [
            RunStepView(
                id=step.id,
                parent=step.parent,
                kind=step.kind,
                name=step.name,
                agent_id=step.agent_id,
                path=list(step.path),
                graph_step=step.graph_step,
                state=step.state,
                at_ms=step.at_ms,
                ms=step.ms,
                input=got,
                output=gave,
                error=error,
                model=step.model,
                tokens=None
                if step.tokens is None
                else StepTokens(input=step.tokens.input, output=step.tokens.output, cached=step.tokens.cached_input),
                rerunnable=len(step.path) == 1 and step.graph_step in replayable,
            )
            for step, (got, gave, error) in zip(run_steps.steps, run.values, strict=False)
        ]
        prompts = [AgentPrompt(agent_id=one.agent_id, sections=one.sections) for one in run.prompts]
        return cls(
            exchange_id=run_steps.exchange_id,
            agent_id=run_steps.agent_id,
            began_at=run_steps.began_at,
            steps=steps,
            prompts=prompts,
            cut=run_steps.is_shortened,
        )


class Rerun(Frame):
    """The step of the agent's own graph to run again from: the `graph_step` of a step that is `rerunnable`."""

    graph_step: JsonInteger = Field(ge=-1, le=2**31)


class RerunView(Value):
    """The exchange that has begun, and the branch of the session in which it runs."""

    session_id: str
    exchange_id: str = Field(examples=["9d27aa"])


class PlaygroundApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._run_views = services.sessions.run_views

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/exchanges/{{id}}"
        refused = (*ASKING, ExchangeNotFound, NotFound, CheckpointMissing, LimitReached)
        return [
            Operation("GET", f"{PREFIX}/agents/{{id}}/graph", self.get_graph, errors=(*OPENING, LimitReached)),
            Operation("GET", f"{path}/steps", self.get_steps, errors=(ExchangeNotFound, NotFound)),
            Operation("POST", f"{path}/rerun", self.rerun_exchange, status=201, errors=refused),
        ]

    async def get_graph(self, request: Request, user: User, id: str) -> GraphsView:
        """The graph of an agent, and those of its crew, as LangGraph draws them; for developers and admins."""
        return GraphsView.of(list(await self._run_views.graphs(user, id, tokens_of(request, user))))

    async def get_steps(self, user: User, id: str) -> RunView:
        """The steps of the caller's own run with what each got and gave; for developers and admins."""
        return RunView.of(await self._run_views.steps(user, id))

    async def rerun_exchange(self, request: Request, user: User, id: str, body: Rerun) -> RerunView:
        """Run an exchange again from one of its steps, in a branch of its session; for developers and admins."""
        tokens, request_id = tokens_of(request, user), current_origin().request_id
        exchange = await self._door.sessions.reruns.rerun(user, id, body.graph_step, tokens, request_id)
        assert exchange.session_id is not None, "it runs in a branch"
        return RerunView(session_id=exchange.session_id, exchange_id=exchange.exchange_id)
