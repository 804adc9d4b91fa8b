"""The texts that a person says in a decision: in an answer, in edited arguments, in the reason of a rejection. Pure.

Each number counts as a text: a card's is one to people in either form. Not theirs is what they have left of a call's
arguments as it was shown, nor the keys that the agent names.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentic_backend.stores.records import HumanDecision


def texts_of(decision: HumanDecision) -> list[str]:
    """The person's texts, in order, without blank ones."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    _changed(decision.words, decision.args, note)
    return texts


def keys_of(decision: HumanDecision, schema: Any) -> list[str]:
    """The keys that the person has made up: they are neither in `schema`, that of the request, nor were they shown."""
    named = {*_keys(schema), *_keys(decision.args)}
    return [key for key in dict.fromkeys(_keys(decision.words)) if key.strip() and key not in named]


def _keys(value: Any) -> Iterator[str]:
    """All keys in a JSON value, at any depth."""
    match value:
        case dict():
            for key, held in value.items():
                yield key
                yield from _keys(held)
        case list():
            for one in value:
                yield from _keys(one)


def with_texts(decision: HumanDecision, texts: Sequence[str], for_model: Sequence[str]) -> HumanDecision:
    """The decision with one of `texts` for each of its own, and one of `for_model` where agents are given it."""
    said = _filled(decision, texts)
    told = _filled(decision, for_model)
    return decision.with_words(said, None if told == said else told)


def _filled(decision: HumanDecision, texts: Sequence[str]) -> Any:
    left = iter(texts)
    return _changed(decision.words, decision.args, lambda _: next(left))


def _changed(value: Any, shown: Any, change: Callable[[str], str]) -> Any:
    """`value` with its texts changed, but for those that stand in `shown` at the same place."""
    match value:
        case bool():
            return value
        case str():
            return value if value == shown or not value.strip() else change(value)
        case int() | float():
            text = str(value)
            is_shown = isinstance(shown, int | float) and shown == value
            # What nobody objects to stays a number.
            return value if is_shown or (changed := change(text)) == text else changed
        case list():
            beside = shown if isinstance(shown, list) else []
            return [
                _changed(one, beside[index] if index < len(beside) else None, change) for index, one in enumerate(value)
            ]
        case dict():
            beside_key = shown if isinstance(shown, dict) else {}
            return {key: _changed(one, beside_key.get(key), change) for key, one in value.items()}
    return value
