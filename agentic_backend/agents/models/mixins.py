"""Gives models of a provider's class the methods of mixins of the server."""

from functools import lru_cache
from types import new_class

from langchain_core.language_models import BaseChatModel


def with_mixins(model: BaseChatModel, *mixins: type) -> BaseChatModel:
    """Make `model` one of a subclass of its class, in which `mixins` precede it; return it."""
    if mixins:
        model.__class__ = _mixed(type(model), mixins)
    return model


# One for all models of a class: to make a class of Pydantic takes longer than to make a model, and half a megabyte.
@lru_cache(maxsize=64)
def _mixed(provider: type[BaseChatModel], mixins: tuple[type, ...]) -> type[BaseChatModel]:
    # A subclass, not a wrapper: LangChain and authors may check for the provider's class.
    return new_class(provider.__name__, (*mixins, provider))
