"""TimeLimits: which limit of time a silent graph reaches first."""

from uuid import UUID

from agentic_backend.agents.catalog.catalog import AgentLimits, AgentSettings
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.exchange.run.time_limits import TimeLimits
from agentic_backend.streaming.model.in_flight import InFlight, Kind

NODE, OTHER_NODE, TOOL, MODEL = (UUID(int=number) for number in range(4))
LIMITS = TimeLimits("desk", silence_s=10, tool_s=60, run_s=100)


def ends(in_flight: InFlight, open_call: str | None = None, last_sign: float = 0) -> tuple[float, str]:
    at, error = LIMITS.next_end(in_flight, open_call, last_sign)
    return at, error.content.partition(": ")[2] or error.code


def at_work(*work: tuple[UUID, UUID | None, Kind, str, float], is_called: bool = True) -> InFlight:
    in_flight = InFlight(0)
    for one in work:
        in_flight.begin(*one, is_called=is_called)
    return in_flight


def test_an_entry_s_limits_come_before_the_server_s() -> None:
    limits = LimitsSettings(model_timeout_s=1, tool_timeout_s=2, run_timeout_s=3)
    plain = AgentSettings(id="desk", class_path="m:n")
    assert TimeLimits.of(plain, limits) == TimeLimits("desk", silence_s=1, tool_s=2, run_s=3)
    own = AgentSettings(id="desk", class_path="m:n", limits=AgentLimits(silence_s=4, tool_s=5, run_s=6))
    assert TimeLimits.of(own, limits) == TimeLimits("desk", silence_s=4, tool_s=5, run_s=6)


def test_silence_is_that_of_the_graph_or_of_a_node_or_of_a_model() -> None:
    assert ends(at_work(), last_sign=3) == (13, "its graph gave no sign of life.")
    node = (NODE, None, Kind.NODE, "plan", 1.0)
    assert ends(at_work(node), last_sign=3) == (13, "its node 'plan' gave no sign of life.")
    model = (MODEL, NODE, Kind.MODEL, "", 5.0)
    assert ends(at_work(node, model), last_sign=3) == (15, "model_timeout")


def test_a_tool_has_its_own_time_whatever_works_beside_it() -> None:
    tool = (TOOL, NODE, Kind.TOOL, "search", 2.0)
    node = (NODE, None, Kind.NODE, "tools", 1.0)
    assert ends(at_work(node, tool), "search", last_sign=40) == (62, "the tool 'search' did not end.")
    beside = (OTHER_NODE, None, Kind.NODE, "plan", 1.0)
    assert ends(at_work(node, tool, beside), "search", last_sign=40) == (50, "its node 'plan' gave no sign of life.")
    assert ends(at_work(node, tool, beside), "search", last_sign=55) == (62, "the tool 'search' did not end.")


def test_a_tool_that_no_model_called_may_be_silent_as_long_as_the_graph_is_not() -> None:
    tool, node = (TOOL, NODE, Kind.TOOL, "search", 2.0), (NODE, None, Kind.NODE, "plan", 1.0)
    assert ends(at_work(node, tool, is_called=False), last_sign=40) == (100, "the tool 'search' did not end.")


def test_a_call_whose_tool_runs_without_langchain_has_a_tool_s_time() -> None:
    node = (NODE, None, Kind.NODE, "tools", 1.0)
    assert ends(at_work(node), "search", last_sign=3) == (63, "the tool 'search' did not end.")
    model = (MODEL, NODE, Kind.MODEL, "", 1.0)
    assert ends(at_work(node, model), "search", last_sign=3) == (13, "model_timeout")
