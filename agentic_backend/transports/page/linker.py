"""Linker: makes few files of the page's many modules, so that a browser needs few requests, without a build step.

One file has the entry and all that it imports; each module that is imported dynamically has one more, with what it
imports beyond that. A module becomes a function that runs once and leaves its exports in a record of modules; a file
that is loaded later finds there what runs already, so no module runs twice. It is linked by the server, not by
esbuild or Rollup when something is committed: the result in the repository would be a merge conflict for each two
changes, and Node would be needed to change the page.

A browser never asks again for an address that it once failed to import from, so each further attempt has another query.

Two things are not as in a browser's own linking: a name that is imported keeps the value that it has when its module
has run, and only what belongs to the entry may await outside functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agentic_backend.transports.page.es_module import LOAD, MODULES, EsModule, Import, LinkError, read_module
from agentic_backend.transports.page.source_map import Origin, source_map

_BEGIN = f"""\
const {MODULES} = {{}};
const __loads = {{}};
const __failures = {{}};
const {LOAD} = (path) =>
(__loads[path] ??= import(`./${{path}}${{__failures[path] ? `?${{__failures[path]}}` : ""}}`).then(
({{ default: link }}) => link({MODULES}, {LOAD}),
(error) => {{ delete __loads[path]; __failures[path] = (__failures[path] ?? 0) + 1; throw error; }},
));
"""


@dataclass(frozen=True, slots=True)
class Linked:
    """A linked file, and its source map."""

    code: bytes
    source_map: bytes


class Linker:
    """Links the modules of `sources`, which are texts by path. `entry` is what the page begins with."""

    def __init__(self, sources: Mapping[str, bytes], entry: str) -> None:
        self._sources = sources
        self._entry = entry
        self._modules: dict[str, EsModule] = {}
        self._first = self._closure(entry, frozenset())
        """The modules of the entry's file, in the order in which they run."""

    def link(self, path: str) -> Linked:
        """The file of the module at `path`: the entry, or one that is imported dynamically. Raises LinkError."""
        if path == self._entry:
            return _linked(path, [self._modules[each] for each in self._first], _BEGIN, "")
        order = self._closure(path, frozenset(self._first))
        modules = [self._modules[each] for each in order]
        for module in modules:
            if module.awaits:
                raise LinkError(f"{module.path}: awaits outside functions, and is not loaded at the page's start")
        # It is called with the record and the function of the entry's file.
        begin, end = f"export default ({MODULES}, {LOAD}) => {{\n", f'return {MODULES}["{path}"];\n}};\n'
        return _linked(path, modules, begin, end)

    def _closure(self, root: str, known: frozenset[str]) -> list[str]:
        """`root` after all that it imports, in the order of evaluation, without the `known`."""
        order: dict[str, None] = {}
        self._visit(root, known, order, ())
        return list(order)

    def _visit(self, path: str, known: frozenset[str], order: dict[str, None], above: tuple[str, ...]) -> None:
        if path in known or path in order:
            return
        if path in above:
            raise LinkError(f"a cycle of imports: {' → '.join((*above[above.index(path) :], path))}")
        for imported in self._module(path, above).imports:
            self._visit(imported.path, known, order, (*above, path))
        order[path] = None

    def _module(self, path: str, above: tuple[str, ...]) -> EsModule:
        if path not in self._modules:
            if path not in self._sources:
                raise LinkError(f"{above[-1] if above else 'the page'}: imports {path}, which is not there")
            self._modules[path] = read_module(path, self._sources[path])
        return self._modules[path]


def _linked(path: str, modules: list[EsModule], begin: str, end: str) -> Linked:
    lines = begin.splitlines()
    origins: list[Origin | None] = [None] * len(lines)
    for index, module in enumerate(modules):
        lines.append(_head(module))
        origins.append(None)
        lines += [line for _, line in module.lines]
        origins += [(index, number) for number, _ in module.lines]
        lines.append(_foot(module))
        origins.append(None)
    lines += end.splitlines()
    lines.append("// Licences of the libraries: /static/vendor/LICENSES.md")
    lines.append(f"//# sourceMappingURL={path.rpartition('/')[2]}.map")
    # From the map, which is as deep as the linked file and one deeper by the version, to the single sources.
    up = "../" * (path.count("/") + 1)
    sources = [up + module.path for module in modules]
    return Linked("\n".join(lines).encode(), source_map(sources, origins))


def _head(module: EsModule) -> str:
    function = "await (async () => {" if module.awaits else "(() => {"
    imports = "".join(_binding(each) for each in module.imports if each.names)
    return f'{MODULES}["{module.path}"] ??= {function}{imports}'


def _binding(imported: Import) -> str:
    place = f'{MODULES}["{imported.path}"]'
    some = ", ".join(
        local if local == name else f"{name}: {local}" for local, name in imported.names.items() if name != "*"
    )
    all_of_it = [f"const {local} = {place};" for local, name in imported.names.items() if name == "*"]
    return "".join(all_of_it) + (f"const {{ {some} }} = {place};" if some else "")


def _foot(module: EsModule) -> str:
    exports = ", ".join(name if name == value else f"{name}: {value}" for name, value in module.exports.items())
    return f"return {{ {exports} }};}})();"
