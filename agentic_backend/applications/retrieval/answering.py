"""Answering: what is found for a question goes into the prompt of the model that answers it, and what it cites into the
answer.

The middleware retrieves once for each question, before the first call of the agent's model. The hook looks at the
answer before it is stored: citations of what was not found are removed, and the judge says what the passages do not.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.config import get_stream_writer

from agentic_backend.application import (
    CONTINUE,
    ApplicationSettings,
    ApplicationUnavailable,
    HookContext,
    HookResult,
    LinkPart,
    Modifications,
    SessionNotFound,
    blocked,
    current_context,
    emit_parts,
)
from agentic_backend.applications.retrieval.citations import check_citations
from agentic_backend.applications.retrieval.judge import JudgedSentence, Judgement, judge
from agentic_backend.applications.retrieval.passages import Packed, Passage, packed, prompt_of
from agentic_backend.applications.retrieval.records import TURNS, Turn
from agentic_backend.applications.retrieval.retriever import Retrieved

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

Mode = Literal["corpus_only", "hybrid", "general_only"]

_CITE = (
    "Where a sentence rests on a passage, name its number behind it, such as [1] or [2][3]. Write no links. Numbers in "
    "earlier answers are those of other passages."
)
_RULES: dict[Mode, str] = {
    "corpus_only": f"Answer from these passages alone. If they do not say it, say that the documents do not. {_CITE}",
    "hybrid": f"Answer from these passages where they say something of it, and say where you do not. {_CITE}",
    "general_only": "",
}
_NOTHING_FOUND = "I find nothing about this in the documents."
_NOT_SUPPORTED = "Parts of this answer are not supported by the documents."
_WITHHELD = "The answer is withheld, as the documents do not support it."
_MOST_TURNS = 2_000
_LONGEST_QUERY, _LONGEST_EARLIER, _EARLIER = 2_000, 300, 2
_MOST_JUDGED, _LONGEST_JUDGED = 100, 300
"""Sentences that the panel shows, and characters of each."""


class DocumentTuning(ApplicationSettings):
    """What an agent's entry says of documents."""

    collections: Literal["all"] | tuple[str, ...] = ()
    """Titles or ids of those that it asks, as far as the person may read them; `all` of these."""
    mode: Mode = "hybrid"
    passages: int = 8
    context_tokens: int = 4_000
    judge: Literal["off", "tell", "withhold"] = "tell"
    judge_threshold: float = 0.5


@dataclass(slots=True)
class Answering:
    """One question that is being answered."""

    query: str
    mode: Mode
    tuning: DocumentTuning
    retrieved: Retrieved = field(default_factory=Retrieved)
    packed: Packed = field(default_factory=lambda: Packed(()))
    judgement: Judgement | None = None
    judged: str = ""
    """The answer that was judged."""
    removed: int = 0
    """Citations and links that were removed from the answer."""


class AnswersFromDocuments(AgentMiddleware[Any, Any, Any]):
    def __init__(self, application: "Retrieval") -> None:
        super().__init__()
        self._application = application
        self._answering: OrderedDict[tuple[str, str], Answering] = OrderedDict()
        """By the ids of the exchange and the agent."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        answering = await self._of(request.messages)
        if answering is None:
            return await handler(request)
        if not answering.packed.passages:
            if answering.mode == "corpus_only":
                return ModelResponse(result=[AIMessage(_NOTHING_FOUND)])
            return await handler(request)
        section = prompt_of(answering.packed.by_number, _RULES[answering.mode])
        prompt = "\n\n".join(filter(None, [request.system_prompt, section]))
        response = await handler(request.override(system_message=SystemMessage(prompt)))
        self._cite(response, answering)
        return response

    async def _of(self, messages: Sequence[AnyMessage]) -> Answering | None:
        """What was found for the question, and once for each; None if no documents are asked."""
        context = current_context()
        tuning: DocumentTuning = self._application.tuning_of(context.agent_id)
        mode = _mode_of(context.client, tuning)
        query = query_of(messages)
        if mode == "general_only" or not query:
            return None
        key = (context.exchange_id, context.agent_id)
        answering = self._answering.get(key)
        if answering is None or answering.query != query:
            answering = await self._retrieved(Answering(query, mode, tuning))
            self._answering[key] = answering
            while len(self._answering) > _MOST_TURNS:
                self._answering.popitem(last=False)
        return answering

    async def _retrieved(self, answering: Answering) -> Answering:
        context, application = current_context(), self._application
        user, tuning = application.user_of_run(), answering.tuning
        collections = await application.asked_collections(user, context.session_id, tuning)
        if not collections and answering.mode == "hybrid":
            return answering
        retrieved = await application.retriever.retrieve(user, answering.query, collections)
        ways = retrieved.ways.values()
        if ways and all(way.failed for way in ways) and answering.mode == "corpus_only":
            raise ApplicationUnavailable("The documents can't be searched at the moment.")
        answering.retrieved = retrieved
        fitting = packed(retrieved.passages, most=tuning.passages, most_tokens=tuning.context_tokens)
        answering.packed = replace(fitting, passages=[await _reviewed(each) for each in fitting.passages])
        get_stream_writer()({"retrieval": _told_of(answering)})
        return answering

    def _cite(self, response: ModelResponse[Any], answering: Answering) -> None:
        """Show what the answer cites, as its sources."""
        last = response.result[-1] if response.result else None
        if not isinstance(last, AIMessage) or last.tool_calls:
            return
        passages = answering.packed.by_number
        checked = check_citations(str(last.text), passages.keys())
        emit_parts(*(_source(number, passages[number]) for number in sorted(checked.cited)))

    async def look_at(self, context: HookContext) -> HookResult:
        """The hook: what becomes of the answer."""
        current, response = context.conversation.current, context.response
        answering = self._answering.get((current.exchange_id, context.tool.id)) if current is not None else None
        if answering is None or response is None or response.channel != "final" or response.is_title:
            return CONTINUE
        if not answering.packed.passages:
            await self._keep(context, answering)
            return CONTINUE
        passages = answering.packed.by_number
        sources = {number: passage.text for number, passage in passages.items()}
        checked = check_citations(response.text, sources, [*sources.values(), answering.query])
        answering.removed = checked.unknown + checked.links
        tuning, text = answering.tuning, checked.text
        if tuning.judge != "off":
            answering.judged = text
            answering.judgement = await asyncio.to_thread(judge, text, sources, threshold=tuning.judge_threshold)
        await self._keep(context, answering)
        if answering.judgement is not None and answering.judgement.score < tuning.judge_threshold:
            if tuning.judge == "withhold":
                return blocked("not supported by the documents", _WITHHELD)
            text = f"{text}\n\n*{_NOT_SUPPORTED}*"
        if text == response.text:
            return CONTINUE
        return HookResult(modifications=Modifications(response=text))

    async def _keep(self, context: HookContext, answering: Answering) -> None:
        """Store what was done for the answer, for the conversation's panel."""
        if context.session.id is None:
            return
        turns = self._application.records_of(TURNS).of_session(context.user.id, context.session.id)
        current = context.conversation.current
        exchange_id = current.exchange_id if current is not None else ""
        turn = Turn(exchange_id=exchange_id, query=answering.query, told=json.dumps(_told_of(answering, whole=True)))
        try:
            before = await turns.get("latest")
            await (turns.add(turn, "latest") if before is None else turns.change(before, turn))
        except SessionNotFound:
            return


