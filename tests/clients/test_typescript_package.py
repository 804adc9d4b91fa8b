"""The package of the TypeScript client: what is in it, that its types hold, and that the README's example runs."""

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from services.typescript import PACKAGE, typescript_modules
from support.chat_client import PATIENCE_S
from support.running_server import running_server
from support.test_agents import ENTRIES
from support.typescript_client import Consumer

CHECKOUT = PACKAGE.parents[1]
HERE = Path(__file__).parent
STRICT = {
    "strict": True,
    "noUncheckedIndexedAccess": True,
    "exactOptionalPropertyTypes": True,
    "noEmit": True,
    "target": "ES2023",
    "module": "NodeNext",
    "types": ["node"],
}
"""The options of a careful user. Without `skipLibCheck` the client's own declarations are checked too."""


def readme_example() -> str:
    [code] = re.findall(r"```js\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    return str(code)


def compiled(directory: Path, *files: str, **options: object) -> str:
    """What `tsc` says of these files, in the project at `directory`."""
    configuration = directory / "tsconfig.json"
    configuration.write_text(json.dumps({"compilerOptions": {**STRICT, **options}, "files": files}))
    compiler = typescript_modules() / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", compiler, "-p", configuration], capture_output=True, text=True, timeout=120)
    return done.stdout


def test_the_types_are_current() -> None:
    types = subprocess.run([sys.executable, PACKAGE / "protocol_types.py"], capture_output=True, check=True).stdout
    assert (PACKAGE / "protocol.d.ts").read_bytes() == types, "stale: write it anew with `make clients`"


def test_it_has_the_servers_version() -> None:
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == version
    assert json.loads((PACKAGE / "package-lock.json").read_text())["version"] == version


def test_the_guide_to_the_doors_names_the_versions_that_are_tested() -> None:
    package = json.loads((PACKAGE / "package.json").read_text())
    [row] = [
        line for line in (CHECKOUT / "docs" / "doors.md").read_text().splitlines() if f"`{package['name']}`" in line
    ]
    assert f"| {package['version']}, " in row and f"`ws` {package['devDependencies']['ws']} " in row


def test_the_lock_file_names_no_host() -> None:
    assert "://" not in (PACKAGE / "package-lock.json").read_text()


@pytest.mark.typescript
def test_the_package_has_the_pages_modules_with_their_types_and_nothing_else(consumer: Consumer) -> None:
    modules = {path.stem for path in (CHECKOUT / "agentic_backend" / "web" / "client").iterdir()}
    built = {f"dist/{module}.{kind}" for module in modules for kind in ("js", "d.ts")}
    assert set(consumer.packed) == built | {"package.json", "README.md", "index.d.ts", "protocol.d.ts"}


@pytest.mark.typescript
def test_right_uses_compile_and_wrong_ones_do_not(consumer: Consumer) -> None:
    """Each wrong use in the file stands under a `@ts-expect-error`, which is an error itself where none follows."""
    (consumer.directory / "uses.ts").write_text((HERE / "uses.ts").read_text())
    (consumer.directory / "example.mts").write_text(readme_example())
    assert compiled(consumer.directory, "uses.ts", "example.mts", skipLibCheck=True) == ""


@pytest.mark.typescript
@pytest.mark.parametrize(
    "runtime",
    [{"lib": ["ES2023", "DOM"], "types": []}, {"lib": ["ES2023"], "types": ["node"]}],
    ids=["browser", "node"],
)
def test_the_declarations_are_complete_in_each_runtime(consumer: Consumer, runtime: dict[str, list[str]]) -> None:
    (consumer.directory / "bare.ts").write_text('export { connect } from "@agentic-backend/client";\n')
    assert compiled(consumer.directory, "bare.ts", **runtime) == ""


@pytest.mark.typescript
def test_a_mistake_in_the_types_of_a_module_is_found(tmp_path: Path) -> None:
    configuration = json.loads((PACKAGE / "tsconfig.json").read_text())
    client = tmp_path / "client"
    client.mkdir()
    for module in (CHECKOUT / "agentic_backend" / "web" / "client").iterdir():
        (client / module.name).write_text(module.read_text())
    wrong = (client / "random-id.js").read_text().replace("crypto.randomUUID()", "crypto.randomUUID().nothing")
    (client / "random-id.js").write_text(wrong)
    options = configuration["compilerOptions"]
    options["paths"] = {"@agentic-backend/client/protocol": [str(PACKAGE / "protocol.d.ts")]}
    said = compiled(tmp_path, "client/index.js", **{**options, "rootDir": None, "outDir": None, "declaration": False})
    assert "nothing" in said and said.count("error TS") == 1


@pytest.mark.typescript
async def test_the_example_has_twenty_lines_and_runs_word_for_word(consumer: Consumer, tmp_path: Path) -> None:
    example = readme_example()
    assert len(example.splitlines()) <= 20
    (consumer.directory / "example.mjs").write_text(example)
    async with running_server(tmp_path, agents=ENTRIES) as server:
        said = await output_of(consumer.directory, "example.mjs", server.address, "my name is Zorblax")
        assert said.endswith("\nok\n") and "Zorblax" in said


@pytest.mark.typescript
async def test_a_runtime_without_sockets_is_told_what_to_give(consumer: Consumer) -> None:
    program = """
      import { connect } from "@agentic-backend/client";
      delete globalThis.WebSocket;
      try { connect("http://127.0.0.1:1"); } catch (error) { console.log(error.message); }
    """
    (consumer.directory / "bare.mjs").write_text(program)
    assert "give its class" in await output_of(consumer.directory, "bare.mjs")


@pytest.mark.typescript
async def test_what_a_client_keeps_of_exchanges_that_never_end_is_bounded(consumer: Consumer) -> None:
    program = f"""
      import {{ BoundedMap }} from "{consumer.client / "dist" / "bounded-map.js"}";
      const map = new BoundedMap(2);
      for (const id of ["a", "b", "a", "c"]) map.set(id, id);
      console.log([...map.keys()].join());
    """
    (consumer.directory / "bounded.mjs").write_text(program)
    assert await output_of(consumer.directory, "bounded.mjs") == "b,c\n"


async def output_of(directory: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "node", *arguments, cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        said, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    return said.decode()
