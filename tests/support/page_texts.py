"""The texts in the chat page's own modules: which are translated, and which a user would see in English only."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import tree_sitter_javascript
from tree_sitter import Language, Node, Parser

import agentic_backend

WEB = Path(agentic_backend.__file__).parent / "web"
_NOT_OURS = ("vendor", "client", "locales")
_PARSER = Parser(Language(tree_sitter_javascript.language()))
_SEEN_ATTRIBUTES = {"alt", "aria-label", "aria-roledescription", "command", "label", "placeholder", "text", "title"}
_LETTERS = re.compile(r"[^\W\d_]{2,}")
# A word with a capital letter that others follow, or that ends a sentence.
_SENTENCE = re.compile(r"(\{\w+\} \w.*|(A |I |[A-Z][a-z’']+)(…|[.?!]|,? ?[\w{(].*|$))", re.DOTALL)
# What JavaScript and HTML call things, and errors that only the console shows.
_NOT_SHOWN = re.compile(r"[A-Z][a-zA-Z]+$")


def modules() -> list[Path]:
    return [file for file in sorted(WEB.rglob("*.js")) if file.relative_to(WEB).parts[0] not in _NOT_OURS]


@cache
def translations(language: str) -> dict[str, str]:
    """The entries of a file of `locales`, in their order there."""
    tree = _PARSER.parse((WEB / "locales" / f"{language}.js").read_bytes())
    pairs = [node for node in _nodes(tree.root_node) if node.type == "pair"]
    return {_string(pair.children[0]): _string(pair.children[-1]) for pair in pairs}


def translated(module: Path) -> set[str]:
    """The texts that the module gives to `t` or `plural`."""
    calls = [node for node in _nodes(_tree(module)) if _called(node) in ("t", "plural")]
    return {_string(part) for call in calls for part in call.children[-1].children if part.type == "string"}


def sentences(module: Path) -> set[str]:
    """All strings of the module that read like words for its user, translated or not."""
    strings = [node for node in _nodes(_tree(module)) if node.type == "string" and not _is_for_developers(node)]
    return {text for text in map(_string, strings) if _SENTENCE.fullmatch(text) and not _NOT_SHOWN.fullmatch(text)}


def untranslated(module: Path) -> set[str]:
    """The words in the module's templates that its user sees as they stand there."""
    templates = [node for node in _nodes(_tree(module)) if _called(node) == "html"]
    return {text for template in templates for text in _Words(_markup(template)).found}


class _Words(HTMLParser):
    """The texts and the attributes with words in a template; its substitutions have none."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(markup)
        self.close()

    def handle_data(self, data: str) -> None:
        if _LETTERS.search(data):
            self.found.add(" ".join(data.split()))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {
            f"{name}={value}" for name, value in attrs if name in _SEEN_ATTRIBUTES and _LETTERS.search(value or "")
        }


def _markup(template: Node) -> str:
    parts = template.children[-1].named_children
    text = "".join((part.text or b"").decode() if part.type == "string_fragment" else "0" for part in parts)
    # `<${Component}` is htm's.
    return text.replace("<0", "<x").replace("<//>", "</x>")


def _called(node: Node) -> str | None:
    if node.type != "call_expression":
        return None
    return (node.children[0].text or b"").decode()


def _is_for_developers(node: Node) -> bool:
    above = node.parent
    while above is not None:
        if above.type in ("import_statement", "throw_statement"):
            return True
        above = above.parent
    return False


@cache
def _tree(module: Path) -> Node:
    return _PARSER.parse(module.read_bytes()).root_node


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _string(node: Node) -> str:
    text = (node.text or b"").decode()
    if node.type == "string":
        return str(ast.literal_eval(text))
    return text
