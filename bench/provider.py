"""`make bench-provider`: the product beside the same graph in process, both with a real provider's package.

Both ask a local server of chat completions (`provider_server.py`): the product with the model as its settings name it,
the graph in process with the ordinary ChatOpenAI. They take turns in one run. Titles are off, and measured apart.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import load_client
import provider_answers
import provider_server
import results
import servers
from figures import medians
from servers import Server

ROUNDS = 3
TURNS = {
    ("no-delay", 1): 40,
    ("no-delay", 10): 100,
    ("no-delay", 50): 200,
    ("five-ms", 1): 5,
    ("five-ms", 10): 40,
    ("five-ms", 50): 200,
}
WARM_UP = 10
FIRST_TOKEN_LIMIT = 1.3
TITLE = "With a provider's package"
PACKAGES = ("langchain-openai", "openai", "langchain-core", "langgraph")

Figures = dict[str, float]


@dataclass(frozen=True)
class Case:
    delay: str
    kind: str
    at_once: int

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.delay}, {self.at_once}"

    @property
    def turns(self) -> int:
        return TURNS[self.delay, self.at_once]


CASES = [
    *(Case(delay, "text", at_once) for delay, at_once in TURNS),
    *(Case("no-delay", kind, 10) for kind in provider_answers.KINDS if kind != "text"),
]


@contextmanager
def product(directory: Path, provider: Server, *, titles: bool = False) -> Iterator[Server]:
    """The product with one model for each kind of answer and delay."""
    models = {
        f"{delay}-{kind}": {
            "model": f"openai:{kind}",
            "options": {"base_url": f"{provider.address}/{delay}/v1", "api_key": "none"},
        }
        for delay in provider_server.DELAYS_S
        for kind in provider_answers.KINDS
    }
    environment = {
        "AGENTIC_MODELS": json.dumps(models | {"default": models["no-delay-text"]}),
        "AGENTIC_TITLES__ENABLED": json.dumps(titles),
    }
    with servers.product(directory, catalog="provider_catalog.yaml", environment=environment) as server:
        yield server


def asked(provider: Server) -> dict[str, int]:
    """How often titles and answers were asked for so far."""
    with urllib.request.urlopen(f"{provider.address}/asked", timeout=10) as answer:
        told: dict[str, int] = json.loads(answer.read())
    return {"titles": 0, "answers": 0} | told


def in_process(provider: Server, case: Case) -> Figures:
    arguments = [provider.address, case.delay, case.kind, str(case.at_once), str(case.turns)]
    command = [sys.executable, "provider_in_process.py", *arguments]
    output = subprocess.run(command, cwd=servers.HERE, check=True, capture_output=True, text=True, timeout=300).stdout
    figures: Figures = json.loads(output)
    return figures


def in_product(server: Server, case: Case) -> Figures:
    return asyncio.run(load_client.measure(server, f"{case.delay}-{case.kind}", case.at_once, case.turns))


def one_round(directory: Path, provider: Server) -> dict[str, dict[str, Figures]]:
    """The figures by case, of both and of the provider."""
    found: dict[str, dict[str, Figures]] = {}
    with product(directory, provider) as server:
        for kind in provider_answers.KINDS:
            asyncio.run(load_client.measure(server, f"no-delay-{kind}", 5, WARM_UP))
        for case in CASES:
            limit = in_process(provider, case)
            before, answers = provider.cpu_s(), asked(provider)["answers"]
            figures = in_product(server, case)
            spent, answered = provider.cpu_s() - before, asked(provider)["answers"] - answers
            assert asked(provider)["titles"] == 0, "titles are off"
            found[case.name] = {
                "in process": limit,
                "product": figures,
                "provider": {"cpu_ms": spent / answered * 1000},
            }
    return found


def titles(directory: Path, provider: Server) -> dict[str, Figures]:
    """The product at 50 at a time with titles and without, in turns, and how many titles were asked for."""
    case = next(case for case in CASES if case.at_once == 50)
    with (
        product(directory / "without", provider) as without,
        product(directory / "with", provider, titles=True) as with_titles,
    ):
        sides = {"without": without, "with": with_titles}
        rounds: dict[str, list[Figures]] = {side: [] for side in sides}
        for _ in range(ROUNDS):
            for side, server in sides.items():
                before = asked(provider)["titles"]
                figures = in_product(server, case)
                rounds[side].append(figures | {"titles": (asked(provider)["titles"] - before) / case.turns})
    return {side: medians(each) for side, each in rounds.items()}


def measure() -> tuple[dict[str, dict[str, Figures]], dict[str, Figures]]:
    """The medians by case and side, and those with titles and without."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with servers.provider(directory) as provider:
            rounds = [one_round(directory / str(number), provider) for number in range(ROUNDS)]
        with servers.provider(directory) as provider:
            named = titles(directory / "titles", provider)
    sides = ("in process", "product", "provider")
    return {case: {side: medians([one[case][side] for one in rounds]) for side in sides} for case in rounds[0]}, named


