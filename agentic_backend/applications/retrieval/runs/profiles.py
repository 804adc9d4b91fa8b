"""Profiles: what the settings say of runs. A workflow names one of each kind; a chat profile says what becomes of a
session's history.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from agentic_backend.application import ApplicationSettings, BadFrame
from agentic_backend.applications.retrieval.answering.pipeline import JudgeMode, Mode
from agentic_backend.applications.retrieval.searching.retriever import Chosen

P = TypeVar("P")
Way = Literal["words", "vectors", "graph"]
SummaryPosition = Literal["before_retrieval", "after_retrieval"]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]

DEFAULT, DEFAULT_WORKFLOW = "default", "default_workflow"
DAY_S = 86_400.0
KEEP_DAYS = 30.0
"""How long sessions and runs are kept after their last write."""


class ChatProfile(ApplicationSettings):
    """What becomes of the history of a chat session."""

    description: str = ""
    compaction_threshold_tokens: int = Field(2_000, ge=100, le=1_000_000)
    """Beyond so many tokens of questions and answers in full, the older ones are summarised."""
    max_history_turns: int = Field(10, ge=1, le=50)
    """Beyond so many turns in full, too. Half as many stay as they are."""
    summarization_model: str | None = None
    """A model of the settings; null: the default one."""
    summarization_max_tokens: int = Field(500, ge=50, le=10_000)
    """How long the summary may be."""
    include_summary_in_context: bool = True
    summary_position: SummaryPosition = "before_retrieval"
    """Where the history stands in the prompt: before the passages, or after them."""
    reserve_tokens_for_history: int = Field(800, ge=0, le=1_000_000)
    """What the history may take at least, even if that is more than half of what there is room for."""


class RetrievalProfile(ApplicationSettings):
    """What is looked for, and where."""

    collections: Literal["all"] | tuple[str, ...] = "all"
    """Titles or ids of those that are asked, as far as the person may read them; `all` of these."""
    passages: int = Field(8, ge=1, le=40)
    """How many the model is given at most."""
    modes: tuple[Way, ...] = ()
    """The ways in which is searched; empty: all that there are."""
    answer_from: Mode = "hybrid"
    """The documents alone (`corpus_only`), these and what the model knows, or the latter alone (`general_only`)."""
    rewrite_model: str | None = None
    """A model of the settings, which puts a follow-up so that it can be looked for alone; null: none does."""


class FusionProfile(ApplicationSettings):
    """How the rankings of the ways become one."""

    weights: dict[Way, Annotated[float, Field(ge=0, le=100)]] = Field(default_factory=dict)
    """How much each way counts; 1 where nothing is said."""
    rerank_model: str | None = None
    """A model of the settings, which puts the best of what was found into its order; null: none does."""


class ContextProfile(ApplicationSettings):
    """How much a model is given, in tokens."""

    max_context_tokens: int = Field(6_000, ge=100, le=60_000)
    """Of history, passages, question and instructions together."""
    reserve_for_query: int = Field(500, ge=0, le=60_000)
    reserve_for_instructions: int = Field(500, ge=0, le=60_000)

    @model_validator(mode="after")
    def _leaves_room(self) -> "ContextProfile":
        if self.reserve_for_query + self.reserve_for_instructions >= self.max_context_tokens:
            raise ValueError("the reserves leave nothing of max_context_tokens")
        return self


class JudgeProfile(ApplicationSettings):
    """What becomes of an answer that the passages do not support."""

    judge: JudgeMode = "tell"
    """`off`; `tell` so in the answer; `withhold` it."""
    threshold: float = Field(0.5, ge=0, le=1)
    """Below this score it is not supported."""
    judge_model: str | None = None
    """A model of the settings, which judges after the judge by words, and in its place; null: none does."""


class Workflow(ApplicationSettings):
    """A set of profiles, by their names."""

    retrieval: Id = DEFAULT
    fusion: Id = DEFAULT
    context: Id = DEFAULT
    judge: Id = DEFAULT


_CHAT_PROFILES = {
    DEFAULT: ChatProfile(description="Conversations of usual length."),
    "long_context": ChatProfile(
        description="Long conversations, for models with much room.",
        compaction_threshold_tokens=4_000,
        max_history_turns=20,
        summarization_max_tokens=800,
        reserve_tokens_for_history=1_500,
    ),
    "compact": ChatProfile(
        description="Little history, for models with little room.",
        compaction_threshold_tokens=1_000,
        max_history_turns=5,
        summarization_max_tokens=300,
        reserve_tokens_for_history=500,
    ),
}


class RunSettings(ApplicationSettings):
    """The settings of runs. What they name takes the place of what there is by the same name, and stands beside all
    else that comes with the application.
    """

    runs: bool = True
    """Whether there is this door."""
    runs_agent: Id = "documents"
    """The agent in whose place runs answer: who may not ask it may not run; modules and policies are those it has."""
    chat_profiles: dict[Id, ChatProfile] = Field(default_factory=dict)
    retrieval_profiles: dict[Id, RetrievalProfile] = Field(default_factory=dict)
    fusion_profiles: dict[Id, FusionProfile] = Field(default_factory=dict)
    context_profiles: dict[Id, ContextProfile] = Field(default_factory=dict)
    judge_profiles: dict[Id, JudgeProfile] = Field(default_factory=dict)
    workflows: dict[Id, Workflow] = Field(default_factory=dict)
    max_session_age_s: float = Field(DAY_S, gt=0, le=KEEP_DAYS * DAY_S)
    """How long after its last turn a chat session goes on, in seconds."""

    @model_validator(mode="after")
    def _names_are_there(self) -> "RunSettings":
        profiles = Profiles(self)
        for name in profiles.workflows:
            profiles.workflow(name)
        return self


@dataclass(frozen=True, slots=True)
class Steps:
    """The profiles of one workflow."""

    retrieval: RetrievalProfile
    fusion: FusionProfile
    context: ContextProfile
    judge: JudgeProfile

    @property
    def chosen(self) -> Chosen:
        return Chosen(self.retrieval.modes, {way: weight for way, weight in self.fusion.weights.items()})


class Profiles:
    """The profiles and workflows that there are, by name."""

    def __init__(self, settings: RunSettings) -> None:
        self.chats: Mapping[str, ChatProfile] = {**_CHAT_PROFILES, **settings.chat_profiles}
        self.workflows: Mapping[str, Workflow] = {DEFAULT_WORKFLOW: Workflow(), **settings.workflows}
        self._retrieval = {DEFAULT: RetrievalProfile(), **settings.retrieval_profiles}
        self._fusion = {DEFAULT: FusionProfile(), **settings.fusion_profiles}
        self._context = {DEFAULT: ContextProfile(), **settings.context_profiles}
        self._judge = {DEFAULT: JudgeProfile(), **settings.judge_profiles}

    def chat(self, name: str) -> ChatProfile:
        """Raises BadFrame if there is none."""
        if name not in self.chats:
            raise BadFrame(f"chat_profile_id: there is no chat profile '{name}'")
        return self.chats[name]

    def workflow(self, name: str) -> Steps:
        """Raises BadFrame if there is none, and ValueError if it names a profile that there is not."""
        if name not in self.workflows:
            raise BadFrame(f"workflow_id: there is no workflow '{name}'")
        workflow = self.workflows[name]

        def of(kind: str, profiles: Mapping[str, P], wanted: str) -> P:
            if wanted not in profiles:
                raise ValueError(f"the workflow '{name}' names the {kind} profile '{wanted}', which there is not")
            return profiles[wanted]

        return Steps(
            of("retrieval", self._retrieval, workflow.retrieval),
            of("fusion", self._fusion, workflow.fusion),
            of("context", self._context, workflow.context),
            of("judge", self._judge, workflow.judge),
        )
