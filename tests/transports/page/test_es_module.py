"""What the linker reads in a module, and what it refuses."""

import pytest

from agentic_backend.transports.page.es_module import EsModule, Import, LinkError, read_module


def read(source: str, path: str = "rooms/here.js") -> EsModule:
    return read_module(path, source.encode())


@pytest.mark.parametrize(
    ("source", "path", "names"),
    [
        ('import { a, b as c } from "./x.js";', "rooms/x.js", {"a": "a", "c": "b"}),
        ('import{a as b}from"../x.js";', "x.js", {"b": "a"}),
        ('import d, { e } from "./x.js";', "rooms/x.js", {"d": "default", "e": "e"}),
        ('import * as all from "./x.js";', "rooms/x.js", {"all": "*"}),
        ('import "./x.js";', "rooms/x.js", {}),
        ('export { a as b } from "./x.js";', "rooms/x.js", {}),
    ],
)
def test_an_import_is_read(source: str, path: str, names: dict[str, str]) -> None:
    assert read(source).imports == [Import(path, names)]


@pytest.mark.parametrize(
    ("source", "exports", "left"),
    [
        ("export const a = 1, b = 2;", {"a": "a", "b": "b"}, "const a = 1, b = 2;"),
        ("export async function f() {}", {"f": "f"}, "async function f() {}"),
        ("export class C {}", {"C": "C"}, "class C {}"),
        ("export default { a: 1 };", {"default": "__default"}, "const __default = { a: 1 };"),
        ("export default function () {}", {"default": "__default"}, "const __default = function () {}"),
        ("export default function f() {}", {"default": "f"}, "function f() {}"),
        ("let a;export{a as b,a as default};", {"b": "a", "default": "a"}, "let a;"),
        ('export { a as b } from "./x.js";', {"b": '__modules["rooms/x.js"].a'}, None),
        ('export * from "./x.js";', {'...__modules["rooms/x.js"]': '...__modules["rooms/x.js"]'}, None),
    ],
)
def test_an_export_is_read(source: str, exports: dict[str, str], left: str | None) -> None:
    module = read(source)
    assert (module.exports, module.lines) == (exports, [(0, left)] if left else [])


def test_indentation_goes_except_in_texts() -> None:
    source = "  a;\nhtml`<p>\n  b ${`\n  c`}\n  d</p>`;\nsay`\n  e`;"
    assert [line for _, line in read(source).lines] == ["a;", "html`<p>", "b ${`", "  c`}", "d</p>`;", "say`", "  e`;"]


def test_comments_go_and_what_looks_like_one_stays() -> None:
    source = """// one
const a = "// no"; // two
/* three

   four */
const b = `
// no

${/* five */ a}`;
b / /\\/\\*/;"""
    assert read(source).lines == [
        (1, 'const a = "// no"; '),
        (5, "const b = `"),
        (6, "// no"),
        (7, ""),
        (8, "${ a}`;"),
        (9, "b / /\\/\\*/;"),
    ]


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ('import("./x.js")', '__load("rooms/x.js")'),
        ("import(`../words/${a}.js`)", "__load(`words/${a}.js`)"),
        ("const from = 1, importing = from;", "const from = 1, importing = from;"),
        ('"import(`./x.js`)"', '"import(`./x.js`)"'),
    ],
)
def test_a_dynamic_import_asks_the_linked_files(source: str, left: str) -> None:
    assert read(source).lines == [(0, left)]


@pytest.mark.parametrize(
    ("source", "awaits"),
    [
        ("await x;", True),
        ("if (a) { await x; }", True),
        ("for await (const a of b) {}", True),
        ("async function f() { await x; }", False),
        ("const f = async () => await x;", False),
        ("class C { async f() { for await (const a of b) {} } }", False),
    ],
)
def test_a_module_that_awaits_is_known(source: str, awaits: bool) -> None:
    assert read(source).awaits is awaits


@pytest.mark.parametrize(
    "source",
    [
        "const = 1;",
        'import { a } from "preact";',
        'import { a } from "https://evil.example/x.js";',
        'import { a } from "../../../secrets.js";',
        'import a from "./x.json" with { type: "json" };',
        "export let a = 1;",
        "export const { a } = b;",
        "import.meta.url;",
        "import(path);",
        "import(`${path}.js`);",
        'import("preact");',
    ],
)
def test_what_the_linker_does_not_know_is_refused_by_name(source: str) -> None:
    with pytest.raises(LinkError, match=r"rooms/here\.js"):
        read(source)
