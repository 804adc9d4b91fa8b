"""An MCP server over stdio that sends the answers given by a test, valid or not.

If a test gives it tools of these names: `heard` tells the requests to the process, one per line, a call with its tool's
name; `exit` ends the process; `process_id` tells its id; `count` counts up; `hang` gets no answer. It starts at
once, as it needs no package.
"""

import base64
import json
import sys
import zlib
from typing import Any, Literal

_PROGRAM = """
import base64, json, os, sys, zlib
pages, result, resource = json.loads(zlib.decompress(base64.b64decode(sys.argv[1])))
heard, counted = [], 0
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    asked = request.get("params") or {}
    heard.append(" ".join([request["method"], *([asked["name"]] if "name" in asked else [])]))
    if request["method"] == "initialize":
        said = {"protocolVersion": asked["protocolVersion"], "capabilities": {"tools": {}}}
        said["serverInfo"] = {"name": "raw", "version": "1"}
    elif request["method"] == "tools/list":
        page = int(asked.get("cursor") or 0)
        said = {"tools": pages[page]} | ({"nextCursor": str(page + 1)} if page + 1 < len(pages) else {})
    elif request["method"] == "resources/read":
        if resource == "hang":
            continue
        said = resource
    elif asked.get("name") == "exit":
        sys.exit()
    elif asked.get("name") == "hang":
        continue
    elif asked.get("name") in ("heard", "process_id", "count"):
        counted += asked["name"] == "count"
        texts = {"heard": "\\n".join(heard), "process_id": str(os.getpid()), "count": str(counted)}
        said = {"content": [{"type": "text", "text": texts[asked["name"]]}]}
    else:
        said = result
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": said}), flush=True)
"""


def raw_server(
    *pages: list[dict[str, Any]], result: dict[str, Any], resource: dict[str, Any] | Literal["hang"] | None = None
) -> dict[str, Any]:
    """The settings of a server with these `pages` of tools; each call returns `result`, each reading `resource`."""
    listed = [[{"inputSchema": {"type": "object"}, **tool} for tool in page] for page in pages]
    return {
        "transport": "stdio",
        "command": sys.executable,
        "args": ["-c", _PROGRAM, _argument([listed, result, resource or {}])],
    }


def _argument(value: Any) -> str:
    """`value` as an argument of a program, of which an operating system takes no long ones."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()
