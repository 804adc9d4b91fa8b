"""Answers in the form of an entry's `output`, from documents, of an agent that has tools."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from support.collections_of_documents import BY_WORDS, FLOOD, PATH, collection, serving

from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.testing import OpenedAgent, OpenedApplication, ScriptedModel, call, open_agent

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "years": {"type": "array"}}}
QUESTION = "Is damage by groundwater covered?"


@asynccontextmanager
async def asker(directory: Path, model: ScriptedModel) -> AsyncIterator[OpenedAgent]:
    tuning = {"retrieval": {"collections": "all"}}
    entry = {"id": "asker", "tools": ["support.wiping_tools:look_up"], "output": SCHEMA, "tuning": tuning}
    catalog = directory / "agents_catalog.yaml"
    catalog.write_text(yaml.safe_dump({"agents": [entry]}))
    settings = {"applications": [{"class_path": PATH, "settings": BY_WORDS}]}
    async with open_agent("asker", catalog=catalog, model=model, settings=settings) as agent:
        application = agent.app.host.instances[PATH]
        assert isinstance(application, Retrieval)
        async with OpenedApplication(agent.app, application, []).client() as client:
            await serving(client)
            await collection(client, "Terms", flood=FLOOD)
        yield agent


async def test_the_agent_has_what_it_has_answered_in_its_history(tmp_path: Path) -> None:
    model = ScriptedModel("", call("answer", text="Never."), "", call("answer", text="Never, as I said."))
    async with asker(tmp_path, model) as agent:
        await agent.ask(QUESTION)
        await agent.ask(f"{QUESTION} Are you sure?")
    assert "Never." in str(model.asks[2].messages)


async def test_an_answer_stays_what_its_schema_says_and_its_texts_are_checked(tmp_path: Path) -> None:
    said = "Up to 90,000 euros [1][9]. https://leak.example/x"
    async with asker(tmp_path, ScriptedModel("", call("answer", text=said, years=[1, 28]))) as agent:
        run = await agent.ask(QUESTION)
    assert json.loads(run.final_text) == {"text": "Up to 90,000 euros [1]. ", "years": [1, 28]}
