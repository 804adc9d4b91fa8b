"""Answering: what is found for a question goes into the prompt of the model that answers it, and what it cites into the
answer.

The middleware retrieves once for each question, before the first call of the agent's model. The hook looks at the
answer before it is stored: citations of what was not found are removed, and the judge says what the passages do not.
"""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.config import get_stream_writer
from pydantic import Field

from agentic_backend.application import (
    CONTINUE,
    ApplicationSettings,
    HookContext,
    HookResult,
    LinkPart,
    Modifications,
    blocked,
    current_context,
    emit_parts,
)
from agentic_backend.applications.retrieval.answering.passages import Passage, packed
from agentic_backend.applications.retrieval.answering.pipeline import (
    NOTHING_FOUND,
    RULES,
    TOOL,
    Answering,
    Checked,
    JudgeMode,
    Mode,
    asking,
    check,
    check_cited,
    query_of,
    rerank,
    retrieve,
    reviewed,
    rewrite,
    told_of,
)
from agentic_backend.applications.retrieval.answering.tools_apart import (
    deciding,
    has_calls,
    without_calls,
    without_tools,
)
from agentic_backend.applications.retrieval.answering.turns import places_of
from agentic_backend.applications.retrieval.judging.comparison import THRESHOLD
from agentic_backend.applications.retrieval.metrics import JUDGED, REMOVED
from agentic_backend.applications.retrieval.records import Turn
from agentic_backend.applications.retrieval.searching.rewriting import Said
from agentic_backend.applications.retrieval.shelves import Place
from agentic_backend.applications.retrieval.views import CitedPassage

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

_MOST_TURNS = 2_000
_MODEL_JUDGE_S = 5.0
LOOKING_S = 9.0
"""How long the hook may take: the judge by words, then by a model. All that looks at an answer has ten seconds."""


