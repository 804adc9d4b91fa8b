"""The agents in the pictures of the documentation: each says what it has to, as a model would."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.sqlite import SqliteStore
from support.turn_model import Turn, TurnModel, call

QUESTION = "Does a heat pump pay off for the office in Lindau?"
RELEASE = "Roll out 4.2 to half of Europe"
USER = "developer"

_ANSWER = """**Yes, after about seven years.** The building needs 96 MWh of heat a year, of which the boiler loses a \
tenth [1]. A pump with a seasonal factor of 3.6 turns that into less than 27 MWh of electricity [2].

| | gas boiler | heat pump |
|---|--:|--:|
| energy, MWh a year | 107 | 26.7 |
| cost, € a year | 12,840 | 6,680 |

The payback time follows from the price:

$$t = \\frac{C}{\\Delta c} = \\frac{43{,}000}{12{,}840 - 6{,}680} \\approx 7.0$$

```python
def payback(price: float, boiler: float, pump: float) -> float:
    return price / (boiler - pump)  # years
```
"""


@tool(response_format="content_and_artifact")
async def search_documents(query: str) -> tuple[str, dict[str, Any]]:
    """Search the documents."""
    await asyncio.sleep(0.4)
    links = {"Energy audit Lindau, 2025": "audit", "Heat pumps in office buildings": "pumps"}
    parts = [
        {"type": "link", "kind": "citation", "title": title, "href": f"https://docs.example.org/{name}"}
        for title, name in links.items()
    ]
    return json.dumps([{"title": title, "score": 0.9} for title in links]), {"parts": parts}


@tool
async def read_meter(site: str, year: int) -> str:
    """Read a meter."""
    await asyncio.sleep(0.3)
    heat = {"Q1": 41.2, "Q2": 14.9, "Q3": 6.3, "Q4": 33.6}
    return json.dumps([{"quarter": quarter, "heat_mwh": heat_mwh} for quarter, heat_mwh in heat.items()])


@tool
def roll_out(version: str, region: str, percent: int) -> str:
    """Roll a version out."""
    return f"{version} reaches {percent} % of {region}."


def energy() -> CompiledGraph:
    calls = [
        call("search_documents", "c1", query="heat demand Lindau"),
        call("read_meter", "c2", site="Lindau", year=2025),
    ]
    turns = [Turn(thought="The heat demand decides; the audit should have it.", calls=calls, tokens=(812, 64))]
    return create_agent(TurnModel(turns=[*turns, Turn(_ANSWER, tokens=(1_630, 402))]), [search_documents, read_meter])


class Releases(AgentFlow):
    tool_names = (roll_out.name,)

    async def async_init(self) -> None:
        args = {"version": "4.2.0", "region": "Europe", "percent": 50}
        said = "The checks of 4.2.0 are green. This goes to some 12,000 people."
        model = TurnModel(turns=[Turn(said, calls=[call("roll_out", "c1", **args)]), Turn("Done.")])
        self._graph = create_agent(model, [roll_out], middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


ENTRIES: list[dict[str, Any]] = [
    {
        "id": "energy",
        "name": "Energy analyst",
        "icon": "⚡",
        "description": "Knows the meters and the audits of all sites.",
        "class_path": "support.demo_agents:energy",
        "default": True,
        "chat": {"starters": [QUESTION, "Which site used most power last month?", "Compare Ulm and Lindau"]},
    },
    {
        "id": "releases",
        "name": "Release engineer",
        "icon": "🚢",
        "description": "Rolls versions out, and asks before it does.",
        "class_path": "support.demo_agents:Releases",
        "require_approval": ["roll_out"],
    },
]

_EARLIER = {
    "Where the heating costs come from": timedelta(minutes=50),
    "Notes for the energy committee": timedelta(hours=3),
    "Solar panels on the roof in Ulm": timedelta(days=1, hours=2),
    "Draft of the quarterly report": timedelta(days=1, hours=5),
    "Why the meter in Kempten jumps": timedelta(days=4),
    "Grant for insulation": timedelta(days=9),
}


async def store_earlier_sessions(data: Path) -> None:
    """Store what was talked about before, for a server that does not run yet."""
    store = await SqliteStore.open(data / "chat.sqlite3", timeout_s=60)
    try:
        for title, ago in _EARLIER.items():
            await _store(store, title, datetime.now(UTC) - ago)
    finally:
        await store.aclose()


async def _store(store: SqliteStore, title: str, at: datetime) -> None:
    id = "-".join(title.lower().split())
    fields = {"user_id": USER, "agent_id": "energy"}
    session = SessionRecord(
        id=id, title=title, created_at=at, updated_at=at, pinned=title.startswith("Notes"), **fields
    )
    await store.create_session(session)
