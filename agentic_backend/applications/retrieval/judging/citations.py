"""The citations of an answer, checked while it streams or as a whole: a model may cite passages, and link to nothing.

Each form in which models cite becomes `[1]`, or `[1][2]`; citations of passages that there are not are removed, and so
are links, images and addresses that stand neither in a passage nor in the question. Code stays as it is. What is shown
is never removed later, so up to `HELD_BACK` characters wait until it is clear what they are; the same text gives the
same, in whatever pieces it comes. Pure.
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

HELD_BACK = 1_024
"""So many characters at most wait to be shown. What is not complete by then is no citation and no link."""
_KEPT_BEFORE = 64
_WIDEST_RANGE = 20
# More parentheses are in no link's address, as CommonMark has it.
_DEEPEST = 32
_LABEL = (
    r"(?:documents?|docs?|sources?|passages?|references?|refs?|quellen?|dokumente?|textstellen?|références?|réfs?"
    r"|citations?)\.?"
)
_ONE = rf"\^?(?:{_LABEL}\s*)?#?(?P<id>\d{{1,3}})(?::\d{{1,3}})?(?:†[^\]】\uff3d\u3015)]{{0,60}})?"
_BARE_ONE = _ONE.replace("?P<id>", "?:")
_BODY = re.compile(rf"\s*{_BARE_ONE}(?:\s*(?:[,;&–—-]|and|und|et|bis|to|à)\s*{_BARE_ONE})*\s*", re.I)
_IDS = re.compile(rf"(?P<joint>[–—-]|bis|to|à)?\s*{_ONE}", re.I)
_URL_START = r"(?<![^\W_])(?:https?://|ftps?://|www\.|mailto:)"
_URL = re.compile(rf"(?:{_URL_START})[^\s<>\"“”«»`\[\]|]*", re.I)
_PARTLY = re.compile(r"(?<![^\W_])(?:h|ht|htt|https?:?/?|f|ft|ftps?:?/?|w|ww|www|m|ma|mai|mail|mailt|mailto)$", re.I)
_SPECIAL = re.compile(
    r"(?P<code>`+)|(?P<bracket>[ \t]{0,8}!?\[)|(?P<wide>[ \t]{0,8}[【\uff3b\u3014])|(?P<paren>[ \t]{0,8}\()|(?P<tag><)"
    rf"|(?P<escape>\\)|(?P<close>\][(:])|(?P<tilde>~{{3,}})|(?P<url>{_URL_START})",
    re.I,
)
_BRACKET = re.compile(r"(?P<space>[ \t]*)(?P<image>!?)\[(?P<body>[^\[\]\n]{0,400})\]")
_OPEN_BRACKET = re.compile(r"[ \t]*!?\[[^\[\]\n]{0,400}")
_WIDE = re.compile(
    r"(?P<space>[ \t]*)[【\uff3b\u3014](?P<body>[^【】\uff3b\uff3d\u3014\u3015\n]{0,120})[】\uff3d\u3015]"
)
_OPEN_WIDE = re.compile(r"[ \t]*[【\uff3b\u3014][^【】\uff3b\uff3d\u3014\u3015\n]{0,120}")
_PAREN = re.compile(
    rf"(?P<space>[ \t]*)\((?:(?:see|siehe|vgl\.?|voir|cf\.?) )?(?P<body>{_LABEL} ?#?\d[^()\n]{{0,60}})\)", re.I
)
_OPEN_PAREN = re.compile(r"[ \t]*\((?:[^\W\d_]{0,12}\.? ?){0,2}(?:[ #\d][^()\n]{0,64})?")
_TAG = re.compile(r"<(?:(?P<auto>[a-z][a-z0-9+.-]{1,31}:[^\s<>]*)|/?(?P<name>[a-z][a-z0-9-]*)(?:\s[^<>]*)?/?)>", re.I)
_OPEN_TAG = re.compile(r"</?[a-z][^<>]*|</?", re.I)
_LINKING = re.compile(r"\b(?:href|src|srcset|action|data|background|poster|style)\s*=|://", re.I)
_INDEXED = re.compile(r"(?:(?<!\w)[^\W\d_]|\w*_\w*|[a-z]+\d+|[a-z]+[A-Z]\w*)$")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    text: str
    cited: tuple[int, ...]
    """The passages that it cites, in the order in which it does so first."""
    unknown: int
    """How many citations were removed, as there is no such passage."""
    links: int
    """How many links, images and addresses were removed."""


def check_citations(text: str, known: Collection[int], sources: Iterable[str] = ()) -> CheckedAnswer:
    """Checks a whole answer. `known` are the numbers of its passages, `sources` the texts whose addresses it may
    repeat: passages and question.
    """
    checking = CitationFilter(known, sources)
    checked = checking.feed(text) + checking.finish()
    return CheckedAnswer(checked, checking.cited, checking.unknown, checking.links)


def check_structured(text: str, known: Collection[int], sources: Iterable[str] = ()) -> CheckedAnswer:
    """Checks the texts in a whole answer that is JSON: numbers are values, and no citations. See `check_citations`."""
    # Read once: there may be many texts.
    sources = [url[0] for source in sources for url in _URL.finditer(source)]
    found: list[CheckedAnswer] = []

    def checked(value: Any) -> Any:
        if isinstance(value, str):
            found.append(check_citations(value, known, sources))
            return found[-1].text
        if isinstance(value, list):
            return [checked(each) for each in value]
        return {key: checked(each) for key, each in value.items()} if isinstance(value, dict) else value

    try:
        value = json.loads(text)
        left = checked(value)
        shown = text if left == value else json.dumps(left, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return check_citations(text, known, sources)
    cited = tuple(dict.fromkeys(number for each in found for number in each.cited))
    return CheckedAnswer(shown, cited, sum(each.unknown for each in found), sum(each.links for each in found))


class CitationFilter:
    """Checks an answer as it streams: `feed` each piece and show what it gives, and at the end what `finish` gives."""

    def __init__(self, known: Collection[int], sources: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._allowed = frozenset(_bare_url(found[0]) for source in sources for found in _URL.finditer(source))
        self._cited: dict[int, None] = {}
        self.unknown = 0
        """How many citations were removed so far."""
        self.links = 0
        """How many links, images and addresses were removed so far."""
        self._text = ""
        # Up to here the text has been dealt with; some of it stays, as what comes next depends on it.
        self._at = 0
        self._fence: _Fence | None = None
        # Whether code can't be told any more, as lists or HTML make it depend on what is around it: all is checked.
        self._no_code = False
        self._dropping = False
        # The last character that was shown, and whether something else stood behind it.
        self._last, self._seam = "", False
        # What the line begins with, as long as that is only marks of lists and quotations; then None.
        self._marks: str | None = ""

    @property
    def cited(self) -> tuple[int, ...]:
        """The passages that were cited so far, in the order in which they first were."""
        return tuple(self._cited)

    def feed(self, piece: str) -> str:
        """What can be shown after this piece."""
        self._text += piece
        return self._shown(final=False)

    def finish(self) -> str:
        """What was held back; the answer is complete."""
        return self._shown(final=True)

    def _shown(self, *, final: bool) -> str:
        shown: list[str] = []
        while self._at < len(self._text):
            if self._dropping:
                end = _URL_END.search(self._text, self._at)
                self._pass(end.start() if end else len(self._text))
                self._dropping = end is None
                continue
            if self._fence is not None:
                taken = self._take_fenced(final)
                if taken is not None:
                    self._last, self._seam = "`", False
            else:
                taken = self._take(final)
                if taken is not None:
                    taken = taken[0], self._joined(taken[1], altered=taken[1] != self._text[self._at : taken[0]])
            if taken is None:
                break
            shown.append(taken[1])
            self._pass(taken[0])
        cut = max(0, self._at - _KEPT_BEFORE)
        self._text, self._at = self._text[cut:], self._at - cut
        return "".join(shown)

    def _pass(self, at: int) -> None:
        _, line, rest = self._text[self._at : at].rpartition("\n")
        if line:
            self._marks = ""
        if self._marks is not None:
            self._marks += rest
            if len(self._marks) > _KEPT_BEFORE or self._marks.strip(" \t>*+-0123456789.)"):
                self._marks = None
        self._at = at

    def _joined(self, text: str, *, altered: bool) -> str:
        """The text as it is shown after what was: what was taken out between them must not make one of both."""
        self._seam |= altered
        if text and self._last:
            first = text[0]
            one = self._seam and (
                (_WORD.match(self._last) and _WORD.match(first)) or (self._last in "wW" and first == ".")
            )
            if one or (self._last == "]" and first in "(:"):
                text = f" {text}"
        if text:
            self._last, self._seam = text[-1], altered
        return text

    def _take(self, final: bool) -> tuple[int, str] | None:
        """The next part of the text: where it ends and what is shown of it; None, if it isn't known yet."""
        text, at = self._text, self._at
        found = _SPECIAL.search(text, at)
        plain = found.start() if found else len(text) if final else _undecided(text, at)
        if plain > at:
            return plain, text[at:plain]
        if found is None:
            return None
        window = text[at : at + HELD_BACK]
        complete = final or len(window) == HELD_BACK
        kind = found.lastgroup
        if kind == "code" or kind == "tilde":
            return self._take_code(window, complete)
        if kind == "bracket":
            return self._take_bracket(window, complete)
        if kind == "wide":
            return self._take_marked(window, complete, _WIDE, _OPEN_WIDE, found.end() - at)
        if kind == "paren":
            return self._take_marked(window, complete, _PAREN, _OPEN_PAREN, found.end() - at)
        if kind == "tag":
            return self._take_tag(window, complete)
        if kind == "url":
            return self._take_url(window, complete)
        if kind == "close":
            # The end of a link whose beginning is none here, as it has a line break or brackets in it.
            return at + 2, f"] {window[1]}"
        return None if len(window) == 1 and not complete else (at + min(2, len(window)), window[:2])

    def _take_bracket(self, window: str, complete: bool) -> tuple[int, str] | None:
        at = self._at
        found = _BRACKET.match(window)
        if found is None:
            open_bracket = _OPEN_BRACKET.match(window)
            assert open_bracket is not None
            if open_bracket.end() == len(window) and not complete:
                return None
            opening = window.index("[") + 1
            return at + opening, window[:opening]
        rest = window[found.end() :]
        if not rest and not complete:
            return None
        ids = self._ids(found["body"]) if self._may_cite(found) else None
        end = found.end()
        if rest.startswith("("):
            length = _closed(rest)
            if length is None and not complete:
                return None
            return at + end + (length or 1), self._link(found, ids, rest[: length or 0])
        if ids is not None:
            shown = self._citations(ids)
            text = f"{found['space']}{shown}" if shown else ""
        else:
            # What is in it may be an address.
            end = window.index("[") + 1
            return at + end, window[:end]
        if rest.startswith(":") and shown and self._marks is not None:
            # `[1]: address` would make a link of each `[1]`.
            return at + end + 1, f"{text} :"
        return at + end, text

    def _link(self, found: re.Match[str], ids: list[int] | None, target: str) -> str:
        """What is shown of a link or image: itself, if its address may be shown, otherwise its text."""
        inner = target[1:-1].strip().strip("<>").split()
        if ids is None and inner and _bare_url(inner[0].rstrip(">")) in self._allowed and len(inner) == 1:
            return f"{found[0]}{target}"
        self.links += 1
        if ids is not None:
            shown = self._citations(ids)
            return (f"{found['space']}{shown}" if shown else "") + ("" if target else " (")
        text = CitationFilter(self._known)
        text._allowed = self._allowed
        shown = text.feed(found["body"]) + text.finish()
        self.unknown, self.links = self.unknown + text.unknown, self.links + text.links
        self._cited.update(text._cited)
        # Without its target: "(" alone would be one again.
        return f"{found['space']}{shown}" + ("" if target else " (")

    def _take_marked(
        self, window: str, complete: bool, whole: re.Pattern[str], begun: re.Pattern[str], opening: int
    ) -> tuple[int, str] | None:
        found = whole.match(window)
        ids = self._ids(found["body"]) if found is not None else None
        if found is not None and ids is not None:
            shown = self._citations(ids)
            return self._at + found.end(), f"{found['space']}{shown}" if shown else ""
        if found is None and not complete:
            begins = begun.fullmatch(window)
            if begins is not None:
                return None
        return self._at + opening, window[:opening]

    def _take_tag(self, window: str, complete: bool) -> tuple[int, str] | None:
        found = _TAG.match(window)
        if window[:2] in ("<!", "<?"):
            # A comment would hide marks of code.
            return self._at + 1, "\\<"
        if found is None:
            if not complete and _OPEN_TAG.fullmatch(window):
                return None
            return self._at + 1, "<" if complete or len(window) > 1 else window
        self._no_code |= self._marks is not None
        if found["auto"] and _bare_url(found["auto"]) in self._allowed:
            return self._at + found.end(), found[0]
        if found["auto"] or found["name"].lower() in ("a", "img") or _LINKING.search(found[0]):
            self.links += not found[0].startswith("</")
            return self._at + found.end(), ""
        return self._at + found.end(), found[0]

    def _take_url(self, window: str, complete: bool) -> tuple[int, str] | None:
        found = _URL.match(self._text, self._at, self._at + len(window))
        assert found is not None
        if found.end() == self._at + len(window) and not complete:
            return None
        url = _bare_url(found[0])
        if url in self._allowed:
            return self._at + len(url), url
        self.links += 1
        if len(found[0]) == HELD_BACK:
            self._dropping = True
            return self._at + HELD_BACK, ""
        return self._at + len(url), ""

    def _take_code(self, window: str, complete: bool) -> tuple[int, str] | None:
        run = len(window) - len(window.lstrip(window[0]))
        if run == len(window) and not complete:
            return None
        if run >= 3 and self._marks is not None:
            line = window.partition("\n")[0]
            if line == window and not complete:
                return None
            if self._opens_fence(line, run):
                return self._at + len(line), line
        if window[0] == "~" or self._no_code:
            return self._at + run, window[:run]
        length = _code_span(window, run, complete)
        return None if length is None else (self._at + length, window[:length])

    def _opens_fence(self, line: str, run: int) -> bool:
        if line[0] == "`" and "`" in line[run:]:
            return False
        indent = self._marks or ""
        # In a list or a quotation it would end with these.
        self._no_code |= bool(indent.strip()) or len(indent.expandtabs(4)) > 3
        if not self._no_code:
            self._fence = _Fence(line[0], run, len(indent))
        return not self._no_code

    def _take_fenced(self, final: bool) -> tuple[int, str] | None:
        """Of a fenced code block the next line, up to its line break; the fence ends with its like, or its list."""
        assert self._fence is not None
        text, at = self._text, self._at
        if text[at] != "\n" and not (at == 0 or text[at - 1] == "\n"):
            end = text.find("\n", at)
            return (len(text) if end < 0 else end), text[at : len(text) if end < 0 else end]
        start = at + 1 if text[at] == "\n" else at
        window = text[start : start + HELD_BACK]
        line = window.partition("\n")[0]
        if line == window and not final and len(window) < HELD_BACK and self._fence.may_end(line):
            return None
        if self._fence.ends(line):
            self._fence = None
            return start + len(line), text[at : start + len(line)]
        if self._fence.left(line):
            self._fence, self._no_code = None, True
            return start, text[at:start]
        return start + len(line), text[at : start + len(line)]

    def _may_cite(self, found: re.Match[str]) -> bool:
        """Whether a bracket is no index, as in `a[1]`, and no image."""
        if found["image"]:
            return False
        before = self._text[max(0, self._at - 40) : self._at]
        return bool(found["space"]) or _INDEXED.search(before) is None

    def _ids(self, body: str) -> list[int] | None:
        """The numbers of a citation, ranges written out; None, if it is none."""
        if _BODY.fullmatch(body) is None:
            return None
        ids: list[int] = []
        for found in _IDS.finditer(body):
            number = int(found["id"])
            if found["joint"] and ids:
                if not 0 < number - ids[-1] <= _WIDEST_RANGE:
                    return None
                ids += range(ids[-1] + 1, number)
            ids.append(number)
        return ids if all(ids) else None

    def _citations(self, ids: Iterable[int]) -> str:
        known = []
        for number in dict.fromkeys(ids):
            if number in self._known:
                known.append(f"[{number}]")
                self._cited[number] = None
            else:
                self.unknown += 1
        return "".join(known)


