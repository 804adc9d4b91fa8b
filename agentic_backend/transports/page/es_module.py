"""ES modules of the page, read for linking: what each imports and exports, and its text with these statements gone.

tree-sitter parses them, so nothing depends on how a module is formatted, and vendored builds are read like our own.
What the page's modules have no use for is refused, not guessed at (`LinkError`): bare specifiers,
`export let`, `import.meta`, computed paths of dynamic imports except for one directory's files.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import tree_sitter_javascript
from tree_sitter import Language, Node, Parser, Query, QueryCursor

_LANGUAGE = Language(tree_sitter_javascript.language())
_QUERY = Query(
    _LANGUAGE,
    """
    (comment) @comment
    (await_expression) @await
    (for_in_statement "await") @await
    (meta_property) @meta
    (call_expression function: (import)) @dynamic
    (template_string) @text
    (string) @text
    """,
)
_FUNCTIONS = frozenset(
    (
        "arrow_function",
        "function_expression",
        "function_declaration",
        "generator_function",
        "generator_function_declaration",
        "method_definition",
    )
)

MODULES = "__modules"
"""The record of all modules of the page, by path, in what is linked."""

LOAD = "__load"
"""The function that stands for `import(…)` in what is linked; it takes the module's path."""

_DEFAULT = "__default"


class LinkError(Exception):
    """A module of the page can't be linked; the message names it."""


@dataclass(frozen=True, slots=True)
class Import:
    """`names` are by local name what the module at `path` exports, `*` for all of it."""

    path: str
    names: dict[str, str]


@dataclass(slots=True)
class EsModule:
    """A module at `path` below the page's directory.

    `lines` are its text without imports, exports, comments and indentation, each with its line in the source, from 0.
    `exports` are expressions by name. `imports` are in the order of the source, with those of `export … from`. `awaits`
    tells whether it awaits outside functions.
    """

    path: str
    lines: list[tuple[int, str]] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    exports: dict[str, str] = field(default_factory=dict)
    awaits: bool = False


def read_module(path: str, source: bytes) -> EsModule:
    """Raises LinkError for a syntax error, and for what the page's modules may not use."""
    root = Parser(_LANGUAGE).parse(source).root_node
    if root.has_error:
        raise LinkError(f"{path}: not JavaScript that the linker can read")
    module = EsModule(path)
    captures = QueryCursor(_QUERY).captures(root)
    edits = [*_statements(module, root), *_found(module, captures)]
    in_text = {line for node in captures.get("text", ()) if not _is_htm(node) for line in _lines_within(node)}
    module.lines = [(number, line if number in in_text else line.lstrip()) for number, line in _edited(source, edits)]
    return module


_Edit = tuple[int, int, str]
"""Replace the bytes from the first to before the second place by the text."""


def _statements(module: EsModule, root: Node) -> Iterator[_Edit]:
    for statement in root.children:
        if statement.type == "import_statement":
            module.imports.append(_import(module.path, statement))
            yield statement.start_byte, statement.end_byte, ""
        elif statement.type == "export_statement":
            yield _export(module, statement)


def _import(path: str, statement: Node) -> Import:
    names: dict[str, str] = {}
    for child in statement.named_children:
        if child.type == "import_attribute":
            raise LinkError(f"{path}: an import with attributes")
        if child.type != "import_clause":
            continue
        for clause in child.named_children:
            if clause.type == "identifier":
                names[_text(clause)] = "default"
            elif clause.type == "namespace_import":
                names[_text(clause.named_children[0])] = "*"
            else:
                names.update(_specifiers(clause))
    return Import(_source(path, statement), names)


def _specifiers(clause: Node) -> dict[str, str]:
    """Of `{a, b as c}`: `a` by `a`, `b` by `c`."""
    found = {}
    for specifier in clause.named_children:
        if specifier.type in ("import_specifier", "export_specifier"):
            name = _text(_of(specifier, "name"))
            alias = specifier.child_by_field_name("alias")
            found[name if alias is None else _text(alias)] = name
    return found


