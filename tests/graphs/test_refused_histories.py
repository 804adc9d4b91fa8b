"""The model of the tests' graphs refuses what providers refuse; else these tests would show nothing of histories."""

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from support.phrase_model import RefusedHistory, check_history

ASKED = HumanMessage("Hi", id="1")
CALLS = AIMessage("", id="2", tool_calls=[{"name": "a", "args": {}, "id": name} for name in ("c1", "c2")])
RESULTS = [ToolMessage("one", tool_call_id="c1"), ToolMessage("two", tool_call_id="c2")]


def test_a_whole_history_is_accepted() -> None:
    check_history([ASKED, CALLS, *reversed(RESULTS), AIMessage("Done", id="3"), HumanMessage("More", id="4")])


@pytest.mark.parametrize(
    "history",
    [
        [ASKED, CALLS],
        [ASKED, CALLS, RESULTS[0]],
        [ASKED, CALLS, RESULTS[0], AIMessage("Done"), RESULTS[1]],
        [ASKED, RESULTS[0]],
        [ASKED, CALLS, *RESULTS, RESULTS[0]],
        [ASKED, AIMessage(""), HumanMessage("More")],
        [ASKED, AIMessage("Done", id="3"), AIMessage("Done", id="3")],
        [AIMessage("Done")],
    ],
)
def test_a_broken_one_is_refused(history: list[BaseMessage]) -> None:
    with pytest.raises(RefusedHistory):
        check_history(history)
