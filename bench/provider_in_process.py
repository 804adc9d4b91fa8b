"""The limit with a provider's package: `graph.astream(stream_mode="messages")` with the ordinary ChatOpenAI.

Prints one line of JSON. Run as `python provider_in_process.py ADDRESS DELAY KIND CONCURRENCY TURNS`.
"""

import json
import sys

import in_process
import provider_graph
import uvloop
from langchain_openai import ChatOpenAI

if __name__ == "__main__":
    address, delay, kind, concurrency, turns = sys.argv[1:]
    model = ChatOpenAI(model=kind, base_url=f"{address}/{delay}/v1", api_key="none", stream_usage=True)
    graph = provider_graph.with_tools(model) if kind == "tools" else provider_graph.build(model)
    print(json.dumps(uvloop.run(in_process.measure(graph, int(concurrency), int(turns)))))