_WORD = re.compile(r"[\w:/]")
_URL_END = re.compile(r"[\s<>\"“”«»`\[\]|]")


class _Fence:
    """A fenced code block that is open."""

    def __init__(self, mark: str, length: int, indent: int) -> None:
        self._mark, self._length, self._indent = mark, length, indent

    def ends(self, line: str) -> bool:
        bare = line.strip()
        return len(bare) >= self._length and not bare.strip(self._mark) and _indent(line) <= 3

    def left(self, line: str) -> bool:
        """Whether it may be over with the line: it is no more in the list that the block may be in."""
        bare = line.strip()
        may_end = len(bare) >= self._length and not bare.strip(self._mark) and self._indent > 0
        return bool(bare) and (_indent(line) < self._indent or (may_end and _indent(line) > 3))

    def may_end(self, line: str) -> bool:
        """Whether a line that is not complete may be the last one, or outside."""
        bare = line.strip()
        return not bare.strip(self._mark) or self.left(line)


def _code_span(window: str, run: int, complete: bool) -> int | None:
    """How long the code is that begins with so many marks, or these, if it doesn't end; None, if it isn't known yet.

    It is in one line, and not across cells of a table, where it would be none.
    """
    for end in re.finditer(r"`+|[\n|]", window[run:]):
        if end[0] in "\n|":
            return run
        if len(end[0]) == run:
            return None if run + end.end() == len(window) and not complete else run + end.end()
    return run if complete else None


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def _bare_url(url: str) -> str:
    """An address without the marks of the sentence around it."""
    url = url.rstrip(".,;:!?'*_…")
    while url.endswith(")") and url.count(")") > url.count("("):
        url = url[:-1].rstrip(".,;:!?'*_…")
    return url


def _undecided(text: str, at: int) -> int:
    """From where on the end of a text may be the beginning of something."""
    end = len(text)
    if text.endswith("]"):
        end -= 1
    else:
        end -= text.endswith("!")
        end = max(len(text[:end].rstrip(" \t")), end - 8)
    partly = _PARTLY.search(text, max(at, len(text) - 8))
    if partly is not None:
        end = min(end, partly.start())
    tildes = len(text.rstrip("~"))
    return max(at, min(end, tildes))


def _closed(text: str) -> int | None:
    """How long the parentheses are that the text begins with: None, if they don't end yet, 0, if too many are open."""
    depth, escaped = 0, False
    for at, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "(":
            depth += 1
            if depth > _DEEPEST:
                return 0
        elif character == ")":
            depth -= 1
            if depth == 0:
                return at + 1
    return None
