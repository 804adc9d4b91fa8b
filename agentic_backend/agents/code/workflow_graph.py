"""Workflows of LangGraph's functional API (`@entrypoint`) as graphs with messages.

A workflow becomes the one node of a graph. Its input is the conversation, in the form that its parameter has; what it
returns are the messages that it adds. One that takes `previous` is a subgraph with a memory of its own: once it has
begun one, it is given only what follows the last message that it has seen, as its own memory holds the rest.
"""

import copy
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NotRequired, get_origin, get_type_hints
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINTER, NS_END, NS_SEP, PREVIOUS
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.constants import START
from langgraph.graph import MessagesState, StateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel
from pydantic_core import to_json

from agentic_backend.agents.code.alternatives import alternatives

Workflow = Pregel[Any, Any, Any, Any]


class _State(MessagesState):
    # The ids of the last message that the workflow was given and of the last one that it has returned.
    seen: NotRequired[list[str]]


def is_workflow(graph: Workflow) -> bool:
    """Whether the graph is a workflow: its one input is a function's parameter."""
    return graph.input_channels == START and PREVIOUS in graph.channels


def takes_messages(workflow: Workflow) -> bool:
    return _form(workflow) is not None


def graph_of(workflow: Workflow) -> Workflow:
    """The graph that serves a workflow, which must take messages."""
    [name], form = workflow.nodes, _form(workflow)
    assert form is not None, "the caller checks that it takes messages"
    has_memory = "previous" in inspect.signature(_function(workflow)).parameters
    inner = copy.copy(workflow)
    inner.checkpointer = True if has_memory else None

    async def run(state: _State, config: RunnableConfig) -> dict[str, Any]:
        said = _LastMessage()
        callbacks: Any = config["callbacks"]
        callbacks = callbacks.copy()
        callbacks.add_handler(said)
        messages = state["messages"]
        given = _after(messages, state.get("seen", ())) if has_memory and await _remembers(config) else messages
        returned = await inner.ainvoke(form(given), {**config, "callbacks": callbacks})
        added = _with_ids(_messages_in(returned, said.message))
        return {"messages": added, "seen": _last_ids(given, added)} if has_memory else {"messages": added}

    graph = StateGraph(_State if has_memory else MessagesState, context_schema=workflow.context_schema)
    graph.add_node(name, run)
    graph.add_edge(START, name)
    return graph.compile(store=workflow.store, cache=workflow.cache)


async def _remembers(config: RunnableConfig) -> bool:
    """Whether the memory of the node's workflow holds a `previous`: the session may have lost it, and it alone."""
    configurable = config["configurable"]
    saver = configurable.get(CONFIG_KEY_CHECKPOINTER)
    if not isinstance(saver, BaseCheckpointSaver):
        return False
    # LangGraph keeps such a memory under the node's namespace without the ids of tasks.
    namespace = NS_SEP.join(part.split(NS_END)[0] for part in configurable["checkpoint_ns"].split(NS_SEP))
    place = {"thread_id": configurable["thread_id"], "checkpoint_ns": namespace}
    last = await saver.aget_tuple({"configurable": place})
    return last is not None and last.checkpoint["channel_values"].get(PREVIOUS) is not None


def _after(messages: Sequence[BaseMessage], seen: Sequence[str]) -> Sequence[BaseMessage]:
    """What follows the last message that is `seen`; all of them if none is: then it is older than these."""
    place = max((index for index, message in enumerate(messages) if message.id in seen), default=-1)
    return messages[place + 1 :]


def _with_ids(messages: Sequence[Any]) -> list[BaseMessage]:
    added = convert_to_messages(messages)
    for message in added:
        message.id = message.id or str(uuid4())
    return added


def _last_ids(*lists: Sequence[BaseMessage]) -> list[str]:
    return [messages[-1].id for messages in lists if messages and messages[-1].id]


class _LastMessage(BaseCallbackHandler):
    """Keeps the message that a model has said last."""

    run_inline = True

    def __init__(self) -> None:
        self.message: BaseMessage | None = None

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        for generation in response.generations[0] if response.generations else ():
            if isinstance(generation, ChatGeneration):
                self.message = generation.message


def _function(workflow: Workflow) -> Callable[..., Any]:
    [node] = workflow.nodes.values()
    bound: Any = node.bound
    function: Callable[..., Any] = inspect.unwrap(bound.func or bound.afunc)
    return function


def _form(workflow: Workflow) -> Callable[[Sequence[BaseMessage]], Any] | None:
    """Makes the input of messages; None if it has none."""
    function = _function(workflow)
    parameter = next(iter(inspect.signature(function).parameters.values()))
    try:
        hint = get_type_hints(function).get(parameter.name, Any)
    except (NameError, TypeError):
        hint = Any
    forms = (_form_of(one, parameter.name) for one in alternatives(hint))
    return next((form for form in forms if form is not None), None)


def _form_of(hint: Any, name: str) -> Callable[[Sequence[BaseMessage]], Any] | None:
    kind: Any = get_origin(hint) or hint
    if kind is Any:
        return list if name == "messages" else _in_mapping
    if not isinstance(kind, type):
        return None
    if issubclass(kind, BaseModel) or is_dataclass(kind):
        make: Any = kind
        return (lambda messages: make(messages=list(messages))) if "messages" in _field_names(kind) else None
    if hasattr(kind, "__required_keys__"):
        # A TypedDict's own annotations have those of its bases.
        return _in_mapping if "messages" in kind.__annotations__ else None
    if issubclass(list, kind):
        return list
    return _in_mapping if issubclass(dict, kind) else None


def _field_names(kind: Any) -> Collection[str]:
    """The fields of a pydantic model or a dataclass, also those of its bases."""
    return kind.model_fields if issubclass(kind, BaseModel) else [field.name for field in fields(kind) if field.init]


def _in_mapping(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    return {"messages": list(messages)}


def _messages_in(returned: Any, said: BaseMessage | None) -> list[Any]:
    """The messages that a workflow returns: themselves, in a mapping, or a text, which may be what a model `said`."""
    if _is_message(returned):
        return [returned]
    if isinstance(returned, Mapping) and "messages" in returned:
        return _messages_in(returned["messages"], said)
    if isinstance(returned, BaseModel) or is_dataclass(returned):
        found = getattr(returned, "messages", None)
        return [_text(returned)] if found is None else _messages_in(found, said)
    if isinstance(returned, str):
        return [said if said is not None and said.text == returned else AIMessage(returned)]
    if isinstance(returned, list | tuple) and all(map(_is_message, returned)):
        return list(returned)
    if returned is None:
        return []
    return [_text(returned)]


def _is_message(value: Any) -> bool:
    return isinstance(value, BaseMessage) or (isinstance(value, Mapping) and {"role", "content"} <= value.keys())


def _text(value: Any) -> AIMessage:
    return AIMessage(to_json(value, fallback=str).decode())
