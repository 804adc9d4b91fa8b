"""Workflows of the functional API, as LangGraph's documentation writes them."""

from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.func import entrypoint, task
from langgraph.graph import add_messages
from langgraph.graph.message import Messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel
from support.phrase_model import PhraseModel

from agentic_backend.testing import ScriptedModel, Turn, call

_model = PhraseModel()
effects: list[str] = []
"""The tasks that have run."""


@task
async def call_model(messages: list[BaseMessage]) -> BaseMessage:
    return await _model.ainvoke(messages)


@task
def call_model_in_thread(messages: list[BaseMessage]) -> str:
    return _model.invoke(messages).text


class Input(TypedDict):
    messages: list[BaseMessage]


class Model(BaseModel):
    messages: list[Any]


@dataclass
class Data:
    messages: list[Any]


@entrypoint()
async def message(messages: list[BaseMessage]) -> BaseMessage:
    return await call_model(messages)


@entrypoint()
def text(messages: list[BaseMessage]) -> str:
    return call_model_in_thread(messages).result()


@entrypoint()
async def message_as_text(messages) -> str:  # type: ignore[no-untyped-def]
    return (await call_model(messages)).text


@entrypoint()
async def mapping(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [*inputs["messages"], await call_model(inputs["messages"])]}


@entrypoint()
async def typed(inputs: Input) -> list[BaseMessage]:
    return [await call_model(inputs["messages"])]


@entrypoint()
async def model(inputs: Model) -> Model:
    return Model(messages=[await call_model(inputs.messages)])


@entrypoint()
async def data(inputs: Data) -> Data:
    return Data([await call_model(inputs.messages)])


@entrypoint()
async def remembering(
    messages: list[BaseMessage], *, previous: list[BaseMessage] | None = None
) -> entrypoint.final[BaseMessage, list[BaseMessage]]:
    known = add_messages(previous or [], messages)
    answer = await call_model(known)
    return entrypoint.final(value=answer, save=add_messages(known, [answer]))


@entrypoint()
async def counting(messages: list[BaseMessage], *, previous: int | None = None) -> entrypoint.final[str, int]:
    count = (previous or 0) + 1
    return entrypoint.final(value=f"{count}: {len(messages)} given", save=count)


@entrypoint()
async def hoarding(
    messages: list[BaseMessage], *, previous: dict[str, Any] | None = None
) -> entrypoint.final[str, dict[str, Any]]:
    """Tells what it was given, and saves more than is kept if it is told to."""
    told = [message.text for message in messages]
    if told[-1] == "fail":
        raise ValueError("as told")
    bytes_ = 5 * 1024 * 1024 if told[-1] == "hoard" else 1
    return entrypoint.final(value=f"{previous is not None} {told}", save={"hoard": "x" * bytes_})


class BasedModel(Model):
    top: int = 1


@dataclass
class BasedData(Data):
    top: int = 1


@entrypoint()
async def perhaps(messages: list[BaseMessage] | None) -> BaseMessage:
    return await call_model(messages or [])


@entrypoint()
async def messages_of_langgraph(messages: Messages) -> BaseMessage:
    return await call_model(messages)  # type: ignore[arg-type]


@entrypoint()
async def based_model(inputs: BasedModel) -> BaseMessage:
    return await call_model(inputs.messages)


@entrypoint()
async def based_data(inputs: BasedData) -> BaseMessage:
    return await call_model(inputs.messages)


@task
async def add(a: int, b: int, call_id: str) -> ToolMessage:
    return ToolMessage(str(a + b), tool_call_id=call_id, name="add")


@entrypoint()
async def with_tools(messages: list[BaseMessage]) -> BaseMessage:
    said = ScriptedModel(Turn("Let me see.", calls=[call("add", a=1, b=2)]), "It is 3.")

    @task
    async def think(messages: list[BaseMessage]) -> AIMessage:
        return await said.ainvoke(messages)

    answer = await think(messages)
    while answer.tool_calls:
        results = [await add(**one["args"], call_id=one["id"]) for one in answer.tool_calls]
        messages = [*messages, answer, *results]
        answer = await think(messages)
    return answer


@task
async def prepare() -> str:
    effects.append("prepared")
    return "prepared"


@task
async def decide(question: str) -> str:
    return str(interrupt({"question": question}))


@entrypoint()
async def asking(messages: list[BaseMessage], runtime: Runtime[Any]) -> str:
    first = await prepare()
    return f"{first} {await decide('Sure?')}"


@entrypoint()
async def structured(messages: list[BaseMessage]) -> dict[str, Any]:
    return {"length": len(messages)}


def made() -> Any:
    return message


@entrypoint()
async def single(message: HumanMessage) -> str:
    return message.text
