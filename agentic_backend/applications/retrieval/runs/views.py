"""What runs take and answer, and the events that they tell."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from agentic_backend.application import Frame, Value, absent
from agentic_backend.applications.retrieval.answering.passages import Passage
from agentic_backend.applications.retrieval.answering.pipeline import told_passage
from agentic_backend.applications.retrieval.runs.profiles import ChatProfile

LONGEST_QUERY = 8_000
Status = Literal["running", "completed", "withheld", "failed", "terminated"]
RunMode = Literal["query", "chat"]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class RunRequest(Frame):
    """A question. In chat mode it is a turn of the session, or of a new one without `session_id`."""

    query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUERY)]
    """"Quit" and nothing else, in chat mode, ends the session."""
    mode: RunMode = "query"
    session_id: _Name | None = None
    """In query mode: the session that the person leaves, which is deleted."""
    chat_profile_id: _Name | None = None
    """Else the session's, or `default`."""
    workflow_id: _Name | None = None
    """Else the session's, or `default_workflow`."""
    wait: bool = True
    """Whether the answer is waited for; else the status is `running`, and the run's stream tells how it goes."""


class PassagePlace(Value):
    """Where a passage stands, and why it was taken. `number` is what an answer cites it by."""

    number: int
    document: str
    name: str
    collection: str
    collection_id: str
    path: tuple[str, ...]
    page: int | None
    start: int
    """`[start, end)` in characters of the document's text."""
    end: int
    score: float
    ranks: dict[str, int]


class Citation(PassagePlace):
    """A passage that an answer cites."""

    text: str | None = absent()
    """What it says: only in what a question is answered with, since the person may read it then."""


class Answer(Value):
    """An answer with what it cites."""

    text: str
    """Markdown, with citations such as `[1]`."""
    citations: tuple[Citation, ...]
    tokens_used: int
    """Of its text, estimated."""
    judge_score: float | None = absent()
    """From 0 to 1; absent if it was not judged."""


class RunFault(Value):
    """Why a run has failed: an error's code and words."""

    code: str
    content: str


class RunView(Value):
    """A run. Of a session that a person has quit: only its status and the session."""

    run_id: str | None = absent()
    status: Status
    session_id: str | None = absent()
    """In chat mode."""
    turn_number: int | None = absent()
    """Its place in the session's history, from 1; absent if it is not in there."""
    history_compacted: bool | None = absent()
    """Whether older turns were summarised, or dropped, before it."""
    answer: Answer | None = absent()
    error: RunFault | None = absent()
    sse_endpoint: str | None = absent()


# The events of a run, in their order.


class WayView(Value):
    """What one way of searching has done. `failed` says why it found nothing."""

    found: int
    took_ms: int
    failed: str | None = absent()


class ModelView(Value):
    """A model was asked for what can be done without it. `failed` says why it was."""

    took_ms: int
    failed: str | None = absent()


class SessionCreated(Value):
    """A chat session begins."""

    type: Literal["chat_session_created"] = "chat_session_created"
    session_id: str
    replaces: str | None = absent()
    """The session that was asked for, which had expired."""


class HistoryCompacted(Value):
    """Older turns of the session have given way to a summary, or were dropped."""

    type: Literal["chat_compacted"] = "chat_compacted"
    session_id: str
    turns: tuple[int, ...]
    """The numbers of those that are no longer there in full."""
    failed: str | None = absent()
    """The code of the error for which they could not be summarised, so that they were dropped."""


class RetrievalDone(Value):
    """It was searched."""

    type: Literal["retrieval"] = "retrieval"
    query: str
    """What was looked for."""
    language: str | None
    ways: dict[str, WayView]
    rewrite: ModelView | None = absent()
    """The model that was to rewrite a follow-up; where it has failed, the last questions were looked for together."""


class FusionDone(Value):
    """What was found became one ranking; the best of it, by rank from 1."""

    type: Literal["fusion"] = "fusion"
    found: int
    passages: tuple[PassagePlace, ...]
    rerank: ModelView | None = absent()
    """The model that was to put the best into its order; where it has failed, they are as they were."""


