"""GraphInput: what an agent's graph runs on: the user's message and the memory, or the checkpoint of an earlier run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Interrupt

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.run.paused_graph import PausedGraph
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.lasting_graphs import unpack_lasting
from agentic_backend.agents.tools.tool_guard import tools_meant
from agentic_backend.agents.tools.tool_titles import tool_titles
from agentic_backend.errors import CheckpointMissing
from agentic_backend.exchange.past.given_history import GivenHistory
from agentic_backend.exchange.start import ExchangeStart, ResumePoint
from agentic_backend.streaming.content.structured_output import CHANNEL
from agentic_backend.streaming.people.interrupts import interrupt_id_of, is_refusal, resume_values
from agentic_backend.streaming.transcode.held_back import HeldBack
from agentic_backend.streaming.transcode.resumed_run import ResumedRun
from agentic_backend.streaming.transcode.stream_transcoder import StreamTranscoder

Given = Mapping[str, Any] | Command[Any] | None
"""What LangGraph is called with: a state, the answers to its interrupts, or None to continue from the checkpoints."""


@dataclass(frozen=True, slots=True)
class GraphInput:
    given: Given
    checkpoints: ExchangeCheckpoints
    transcoder: StreamTranscoder
    """Knows the messages that the graph is given, and what was shown before."""
    not_passed: Sequence[Interrupt] = ()
    """The breakpoints at which the graph stands: they are asked about before it runs."""
    past: Sequence[BaseMessage] = ()
    """The messages of earlier exchanges, if this is a first run."""
    ran: Sequence[BaseMessage] = ()
    """The messages of the run so far, if it goes on."""


async def from_opening(
    start: ExchangeStart,
    warm: WarmAgent,
    history: GivenHistory,
    question: BaseMessage,
    *,
    graphs: bytes,
    run_id: str,
    now: float,
) -> GraphInput:
    """The input of a first run: `question` is the user's message, `graphs` the memory of subgraphs that have one."""
    channels: dict[str, Any] = {**history.channels}
    left, given = history.left, [*history.unseen, question]
    messages = [*left, *given]
    if left and warm.flow.adds_messages:
        # Where the graph has them already, its reducer does not run over them again.
        channels["messages"] = list(left)
    else:
        given = messages
    checkpoints = ExchangeCheckpoints(channels, run_id=run_id, serde=warm.serde)
    if graphs:
        await asyncio.to_thread(_add_lasting, checkpoints, graphs, warm)
    known = [message for message in messages if isinstance(message, BaseMessage)]
    return GraphInput({"messages": given}, checkpoints, _transcoder(start, warm, known, now), past=known)


async def from_resume_point(
    start: ExchangeStart, resume_point: ResumePoint, warm: WarmAgent, checkpoints: ExchangeCheckpoints, *, now: float
) -> GraphInput:
    """The input of a run that goes on. Raises CheckpointMissing if the graph has no longer the nodes to go on with, and
    StateRefused.
    """
    checkpoints.serde = warm.serde
    paused = paused_graph(start, warm, checkpoints)
    if missing := paused.missing_nodes():
        names = ", ".join(map(repr, missing))
        raise CheckpointMissing(f"The agent has changed since: it has no step {names} to go on with.")
    for name, tools in tools_meant(warm.agents, checkpoints.meant).items():
        then = checkpoints.meant[name]
        # The run is none of an agent that did not have such a tool.
        agents = {agent_id for agent_id, *_ in then}
        if any(tool[0] in agents and tool not in then for tool in tools):
            raise CheckpointMissing(
                f"The agent has changed since: its tool '{name}' is another one, or needs no approval now."
            )
    # There are some if its server died after the last checkpoint and before the pause was stored.
    not_passed = await paused.breakpoints()
    interrupts, decisions = checkpoints.interrupts, resume_point.decisions
    answers = resume_values(interrupts, decisions) if decisions is not None else {}
    resumed = ResumedRun(checkpoints, resume_point.stored, resume_point.first_block, resume_point.usage)
    transcoder = _transcoder(start, warm, resumed.messages, now, resumed)
    given: Given = Command(resume=answers) if answers else None
    return GraphInput(given, checkpoints, transcoder, not_passed, ran=resumed.messages)


def paused_graph(start: ExchangeStart, warm: WarmAgent, checkpoints: ExchangeCheckpoints) -> PausedGraph:
    """The graph as its checkpoints tell of it, with the breakpoints that people have let it pass."""
    resume_point = start.resume_point
    decisions = (resume_point.decisions if resume_point is not None else None) or ()
    passed = {interrupt_id_of(one.interrupt_id) for one in decisions if not is_refusal(one)}
    return PausedGraph(warm.flow.get_compiled_graph(), checkpoints, passed)


def _add_lasting(checkpoints: ExchangeCheckpoints, packed: bytes, warm: WarmAgent) -> None:
    snapshot = unpack_lasting(packed, warm.flow.get_compiled_graph(), warm.flow.settings.id, warm.serde)
    if snapshot is not None:
        checkpoints.add(snapshot)


def _transcoder(
    start: ExchangeStart,
    warm: WarmAgent,
    messages: Sequence[BaseMessage],
    now: float,
    resumed: ResumedRun | None = None,
) -> StreamTranscoder:
    settings = start.agent.settings
    entries = [agent.settings for agent in (start.agent, *start.agent.crew)]
    return StreamTranscoder(
        settings.id,
        messages,
        now,
        resumed,
        held_back=HeldBack(settings.stream),
        answers_in_json=CHANNEL in warm.flow.get_compiled_graph().channels,
        titles=tool_titles(warm.agents),
        names={entry.id: entry.name for entry in entries if entry.name != entry.id},
    )