def table(found: Mapping[str, Mapping[str, Figures]]) -> str:
    lines = [
        "| answer, delay, at a time | in process: turns/s | CPU ms/turn | first token p50 ms | p95 "
        "| product: turns/s | CPU ms/turn | first token p50 ms | p95 "
        "| turns/s × | CPU × | first token p50 × | provider's CPU ms/answer |",
        f"|{'---|' * 13}",
    ]
    for name, of in found.items():
        limit, product = of["in process"], of["product"]
        cells = [
            f"{side['turns_per_s']:.1f} | {side['cpu_ms']:.1f} | {side['first_token_p50']:.0f} "
            f"| {side['first_token_p95']:.0f}"
            for side in (limit, product)
        ]
        ratios = [product[key] / limit[key] for key in ("turns_per_s", "cpu_ms", "first_token_p50")]
        cells += [f"{ratio:.2f}" for ratio in ratios] + [f"{of['provider']['cpu_ms']:.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def targets(found: Mapping[str, Mapping[str, Figures]]) -> str:
    lines = ["| target | wanted | got | reached |", "|---|---|---|---|"]
    for delay in provider_server.DELAYS_S:
        of = found[f"text, {delay}, 50"]
        got = of["product"]["first_token_p50"] / of["in process"]["first_token_p50"]
        met = "yes" if got <= FIRST_TOKEN_LIMIT else "no"
        lines.append(
            f"| first token p50, {delay}, 50 at a time, × in process | ≤ {FIRST_TOKEN_LIMIT:g} | {got:.2f} | {met} |"
        )
    return "\n".join(lines)


def report(found: Mapping[str, Mapping[str, Figures]], named: Mapping[str, Figures], load: float) -> str:
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return f"""`make bench-provider` on {datetime.now(UTC):%Y-%m-%d}, {versions}: medians of {ROUNDS} rounds, in each \
of which both sides take turns. {os.cpu_count()} cores, with a load of {load:.1f} when this began: with more than 1 or \
2, other work was measured too, and only ratios and CPU tell something. Chat completions come from a local server in a \
process of its own: 200 tokens, 200 that think before them (reasoning), or {provider_answers.TOOL_CALLS} parallel \
calls and then 200 tokens (tools). *In process* is `graph.astream(stream_mode="messages")` with the ordinary \
`ChatOpenAI`; the product stores every message, and its model is built from the settings. The first token is the first \
text.

{table(found)}

Titles, no delay, 50 at a time: {named["with"]["titles"]:.2f} calls a turn, {named["with"]["cpu_ms"]:.1f} ms of CPU a \
turn with them and {named["without"]["cpu_ms"]:.1f} without, first token p50 {named["with"]["first_token_p50"]:.0f} \
and {named["without"]["first_token_p50"]:.0f} ms. They are not in the figures above.

{targets(found)}
"""


if __name__ == "__main__":
    load_before = os.getloadavg()[0]
    section = report(*measure(), load_before)
    results.put(section, TITLE)
    print(section)