def query_of(messages: Sequence[AnyMessage]) -> str:
    """What is looked for: the last message of the person, below the beginnings of those before it."""
    said = [str(message.text) for message in messages if isinstance(message, HumanMessage)]
    if not said:
        return ""
    earlier = [text[:_LONGEST_EARLIER] for text in said[-1 - _EARLIER : -1]]
    return "\n".join([*earlier, said[-1][:_LONGEST_QUERY]]).strip()


def _mode_of(client: Any, tuning: DocumentTuning) -> Mode:
    """The client may ask with another mode than the agent has: `runtime_context: {"retrieval": {"mode": …}}`."""
    asked = client.get("retrieval") if isinstance(client, dict) else None
    mode = asked.get("mode") if isinstance(asked, dict) else None
    return mode if mode in _RULES else tuning.mode


async def _reviewed(passage: Passage) -> Passage:
    """The passage as policy modules leave it, which see it as the result of a tool called `documents`."""
    review = current_context().filter_tool_result
    text = passage.text if review is None else await review("documents", passage.text)
    return passage if text == passage.text else replace(passage, text=text)


def _source(number: int, passage: Passage) -> LinkPart:
    place = " > ".join(filter(None, [passage.name, *passage.path, f"page {passage.page}" if passage.page else ""]))
    return LinkPart(
        kind="citation",
        source_id=str(number),
        title=place[:300],
        file_name=passage.name[:300],
        document_uid=passage.document,
    )


def _told_of(answering: Answering, *, whole: bool = False) -> dict[str, Any]:
    """What was done, as JSON; `whole` with the passages' texts and what the judge says."""
    ways = {
        name: {"found": way.found, "took_ms": way.took_ms, **({"failed": way.failed} if way.failed else {})}
        for name, way in answering.retrieved.ways.items()
    }
    told: dict[str, Any] = {
        "mode": answering.mode,
        "language": answering.retrieved.language,
        "ways": ways,
        "passages": [_passage(number, each, whole) for number, each in answering.packed.by_number.items()],
        "left_out": answering.packed.left_out,
        "tokens": answering.packed.tokens,
    }
    if whole and answering.judgement is not None:
        sentences = [_judged(answering.judged, one) for one in answering.judgement.sentences[:_MOST_JUDGED]]
        told |= {"judge": {"score": answering.judgement.score, "sentences": sentences}, "removed": answering.removed}
    return told


def _judged(answer: str, one: JudgedSentence) -> dict[str, Any]:
    return {
        "text": answer[one.start : one.end][:_LONGEST_JUDGED],
        "score": one.score,
        "supported": one.supported,
        "reason": one.reason,
        "cited": list(one.cited),
    }


def _passage(number: int, passage: Passage, whole: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "number": number,
        "document": passage.document,
        "name": passage.name,
        "collection": passage.collection,
        "collection_id": passage.collection_id,
        "path": list(passage.path),
        "page": passage.page,
        "start": passage.start,
        "end": passage.end,
        "score": round(passage.score, 5),
        "ranks": dict(passage.ranks),
    }
    return {**told, "text": passage.text} if whole else told
