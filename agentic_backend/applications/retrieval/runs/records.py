"""What is stored of chat sessions and runs. No text of a passage is: who may read one is asked when it is read."""

from datetime import datetime

from agentic_backend.application import Index, Kind, Record
from agentic_backend.applications.retrieval.runs.profiles import KEEP_DAYS
from agentic_backend.applications.retrieval.runs.views import Answer, RunFault, RunMode, RunView, Status


class ChatSession(Record):
    """A chat session, without its turns."""

    workflow_id: str
    chat_profile_id: str
    last_updated: datetime
    summary: str | None = None
    summary_covers_turns: tuple[int, ...] = ()
    total_turns: int = 0
    total_tokens: int = 0


class ChatTurn(Record):
    """A turn that is in its session's history in full."""

    session_id: str
    turn_number: int
    query: str
    answer: Answer
    run_id: str
    tokens: int
    query_for_model: str | None = None
    """What models are given of the question, where modules have left them something else than people."""
    answer_for_model: str | None = None
    """The same of the answer."""


class Run(Record):
    """A run, and what has happened in it."""

    mode: RunMode
    began_at: datetime
    status: Status = "running"
    session_id: str | None = None
    turn_number: int | None = None
    history_compacted: bool = False
    answer: Answer | None = None
    error: RunFault | None = None
    events: tuple[str, ...] = ()
    """As JSON."""


MOST_SESSIONS = MOST_RUNS = 1_000
MOST_TURNS = 1_000
"""Of a session, in full or summarised."""

SESSIONS = Kind(
    "chat_session",
    ChatSession,
    most=MOST_SESSIONS,
    keep_days=KEEP_DAYS,
    indexes={"by_age": Index("last_updated")},
)
CHAT_TURNS = Kind(
    "chat_turn",
    ChatTurn,
    most=50_000,
    keep_days=KEEP_DAYS,
    indexes={"of": Index("session_id", "turn_number")},
)
RUNS = Kind("run", Run, most=MOST_RUNS, keep_days=KEEP_DAYS, indexes={"by_age": Index("began_at")})
RUN_KINDS = (SESSIONS, CHAT_TURNS, RUNS)


def run_view(run_id: str, run: Run, answer: Answer | None = None) -> RunView:
    """A run as a client sees it; `answer` is one with the texts of the passages, where these may be told."""
    return RunView(
        run_id=run_id,
        status=run.status,
        session_id=run.session_id,
        turn_number=run.turn_number,
        history_compacted=run.history_compacted,
        answer=answer or run.answer,
        error=run.error,
        sse_endpoint=f"/api/run/{run_id}/stream",
    )