def _export(module: EsModule, statement: Node) -> _Edit:
    declaration = statement.child_by_field_name("declaration")
    value = statement.child_by_field_name("value")
    if declaration is not None:
        names = list(_declared(module.path, declaration))
        is_default = any(child.type == "default" for child in statement.children)
        module.exports.update({"default": names[0]} if is_default else {name: name for name in names})
        return statement.start_byte, declaration.start_byte, ""
    if value is not None:
        module.exports["default"] = _DEFAULT
        return statement.start_byte, value.start_byte, f"const {_DEFAULT} = "
    place, clauses = "", [child for child in statement.named_children if child.type == "export_clause"]
    if statement.child_by_field_name("source") is not None:
        path = _source(module.path, statement)
        module.imports.append(Import(path, {}))
        place = f'{MODULES}["{path}"]'
        if not clauses:
            # An `export *`.
            module.exports[f"...{place}"] = f"...{place}"
        place += "."
    for clause in clauses:
        module.exports.update({name: place + local for name, local in _specifiers(clause).items()})
    return statement.start_byte, statement.end_byte, ""


def _declared(path: str, declaration: Node) -> Iterator[str]:
    if declaration.type not in ("lexical_declaration", "variable_declaration"):
        yield _text(_of(declaration, "name"))
        return
    # An importer gets the value that there is when the module has run.
    if declaration.children[0].type == "let":
        raise LinkError(f"{path}: an `export let`")
    for declarator in declaration.named_children:
        if declarator.type == "variable_declarator":
            name = _of(declarator, "name")
            if name.type != "identifier":
                raise LinkError(f"{path}: an export of a pattern")
            yield _text(name)


def _found(module: EsModule, captures: Mapping[str, list[Node]]) -> Iterator[_Edit]:
    """What may stand anywhere."""
    if any(_text(node) == "import.meta" for node in captures.get("meta", ())):
        raise LinkError(f"{module.path}: an `import.meta`")
    module.awaits = any(_is_outside_functions(node) for node in captures.get("await", ()))
    for comment in captures.get("comment", ()):
        yield comment.start_byte, comment.end_byte, ""
    for call in captures.get("dynamic", ()):
        yield from _dynamic_import(module.path, call)


def _dynamic_import(path: str, call: Node) -> Iterator[_Edit]:
    arguments = _of(call, "arguments").named_children
    if len(arguments) != 1 or arguments[0].type not in ("string", "template_string"):
        raise LinkError(f"{path}: a dynamic import whose path is computed")
    head = arguments[0].named_children[0] if arguments[0].named_children else arguments[0]
    written = _text(head)
    if not written.startswith(("./", "../")):
        raise LinkError(f"{path}: a dynamic import of {written!r}, which is no relative path")
    function = _of(call, "function")
    yield function.start_byte, function.end_byte, LOAD
    slash = "/" if written.endswith("/") else ""
    yield head.start_byte, head.end_byte, _below(path, written) + slash


def _is_htm(text: Node) -> bool:
    """Whether it is a template of htm, which takes the white space around a line's end for none."""
    tag = text.parent.child_by_field_name("function") if text.parent else None
    return tag is not None and _text(tag) == "html"


def _lines_within(text: Node) -> range:
    """The lines that begin within a text."""
    return range(text.start_point.row + 1, text.end_point.row + 1)


def _is_outside_functions(node: Node) -> bool:
    parent: Node | None = node
    while parent is not None:
        if parent.type in _FUNCTIONS:
            return False
        parent = parent.parent
    return True


def _edited(source: bytes, edits: list[_Edit]) -> list[tuple[int, str]]:
    """The lines of `source` after the edits, each with its number, without those that the edits have emptied."""
    pieces, place, touched = list[bytes](), 0, set[int]()
    for start, end, text in sorted(edits):
        first = source.count(b"\n", 0, start)
        newlines = source.count(b"\n", start, end)
        touched.update(range(first, first + newlines + 1))
        pieces += [source[place:start], text.encode(), b"\n" * newlines]
        place = end
    lines = (b"".join(pieces) + source[place:]).decode().split("\n")
    return [(number, line) for number, line in enumerate(lines) if line.strip(" \t;") or number not in touched]


def _source(path: str, statement: Node) -> str:
    written = _text(_of(statement, "source"))[1:-1]
    if not written.startswith(("./", "../")):
        raise LinkError(f"{path}: an import of {written!r}, which is no relative path")
    return _below(path, written)


def _below(path: str, relative: str) -> str:
    """`relative` to the module at `path`, as a path below the page's directory."""
    below = posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))
    if below.startswith(".."):
        raise LinkError(f"{path}: {relative!r} is outside the page's directory")
    return below


def _of(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise LinkError(f"a {node.type} without {name}")
    return child


def _text(node: Node) -> str:
    return (node.text or b"").decode()
