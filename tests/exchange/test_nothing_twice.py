"""What agents are given, with its summary, is the whole conversation: no message is lost, and none is given twice."""

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from support.compacting import PROFILES, Given, Summariser, asked, summariser
from support.further_cases import further
from support.recorded_agents import entry_of, eventually, metric
from support.sessions import USER, Sessions, open_sessions

from agentic_backend.config.topics.sessions import TitlesSettings
from agentic_backend.offline.model import OfflineChatModel


class Lister(Summariser):
    """A summary names each question that it has been given, itself or in the former summary."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        numbers = re.findall(r"q\d+", "\n".join(line for line in messages[-1].text.splitlines() if "re:" not in line))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(" ".join(numbers)))])


def is_idle(sessions: Sessions, session_id: str) -> bool:
    return not sessions.compactor.is_busy(session_id)


@pytest.mark.parametrize("seed", [*range(3), *map(further, range(3, 8))])
async def test_no_question_is_lost_and_none_is_given_twice(tmp_path: Path, seed: int) -> None:
    chance, agents = random.Random(seed), {"a": Given(), "b": Given()}
    models = {"default": Lister(**dict(summariser())), "own": OfflineChatModel()}
    entries = {agent_id: entry_of(agent.graph, agent_id, model="own") for agent_id, agent in agents.items()}
    titles = TitlesSettings(enabled=False)
    async with open_sessions(tmp_path, entries, models=models, profiles=PROFILES, titles=titles) as sessions:
        session_id, since = None, 0
        for number in range(36):
            agent_id = chance.choice(["a", "a", "b"])
            profile = chance.choice(["default", "default", "in_prompt", "by_tokens", "roomy"])
            events = await asked(sessions, session_id, f"q{number}", agent_id=agent_id, chat_profile=profile)
            session_id = str(events[0]["session_id"])
            told = [text for text in agents[agent_id].last if not text.startswith("re:")]
            found = re.findall(r"q\d+", "\n".join(told))
            assert found == [f"q{earlier}" for earlier in range(since, number)], (number, agent_id, profile, told)
            if chance.random() < 0.3:
                await sessions.factory.teardown_session_agents(session_id)
            if chance.random() < 0.7:
                await eventually(partial(is_idle, sessions, session_id))
            if chance.random() < 0.05:
                await sessions.service.reset_state(USER, session_id)
                since = number + 1
        assert metric(sessions.kpi, "chat_compactions_total", outcome="summarised") >= 3
