"""Graphs that declare the context that they want, in each form that LangGraph takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, Self, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, wrap_model_call
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import interrupt
from pydantic import AliasPath, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from support.phrase_model import PhraseModel

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.agents.runtime_context import RuntimeContext, current_context
from agentic_backend.testing import ScriptedModel, call


@dataclass
class Settings:
    language: str
    top: int = 1
    tone: str = "plain"
    user_id: str = ""
    unknown: list[str] = field(default_factory=list)


class Typed(TypedDict):
    language: str
    top: NotRequired[int]


class Optional(TypedDict, total=False):
    language: str


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    language: str = Field(min_length=2)
    top: int = 1
    nested: dict[str, int] = {}

    @field_validator("language")
    @classmethod
    def _is_known(cls, language: str) -> str:
        if language == "xx":
            raise ValueError("no such language")
        return language


@dataclass
class WithRun:
    run: RuntimeContext
    language: str = "en"


@dataclass
class Extended(RuntimeContext):
    language: str = "en"


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    user_id: str
    page_name: str = ""


class Pair(BaseModel):
    a: int = 0
    b: int = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.a > self.b:
            raise ValueError("a is above b")
        return self


@dataclass
class Checked:
    language: str = "en"

    def __post_init__(self) -> None:
        if self.language != "en":
            raise ValueError(f"a secret about {self.language}")


class Nested(BaseModel):
    language: str = Field(default="", validation_alias=AliasPath("page", "language"))


@dataclass
class WithAgent:
    agent_id: str = ""


def _told(context: Any) -> str:
    return f"{type(context).__name__} {context if isinstance(context, dict) else vars(context)}"


def telling(schema: Any) -> Any:
    """A graph of `schema` that tells its context."""

    async def tell(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"messages": [AIMessage(_told(runtime.context))]}

    return _of(schema, tell)


def _of(schema: Any, node: Any) -> Any:
    graph = StateGraph(MessagesState, context_schema=schema)
    graph.add_node("tell", node)
    graph.add_edge(START, "tell")
    return graph.compile()


data_class, typed, optional, model = telling(Settings), telling(Typed), telling(Optional), telling(Model)
camel, pair, checked, nested_alias, with_agent = map(telling, (Camel, Pair, Checked, Nested, WithAgent))


def made() -> Any:
    return telling(Settings)


def _whose(state: MessagesState, runtime: Runtime[WithRun]) -> dict[str, Any]:
    return {"messages": [AIMessage(f"{runtime.context.run.user_id} {current_context() is runtime.context.run}")]}


with_run = _of(WithRun, _whose)


async def _extended(state: MessagesState, runtime: Runtime[Extended]) -> dict[str, Any]:
    context = runtime.context
    return {"messages": [AIMessage(f"{context.user_id} {context.language} {context.run_id == context.exchange_id}")]}


extended = _of(Extended, _extended)


@tool
def in_thread() -> str:
    """Tell who asks, from a thread."""
    return f"{current_context().user_id} {get_runtime(Settings).context.language}"


@tool
async def in_loop() -> str:
    """Tell who asks, from the event loop."""
    return f"{current_context().user_id} {get_runtime(Settings).context.language}"


def tools() -> Any:
    model = ScriptedModel([call("in_thread"), call("in_loop")], "done")
    return create_agent(model, tools=[in_thread, in_loop], context_schema=Settings)


async def _ask_person(state: MessagesState, runtime: Runtime[Settings]) -> dict[str, Any]:
    answer = interrupt({"question": "Sure?"})
    return {"messages": [AIMessage(f"{answer} {runtime.context.language} {runtime.context.top}")]}


asking = _of(Settings, _ask_person)


async def _thread(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    configurable = config["configurable"]
    key = current_context().idempotency_key("call")
    return {"messages": [AIMessage(f"{configurable['thread_id']} {configurable['user_id']} {key}")]}


thread = _of(None, _thread)

TOLD = ("greeting", "thread_id", "user_id", "assistant_id", "graph_id", "langgraph_auth_user_id", "checkpoint_id")


def _configured(state: MessagesState, config: RunnableConfig, runtime: Runtime[Any]) -> dict[str, Any]:
    """Tells what is configurable, in a thread."""
    configurable = config["configurable"]
    user, server = configurable["langgraph_auth_user"], runtime.server_info
    assert server is not None and server.user is user
    told = {name: configurable.get(name) for name in TOLD}
    return {"messages": [AIMessage(f"{told} {user.identity} {user['identity']}")]}


configured = _of(None, _configured)


class ChiefOfConfigured(LeaderFlow):
    """Asks its expert, and repeats the answer."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        model = ScriptedModel(call("ask_told", question="Who?"), "asked")
        self._graph = create_agent(model, self.delegation_tools(crew))

    def get_compiled_graph(self) -> Any:
        return self._graph


_outer = StateGraph(MessagesState, context_schema=Settings)
_outer.add_node("inner", telling(Typed))
_outer.add_edge(START, "inner")
nested = _outer.compile()


@wrap_model_call
async def _prompt_as_answer(request: ModelRequest[Any], handler: Any) -> AIMessage:
    assert request.system_message is not None
    return AIMessage(request.system_message.text)


class Prompted(AgentFlow):
    """Passes on the prompt of the run, although its graph has a context of its own."""

    def system_prompt(self) -> str | None:
        return "You are a cheerful parrot."

    async def async_init(self) -> None:
        self._graph = create_agent(
            PhraseModel(),
            tools=[],
            middleware=[self.prompt_middleware(), _prompt_as_answer],
            context_schema=Settings,
        )

    def get_compiled_graph(self) -> Any:
        return self._graph


class ChiefOfTwo(LeaderFlow):
    """Asks its other expert, which tells who it is."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        model = ScriptedModel(call("ask_member", question="Who?"), "asked")
        self._graph = create_agent(model, self.delegation_tools(crew))

    def get_compiled_graph(self) -> Any:
        return self._graph


class Chief(LeaderFlow):
    """Asks its expert, once in each exchange, and repeats the answer."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        model = ScriptedModel(call("ask_teller", question="Who?"), "asked")
        self._graph = create_agent(model, self.delegation_tools(crew))

    def get_compiled_graph(self) -> Any:
        return self._graph
