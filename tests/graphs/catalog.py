"""The catalog of the tests' graphs: nothing but an id and a class path each, as whoever has a graph would write it."""

from typing import Any

GRAPHS = {
    "odd-names": "graphs.odd_names:graph",
    "parallel-tools": "graphs.parallel_tools:graph",
    "parallel-models": "graphs.parallel_models:graph",
    "nested-shared": "graphs.nested:shared",
    "nested-private": "graphs.nested:private",
    "nested-copying": "graphs.nested:copying",
    "nested-pipeline": "graphs.nested:pipeline",
    "nested-short-form": "graphs.nested:short_form",
    "supervisor-last-message": "graphs.supervisor:last_message",
    "supervisor-full-history": "graphs.supervisor:full_history",
    "swarm": "graphs.swarm:graph",
    "deep-agent": "graphs.deep_agent:graph",
    "ends-on-tool": "graphs.ends_on_tool:graph",
    "custom-events": "graphs.custom_events:graph",
    "own-state": "graphs.own_state:graph",
    "pydantic-state": "graphs.state_forms:pydantic_model",
    "dataclass-state": "graphs.state_forms:data_class",
    "failing": "graphs.failing:graph",
    "blocking": "graphs.blocking:graph",
}
"""Those that can hold a conversation."""

OTHERS = {
    "slow-deep-agent": "graphs.deep_agent:slow",
    "endless": "graphs.failing:endless",
    "without-messages": "graphs.unfit:without_messages",
    "without-input": "graphs.unfit:without_input",
    "workflow": "graphs.unfit:workflow",
}

AGENTS: list[dict[str, Any]] = [
    {"id": name, "class_path": class_path} for name, class_path in (GRAPHS | OTHERS).items()
]
