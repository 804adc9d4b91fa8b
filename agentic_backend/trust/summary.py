"""The trust summary of an exchange, computed from its rows. Pure."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from agentic_backend.exchange.write.tool_calls import LONGEST
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import text_of
from agentic_backend.protocol.trust import Ground, Statement, ToolTrust, TrustSummary
from agentic_backend.stores.records import MessageRecord
from agentic_backend.trust.matching import Evidence, matches
from agentic_backend.trust.objections import objections_of
from agentic_backend.trust.rows import TrustRows
from agentic_backend.trust.sources import Citations, Source, cited_sources, distinct, linked_sources
from agentic_backend.trust.statements import Span, statements_of
from agentic_backend.trust.tool_trust import tools_of

# So much is looked at: characters of the answer, of the question, of a call's arguments, and of all that the answer may
# rest on.
_ANSWER, _QUESTION, _ARGUMENTS, _EVIDENCE = 32_768, 16_384, 2_000, 262_144
_STATEMENTS, _SOURCES = 500, 100


def summary_of(runs: Sequence[TrustRows]) -> TrustSummary:
    """The summary of the last of `runs`; the others are the interrupted exchanges that it goes on from, in order."""
    last = runs[-1]
    answer = _answer_of(last)
    tools = _tools(runs)
    sources = distinct([*(cited_sources(answer) if answer is not None else ()), *_links(runs, tools)])
    named = [(f"s{number}", source) for number, source in enumerate(sources[:_SOURCES], 1)]
    evidence = [*_results(runs, tools), *(Evidence(id, source.said) for id, source in named)]
    text = text_of(answer.parts) if answer is not None else ""
    spans = list(islice(statements_of(text[:_ANSWER]), _STATEMENTS + 1))
    sizes = sum(len(each.text) for each in evidence)
    return TrustSummary(
        exchange_id=last.exchange.id,
        status=last.exchange.status,
        answer_rank=answer.rank if answer is not None else None,
        statements=_statements(text, spans[:_STATEMENTS], named, _bounded(evidence), _question(last)),
        tools=[tool for own in tools for tool in own],
        sources=[source.shown(id) for id, source in named],
        objections=objections_of(runs),
        cut=(
            any(each.cut or any(len(call.result or "") > LONGEST for call in each.calls) for each in runs)
            or len(text) > _ANSWER
            or len(spans) > _STATEMENTS
            or len(sources) > _SOURCES
            or sizes > _EVIDENCE
        ),
    )


def _answer_of(run: TrustRows) -> MessageRecord | None:
    """The message with the answer; None if there is none, or if it is what a module says instead of one."""
    if run.exchange.status is ExchangeStatus.BLOCKED:
        return None
    return run.answers[-1] if run.answers else None


def _tools(runs: Sequence[TrustRows]) -> list[list[ToolTrust]]:
    """The tools of each run, numbered through."""
    tools: list[list[ToolTrust]] = []
    for run in runs:
        tools.append(tools_of(run.exchange, run.calls, first_number=1 + sum(map(len, tools))))
    return tools


def _links(runs: Sequence[TrustRows], tools: Sequence[Sequence[ToolTrust]]) -> Iterator[Source]:
    for run, own in zip(runs, tools, strict=True):
        yield from linked_sources(run.messages, {tool.call_id: tool.id for tool in own})


def _results(runs: Sequence[TrustRows], tools: Sequence[Sequence[ToolTrust]]) -> Iterator[Evidence]:
    """The results of the calls that succeeded, without what other agents have said."""
    for run, own in zip(runs, tools, strict=True):
        for call, tool in zip(run.calls, own, strict=True):
            is_said = call.allowance is not None and call.allowance.asks_agent
            if tool.outcome == "ok" and call.result and not is_said:
                yield Evidence(tool.id, call.result, json.dumps(call.args)[:_ARGUMENTS])


def _bounded(evidence: Sequence[Evidence]) -> Iterator[Evidence]:
    room = _EVIDENCE
    for each in evidence:
        yield each._replace(text=each.text[:room])
        room -= min(room, len(each.text))


def _question(run: TrustRows) -> str:
    return text_of(run.messages[0].parts)[:_QUESTION] if run.messages else ""


def _statements(
    text: str, spans: Sequence[Span], sources: Sequence[tuple[str, Source]], evidence: Iterator[Evidence], asked: str
) -> list[Statement]:
    texts = [text[span.start : span.end] for span in spans]
    citations = Citations(sources)
    statements = []
    for said, span, matched in zip(texts, spans, matches(texts, list(evidence), asked), strict=True):
        cited = [] if span.kind == "code" else citations.of(said)
        grounds = [Ground(id=id, by="citation") for id in cited]
        grounds += [Ground(id=id, by="match") for id in matched if id not in cited]
        statements.append(Statement(text=said, start=span.start, end=span.end, rests_on=grounds))
    return statements