class ContextDone(Value):
    """What the model is given, by the numbers that it may cite."""

    type: Literal["context"] = "context"
    passages: tuple[PassagePlace, ...]
    left_out: int
    """Passages that did not fit."""
    tokens: int
    """Of passages and history."""
    history_turns: int
    history_tokens: int
    history_left_out: int
    """Turns that did not fit."""


class GenerationDone(Value):
    """The model has answered."""

    type: Literal["generation"] = "generation"
    tokens_used: int
    took_ms: int


class SentenceView(Value):
    """What the judge says of a sentence, `[start, end)` of the answer's text."""

    start: int
    end: int
    score: float
    supported: bool
    reason: str


class JudgeDone(Value):
    """The answer was checked."""

    type: Literal["judge"] = "judge"
    score: float | None
    """None if it was not judged."""
    withheld: bool
    removed: int
    """Citations and links of nothing that was found."""
    sentences: tuple[SentenceView, ...]
    model: ModelView | None = absent()
    """The model that was to judge; where it has failed, the judgement is by words."""


class TurnAdded(Value):
    """The turn is in the session's history."""

    type: Literal["chat_turn_added"] = "chat_turn_added"
    session_id: str
    turn_number: int
    tokens: int


class SessionTerminated(Value):
    """The session is gone."""

    type: Literal["chat_session_terminated"] = "chat_session_terminated"
    session_id: str


class RunEnded(Value):
    """The last event of a run."""

    type: Literal["run_ended"] = "run_ended"
    status: Status
    turn_number: int | None = absent()
    answer: Answer | None = absent()
    error: RunFault | None = absent()


RunEvent = (
    SessionCreated
    | HistoryCompacted
    | RetrievalDone
    | FusionDone
    | ContextDone
    | GenerationDone
    | JudgeDone
    | TurnAdded
    | SessionTerminated
    | RunEnded
)
EVENTS: TypeAdapter[RunEvent] = TypeAdapter(Annotated[RunEvent, Field(discriminator="type")])


class RunDetails(Value):
    """A run, and what has happened in it so far."""

    run: RunView
    events: list[RunEvent]


class ChatTurnView(Value):
    """A turn of a session."""

    turn_number: int
    query: str
    answer: Answer
    run_id: str
    timestamp: datetime
    tokens: int
    """Of the answer, and of passages and history that the model was given, estimated."""


class ChatHistoryView(Value):
    """The turns that are there in full, and the summary of older ones."""

    turns: list[ChatTurnView]
    summary: str | None
    summary_covers_turns: list[int]
    total_turns: int


class ChatSessionView(Value):
    """A chat session."""

    session_id: str
    history: ChatHistoryView
    created_at: datetime
    last_updated: datetime
    total_tokens: int
    workflow_id: str
    chat_profile_id: str


class ListedChatSession(Value):
    """A chat session in the list."""

    session_id: str
    total_turns: int
    created_at: datetime
    last_updated: datetime


class ChatSessions(Value):
    """The user's chat sessions that have not expired, the last one used first."""

    sessions: list[ListedChatSession]
    total: int


class DeletedChatSession(Value):
    """A session that was deleted."""

    status: Literal["deleted"] = "deleted"
    session_id: str


class ChatProfileView(Value):
    """A chat profile."""

    id: str
    description: str
    compaction_threshold_tokens: int
    max_history_turns: int
    summarization_model: str | None
    summarization_max_tokens: int
    include_summary_in_context: bool
    summary_position: str
    reserve_tokens_for_history: int


class ChatProfiles(Value):
    """The chat profiles of the settings, and which one is taken where none is named."""

    profiles: list[ChatProfileView]
    default_profile: str


def place_of(passage: Passage, number: int) -> PassagePlace:
    return PassagePlace.model_validate(told_passage(passage, number))


def citation_of(passage: Passage, number: int) -> Citation:
    return Citation.model_validate({**told_passage(passage, number), "text": passage.text})


def profile_view(name: str, profile: ChatProfile) -> ChatProfileView:
    return ChatProfileView(id=name, **profile.model_dump())