class DocumentTuning(ApplicationSettings):
    """What an agent's entry says of documents."""

    collections: Literal["all"] | tuple[str, ...] = ()
    """Titles or ids of those that it asks, as far as the person may read them; `all` of these."""
    mode: Mode = "hybrid"
    passages: int = Field(8, ge=1, le=40)
    """How many the model is given at most."""
    context_tokens: int = Field(4_000, ge=100, le=20_000)
    """How many tokens they have together, at about four characters each."""
    tools: Literal["apart", "together"] = "apart"
    """`apart`: whether tools are called is decided without passages, in a call of the model of its own; `together`."""
    rewrite_model: str | None = None
    """A model of the settings, which puts a follow-up so that it can be looked for alone; null: none does."""
    rerank_model: str | None = None
    """A model of the settings, which puts the best of what was found into its order; null: none does."""
    judge: JudgeMode = "tell"
    judge_threshold: float = Field(THRESHOLD, ge=0, le=1)
    judge_model: str | None = None
    """A model of the settings, which judges after the judge by words, and in its place; null: none does."""


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
                return ModelResponse(result=[AIMessage(NOTHING_FOUND)])
            return await handler(request)
        tuning: DocumentTuning = self._application.tuning_of(current_context().agent_id)
        is_apart = bool(request.tools) and tuning.tools == "apart"
        if is_apart:
            decided = await handler(deciding(request))
            if has_calls(decided):
                return decided
            request = without_tools(request)
        answering.is_structured = request.response_format is not None
        prompt = "\n\n".join(filter(None, [request.system_prompt, answering.section]))
        response = await handler(request.override(system_message=SystemMessage(prompt)))
        if is_apart:
            without_calls(response)
        await self._cite(response, answering)
        return response

    async def _of(self, messages: Sequence[AnyMessage]) -> Answering | None:
        """What was found for the question, and once for each; None if no documents are asked."""
        context = current_context()
        tuning: DocumentTuning = self._application.tuning_of(context.agent_id)
        mode = _mode_of(context.client, tuning)
        said = _said(messages)
        query = query_of([asked for asked, _ in said])
        if mode == "general_only" or not query:
            return None
        key = (context.exchange_id, context.agent_id)
        answering = self._answering.get(key)
        if answering is None or answering.query != query:
            answering = Answering(query, mode, tuning.judge, tuning.judge_threshold)
            await self._retrieve(answering, tuning, said)
            self._answering[key] = answering
            while len(self._answering) > _MOST_TURNS:
                self._answering.popitem(last=False)
        return answering

    async def _retrieve(self, answering: Answering, tuning: DocumentTuning, said: Said) -> None:
        context, application = current_context(), self._application
        user = application.user_of_run()
        collections = await application.asked_collections(user, context.session_id, tuning.collections)
        if not collections and answering.mode == "hybrid":
            return
        review = context.filter_tool_result
        look = partial(review, TOOL, [TOOL]) if review is not None else None
        if tuning.rewrite_model is not None and collections:
            ask = asking(application, "rewrite", tuning.rewrite_model, None)
            await rewrite(answering, said[:-1], said[-1][0], ask, look)
        await retrieve(application, user, answering, collections)
        if tuning.rerank_model is not None:
            await rerank(answering, asking(application, "rerank", tuning.rerank_model, None), look)
        found = answering.retrieved.passages
        # What does not fit is not kept as long as the question is.
        answering.retrieved = replace(answering.retrieved, passages=())
        fitting = packed(found, most=tuning.passages, most_tokens=tuning.context_tokens)
        if look is not None:
            fitting = replace(fitting, passages=await reviewed(fitting.passages, look))
        answering.packed = fitting
        get_stream_writer()({"retrieval": told_of(answering)})

    async def _cite(self, response: ModelResponse[Any], answering: Answering) -> None:
        """Show what the answer cites, as its sources."""
        last = response.result[-1] if response.result else None
        if not isinstance(last, AIMessage) or last.tool_calls:
            return
        passages = answering.packed.by_number
        checked = await check_cited(answering, str(last.text))
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
        model = self._application.tuning_of(context.tool.id).judge_model
        ask = asking(self._application, "judge", model, None) if model is not None else None
        checked = await check(answering, response.text, ask, _MODEL_JUDGE_S)
        self._measure(answering, checked)
        await self._keep(context, answering)
        if checked.is_withheld:
            return blocked("not supported by the documents", checked.text)
        if checked.text == response.text:
            return CONTINUE
        return HookResult(modifications=Modifications(response=checked.text))

    def _measure(self, answering: Answering, checked: Checked) -> None:
        if answering.removed:
            self._application.measure(REMOVED, answering.removed)
        if answering.judgement is not None:
            is_supported = answering.judgement.score >= answering.judge_threshold
            outcome = "supported" if is_supported else "withheld" if checked.is_withheld else "unsupported"
            self._application.measure(JUDGED, outcome=outcome)

    async def _keep(self, context: HookContext, answering: Answering) -> None:
        """Store what was done for the answer, for the conversation's panel."""
        if context.session.id is None:
            return
        current = context.conversation.current
        exchange_id = current.exchange_id if current is not None else ""
        told = json.dumps(told_of(answering, whole=True))
        passages = tuple(places_of(answering.packed.by_number))
        turn = Turn(exchange_id=exchange_id, query=answering.sought, told=told, passages=passages)
        await self._application.turns.keep(Place(context.user.id, context.session.id), turn)


def _said(messages: Sequence[AnyMessage]) -> Said:
    """What the person has asked, each with what was last said to it."""
    said: list[tuple[str, str]] = []
    for message in messages:
        text = str(message.text)
        if isinstance(message, HumanMessage):
            said.append((text, ""))
        elif isinstance(message, AIMessage) and said and text:
            said[-1] = (said[-1][0], text)
    return said


def _mode_of(client: Any, tuning: DocumentTuning) -> Mode:
    """The client may ask with another mode than the agent has: `runtime_context: {"retrieval": {"mode": …}}`."""
    asked = client.get("retrieval") if isinstance(client, dict) else None
    mode = asked.get("mode") if isinstance(asked, dict) else None
    return mode if isinstance(mode, str) and mode in RULES else tuning.mode


def _source(number: int, passage: Passage) -> LinkPart:
    cited = CitedPassage(
        number=number,
        collection=passage.collection_id,
        session=passage.place.session_id,
        document=passage.document,
        edition=passage.edition,
        start=passage.start,
        end=passage.end,
        path=list(passage.path),
        page=passage.page,
        score=round(passage.score, 5),
        ranks=dict(passage.ranks),
    )
    place = " > ".join(filter(None, [passage.name, *passage.path, f"page {passage.page}" if passage.page else ""]))
    return LinkPart(
        kind="citation",
        source_id=str(number),
        title=place[:300],
        file_name=passage.name[:300],
        document_uid=passage.document,
        panel="retrieval/documents",
        panel_data=cited.model_dump(),
    )
